"""One form for every way to write the same boxes, so that a rule said otherwise has the same points.

A union of boxes becomes the set of its largest products: a product leaves each column some of its values, and
one that fits into no larger product of the same union is there however the union was written. They are found
by consensus: two products leave a third, with what both leave of all columns but one and what either leaves
of that one; products that lie within another go (Quine 1955, for values instead of truth).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import reduce
from itertools import product

from ocbnn.language.expressions import And, text
from ocbnn.regions.intervals import HalfSpace, Interval
from ocbnn.regions.limits import codes_of
from ocbnn.regions.sets import Box, Everywhere, Pieces, Region, Single, Union
from ocbnn.schema import Column, Label, Schema

MOST_BOXES = 64
"""A union whose form would have more products or boxes than this stays as it was written, but sorted."""
MOST_TRIED = 1024
"""How many products are looked at for that."""
MOST_LISTED = 10_000
"""Whole numbers with gaps are listed one by one up to so many."""

Values = tuple[Interval, ...] | frozenset[Label]
"""What is left of a column: sorted intervals that do not touch; for categories and binary columns a set."""
Product = Mapping[str, Values]
"""The values of some columns; of others all."""


def canonical(parts: Iterable[Single], schema: Schema) -> Region:
    """The union of the parts in one form, whatever their order, and for boxes however they are cut.

    The form holds the same points. Half-spaces and other conditions are sorted, but not merged. Boxes without
    any possible input stay as they were written, for the error that will say so.
    """
    parts = sorted(dict.fromkeys(parts), key=lambda part: part.text())
    boxes = [part for part in parts if isinstance(part, Box | Everywhere)]
    possible = [box for box in boxes if not len(box.limits(schema).empty_columns())]
    merged = _merged([_product(box.pieces.box, schema) for box in possible], schema)
    if merged is not None:
        boxes = [*merged, *(box for box in boxes if box not in possible)]
    if Everywhere() in boxes:
        return Everywhere()
    others = [_sorted(part) for part in parts if not isinstance(part, Box | Everywhere)]
    regions = sorted(dict.fromkeys([*boxes, *others]), key=lambda region: region.text())
    return regions[0] if len(regions) == 1 else Union(tuple(regions))


def _sorted(region: Single) -> Region:
    box, faces, rest = region.pieces
    parts = [each for one in rest for each in (one.items if isinstance(one, And) else (one,))]
    return Pieces(box, tuple(sorted(faces, key=HalfSpace.text)), tuple(sorted(parts, key=text))).region()


# Products of the values of columns --------------------------------------------------------------------------


def _product(box: Box, schema: Schema) -> Product:
    values = {name: _values(schema.column(name), box) for name in box.columns()}
    return {name: left for name, left in values.items() if not _is_everything(left, schema.column(name))}


def _values(column: Column, box: Box) -> Values:
    interval, labels = box.intervals.get(column.name, Interval()), box.levels.get(column.name)
    if column.kind == "category":
        return frozenset(column.levels) & frozenset(column.levels if labels is None else labels)
    codes = codes_of(column, interval, labels)
    if column.kind == "binary":
        assert codes is not None
        return frozenset(codes.tolist())
    found = [interval] if codes is None else [Interval(code, code) for code in codes.tolist()]
    if column.kind == "integer":
        found = [Interval(*each.closed_ends(integer=True)) for each in found]
    return _joined(found, column)


def _joined(intervals: Iterable[Interval], column: Column) -> Values:
    """Their union."""
    joined: list[Interval] = []
    for each in sorted(intervals, key=lambda each: (each.low, not each.low_closed)):
        if each.is_empty:
            continue
        if joined and _touch(joined[-1], each, column):
            last = joined[-1]
            high, closed = max((last.high, last.high_closed), (each.high, each.high_closed))
            joined[-1] = Interval(last.low, high, last.low_closed, closed)
        else:
            joined.append(each)
    return tuple(joined)


def _touch(left: Interval, right: Interval, column: Column) -> bool:
    if column.kind == "integer":
        return right.low <= left.high + 1
    return right.low < left.high or (right.low == left.high and (left.high_closed or right.low_closed))


def _either(left: Values, right: Values, column: Column) -> Values:
    if isinstance(left, frozenset) and isinstance(right, frozenset):
        return left | right
    return _joined([*left, *right], column)


def _both(left: Values, right: Values, column: Column) -> Values:
    if isinstance(left, frozenset) and isinstance(right, frozenset):
        return left & right
    return _joined([first.intersect(second) for first, second in product(left, right)], column)  # type: ignore[union-attr,arg-type]


def _is_everything(values: Values, column: Column) -> bool:
    if isinstance(values, frozenset):
        return len(values) == (2 if column.kind == "binary" else len(column.levels))
    return any(each.is_everything for each in values)


def _intersection(left: Product, right: Product, schema: Schema) -> Product | None:
    found = {**left, **right}
    for name in left.keys() & right.keys():
        found[name] = _both(left[name], right[name], schema.column(name))
    return found if all(found.values()) else None


def _within(inner: Product, outer: Product, schema: Schema) -> bool:
    return all(
        name in inner and _both(inner[name], values, schema.column(name)) == inner[name]
        for name, values in outer.items()
    )


def _consensus(left: Product, right: Product, name: str, schema: Schema) -> Product | None:
    """All points that differ from a point of each in this column alone."""
    rest = _intersection(
        {other: values for other, values in left.items() if other != name},
        {other: values for other, values in right.items() if other != name},
        schema,
    )
    if rest is None:
        return None
    column = schema.column(name)
    either = _either(left[name], right[name], column)
    return rest if _is_everything(either, column) else {**rest, name: either}


def _largest(products: Iterable[Product], schema: Schema) -> list[Product] | None:
    """The products that fit into no other of the same union; None where they are too many."""
    found: list[Product] = []
    waiting = list(products)
    for _ in range(MOST_TRIED):
        if not waiting or len(found) > MOST_BOXES:
            break
        candidate = waiting.pop()
        if any(_within(candidate, known, schema) for known in found):
            continue
        found = [known for known in found if not _within(known, candidate, schema)]
        for known in found:
            joint = (_consensus(candidate, known, name, schema) for name in candidate.keys() & known.keys())
            waiting += [each for each in joint if each is not None]
        found.append(candidate)
    return None if waiting or len(found) > MOST_BOXES else found


# And back to boxes ------------------------------------------------------------------------------------------


def _merged(products: Iterable[Product], schema: Schema) -> list[Box | Everywhere] | None:
    """The boxes of the largest products; None where they are too many."""
    largest = _largest(products, schema)
    if largest is None:
        return None
    pieces = [[_pieces(values, schema.column(name)) for name, values in each.items()] for each in largest]
    if sum(math.prod(len(options) for options in each) for each in pieces) > MOST_BOXES:
        return None
    return [
        reduce(Box.intersect, chosen) if chosen else Everywhere()
        for each in pieces
        for chosen in product(*each)
    ]


def _pieces(values: Values, column: Column) -> list[Box]:
    """Boxes of one column that together leave it these values; single numbers stand together in one."""
    if isinstance(values, frozenset):
        if column.kind == "category":
            return [Box(levels={column.name: values})]
        values = tuple(Interval(float(code), float(code)) for code in sorted(values))
    numbers = [each.low for each in values if each.is_point]
    count = sum(each.high - each.low + 1 for each in values)
    if column.kind == "integer" and len(values) > 1 and count <= MOST_LISTED:
        listed = (range(int(each.low), int(each.high) + 1) for each in values)
        return [Box(levels={column.name: frozenset(float(n) for run in listed for n in run)})]
    wide = [Box({column.name: each}) for each in values if not each.is_point]
    if not numbers:
        return wide
    alone = Box({column.name: Interval(numbers[0], numbers[0])})
    return [alone if len(numbers) == 1 else Box(levels={column.name: frozenset(numbers)}), *wide]
