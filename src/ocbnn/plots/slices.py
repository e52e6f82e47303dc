"""What a posterior says along one column while all others are held: plain numbers, before any picture.

A `Slice` holds nothing of single rows, so that a report may keep it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float

from ocbnn.checking.check import Rule, as_rule_terms
from ocbnn.checking.draws import rule_name
from ocbnn.errors import OCBNNError
from ocbnn.model import Model
from ocbnn.posterior.draws import Posterior, base_prior_draws
from ocbnn.posterior.predict import Summary, predict
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.requirement import Shares
from ocbnn.schema import Column, Schema

Kind = Literal["function", "observation"]
COVERAGE = (0.5, 0.9)
GRID = 121
FUNCTIONS, PRIOR_DRAWS = 15, 400
"""Functions of a prior that are shown singly, and draws that its bands are made of."""
TINY = 1e-12
"""What is nearer to 0 than this is 0 with a rounding error."""
ROOM = 0.05
"""How far a slice goes past the observed range on either side, as a share of it."""


Band = tuple[tuple[float, ...], tuple[float, ...]]
"""The low and the high end at every point."""


@dataclass(frozen=True)
class Curve:
    """One quantity along a slice: its mean and, for each coverage, the central interval."""

    label: str
    mean: tuple[float, ...]
    bands: tuple[Band, ...] = ()


@dataclass(frozen=True)
class RuledZone:
    """Where along a slice a rule applies, and what it forbids there.

    Attributes:
        rule: its name, or its text.
        inside: for every point of the slice.
        forbidden: bands of the curve's quantity, each as its low and high end at every point, cut at the
            slice's `extent`; ends are equal where nothing is forbidden. Empty where there is more than one
            curve, or what the rule forbids is not a band.
    """

    rule: str
    inside: tuple[bool, ...]
    forbidden: tuple[Band, ...] = ()


@dataclass(frozen=True)
class Slice:
    """What a posterior says along one column.

    Attributes:
        column, unit, discrete: what varies; a discrete column has values one by one.
        positions: coded values; `labels` are their names, for a category.
        observed: the range that data were seen in.
        held: the other columns' values, as text.
        quantity, quantity_unit: what the vertical axis is; `extent` is how far it goes.
        coverage: of the curves' bands.
        curves: one for y, or one for each class that is shown.
        zones: of the rules that apply somewhere.
    """

    column: str
    unit: str | None
    discrete: bool
    positions: tuple[float, ...]
    labels: tuple[str, ...]
    observed: tuple[float, float]
    held: dict[str, str]
    quantity: str
    quantity_unit: str | None
    extent: tuple[float, float]
    coverage: tuple[float, ...]
    curves: tuple[Curve, ...]
    zones: tuple[RuledZone, ...] = ()

    @property
    def is_probability(self) -> bool:
        """Whether the curves are probabilities of classes."""
        return self.extent == (0.0, 1.0) and self.curves[0].label.startswith("P(")


def sliced(
    posterior: Posterior,
    column: str,
    *,
    at: Mapping[str, Any] | None = None,
    rules: Sequence[Rule] | None = None,
    coverage: float | Sequence[float] = COVERAGE,
    kind: Kind = "function",
    span: tuple[float, float] | None = None,
) -> Slice:
    """The slice along a column.

    Args:
        posterior: draws of a posterior, or of a prior.
        column: what varies.
        at: raw values of other columns; default: the middle of the data.
        rules: whose zones are marked; default: the model's own.
        coverage: of the bands, one or several.
        kind: "function" for what rules speak of, "observation" with the noise of a new value; classes have
            their probabilities, which are both.
        span: first and last value; default: the observed range and the rules' regions.
    """
    schema = posterior.schema
    place = schema.index(column)
    if kind not in ("function", "observation"):
        raise OCBNNError(f'A band is of the "function" or of the "observation", not of {kind!r}.')
    shares = coverages(coverage)
    base = reference_row(schema, at)
    constraints = [(rule_name(term), term.rule) for term in as_rule_terms(posterior, rules)]
    positions = slice_positions(schema, column, base, [rule for _, rule in constraints], span)
    coded = _along(schema, column, base, positions)
    curves, quantity = _curves(posterior, coded, shares, kind)
    extent = _extent(posterior, curves, _limits(posterior, [rule for _, rule in constraints], coded))
    zones = [_zone(posterior, name, rule, coded, extent, len(curves)) for name, rule in constraints]
    described = schema.columns[place]
    raw = schema.decode(coded)[column]
    return Slice(
        column=column,
        unit=described.unit,
        discrete=described.kind == "category" or (described.kind != "continuous" and len(positions) <= 12),
        positions=tuple(float(value) for value in positions),
        labels=tuple(str(value) for value in raw) if described.kind == "category" else (),
        observed=described.observed,
        held=held_values(schema, base, without=column),
        quantity=quantity,
        quantity_unit=None if posterior.classes else posterior.target.unit,
        extent=extent,
        coverage=shares,
        curves=curves,
        zones=tuple(zone for zone in zones if any(zone.inside)),
    )


@dataclass(frozen=True)
class PriorSlice:
    """What the base prior says along one column: the slice of many functions, and some of them singly.

    Attributes:
        shown: mean and bands; of several classes, the first one's.
        functions: one function after the other, each at the positions of the slice.
    """

    shown: Slice
    functions: tuple[tuple[float, ...], ...]


def prior_sliced(
    model: Model,
    column: str,
    *,
    at: Mapping[str, Any] | None = None,
    rules: Sequence[Rule] | None = None,
    functions: int = FUNCTIONS,
    key: int = 0,
) -> PriorSlice:
    """The slice of the base prior along a column, before any row and before the rules that are marked.

    Args:
        model: whose base prior is drawn from; its rows do not matter.
        column: what varies.
        at: raw values of other columns; default: the middle of the data.
        rules: whose zones are marked; default: the model's own.
        functions: how many are shown singly, of 400 that bands are made of.
        key: seed of the draws.
    """
    if isinstance(functions, bool) or not isinstance(functions, int) or not 0 <= functions <= PRIOR_DRAWS:
        raise OCBNNError(f"functions is a whole number up to {PRIOR_DRAWS}, not {functions!r}.")
    prior = base_prior_draws(model, PRIOR_DRAWS, key)
    shown = sliced(prior, column, at=at, rules=rules)
    coded = _along(prior.schema, column, reference_row(prior.schema, at), shown.positions)
    values = prior.values(coded, prior.flat[:functions])
    if prior.classes:
        values = values[..., 1 if len(prior.classes) == 2 else 0]
    first = shown.curves[:1]
    shown = replace(shown, curves=first, quantity=first[0].label)
    return PriorSlice(shown, tuple(_floats(each) for each in values))


def _along(
    schema: Schema, column: str, base: Float[np.ndarray, " Q"], positions: Sequence[float] | np.ndarray
) -> Float[np.ndarray, "n Q"]:
    """Coded rows that differ in one column."""
    coded = np.repeat(base[None], len(positions), axis=0)
    coded[:, schema.index(column)] = positions
    return coded


def coverages(given: Any) -> tuple[float, ...]:
    """The coverage of each band; a number alone is that of one band."""
    shares = (given,) if isinstance(given, int | float | str) else given
    try:
        found = tuple(float(share) for share in shares)
    except (TypeError, ValueError):
        raise OCBNNError(f"coverage is a number, or several, such as (0.5, 0.9), not {given!r}.") from None
    if not all(0 < share < 1 for share in found):
        raise OCBNNError(f"A band's coverage lies strictly between 0 and 1, not at {given!r}.")
    return found


def reference_row(schema: Schema, at: Mapping[str, Any] | None = None) -> Float[np.ndarray, " Q"]:
    """The middle of the data in model units, coded, with the raw values of `at` in their places."""
    row = schema.to_raw(np.zeros((1, schema.width)))[0]
    for index, column in enumerate(schema.columns):
        if column.kind == "category":
            row[index] = max(row[index], 0.0)  # nothing is at 0 in model units but an unseen label
        elif not column.observed[0] <= row[index] <= column.observed[1]:
            middle = sum(column.observed) / 2.0  # a schema in raw units has no middle of its own
            row[index] = middle if column.kind == "continuous" else np.floor(middle)
    for name, value in (at or {}).items():
        row[schema.index(name)] = schema.column(name).encode(pd.Series([value], name=name))[0]
    return row


def slice_positions(
    schema: Schema,
    column: str,
    base: Float[np.ndarray, " Q"],
    rules: Sequence[Constraint],
    span: tuple[float, float] | None = None,
) -> Float[np.ndarray, " n"]:
    """Coded values along a column: all levels, all of few whole numbers, or a grid."""
    place = schema.index(column)
    described = schema.columns[place]
    if described.kind == "category":
        return np.arange(len(described.levels), dtype=float)
    if described.kind == "binary":
        return np.array([0.0, 1.0])
    low, high = _span(schema, described, base, rules) if span is None else span
    if described.kind == "integer":
        low, high = np.ceil(low), np.floor(high)
        if high - low < GRID:
            return np.arange(low, high + 1.0)
        return np.unique(np.round(np.linspace(low, high, GRID)))
    return np.linspace(low, high, GRID)


def _span(
    schema: Schema, column: Column, base: Float[np.ndarray, " Q"], rules: Sequence[Constraint]
) -> tuple[float, float]:
    """The observed range with a little room, and the regions that a slice through `base` meets."""
    place = schema.index(column.name)
    low, high = column.observed
    for rule in rules:
        if column.name not in rule.region.columns():
            continue
        first, last = (ends[place] for ends in rule.region.bounding_box(schema))
        inside = np.repeat(base[None], 9, axis=0)
        inside[:, place] = np.linspace(first, last, 9)
        if rule.region.contains(inside, schema).any():
            low, high = min(low, float(first)), max(high, float(last))
    room = ROOM * (column.observed[1] - column.observed[0] or 1.0)
    return max(low - room, column.bounds[0]), min(high + room, column.bounds[1])


def held_values(schema: Schema, coded: Float[np.ndarray, " Q"], *, without: str = "") -> dict[str, str]:
    """A case in words, column by column, with units."""
    raw = schema.decode(coded[None]).iloc[0]
    return {
        column.name: value_text(raw[column.name], column.unit)
        for column in schema.columns
        if column.name != without
    }


def value_text(value: Any, unit: str | None = None) -> str:
    """A raw value as people write it, with its unit."""
    number = isinstance(value, float | np.floating)
    if number and abs(value) < TINY:
        value = 0.0
    text = f"{value:.4g}" if number and abs(value) < 1e5 else str(value)
    text = text.replace("-", "−") if number else text
    return f"{text} {unit}" if unit else text


def _curves(
    posterior: Posterior, coded: Float[np.ndarray, "n Q"], coverage: tuple[float, ...], kind: Kind
) -> tuple[tuple[Curve, ...], str]:
    levels = [0.5 + sign * level / 2.0 for level in coverage for sign in (-1.0, 1.0)]
    prediction = predict(posterior, coded, levels=levels, coverage=None)
    target = posterior.target
    summary = prediction.observation if kind == "observation" and not target.classes else prediction.function
    if summary is None and target.classes:  # truncated: what is predicted has no band of functions
        assert prediction.probabilities is not None
        summary = Summary(prediction.probabilities, np.zeros_like(prediction.probabilities))
    summary = prediction.observation if summary is None else summary
    assert summary is not None
    if not target.classes:
        return (_curve(target.name, summary.mean, summary.quantiles),), target.name
    shown = range(1, 2) if len(target.classes) == 2 else range(len(target.classes))
    curves = tuple(
        _curve(
            f"P({target.name} = {target.classes[index]})",
            summary.mean[:, index],
            None if summary.quantiles is None else summary.quantiles[:, index],
        )
        for index in shown
    )
    return curves, curves[0].label if len(curves) == 1 else f"probability of each {target.name}"


def _curve(label: str, mean: Float[np.ndarray, " n"], quantiles: np.ndarray | None) -> Curve:
    ends = [] if quantiles is None else [_floats(column) for column in quantiles.T]
    return Curve(label, _floats(mean), tuple(zip(ends[::2], ends[1::2], strict=True)))


def _floats(values: np.ndarray) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def _limits(
    posterior: Posterior, rules: Sequence[Constraint], coded: Float[np.ndarray, "n Q"]
) -> list[float]:
    """The ends of what rules allow along a slice of y."""
    found: list[float] = []
    for rule in [] if posterior.classes else rules:
        inside = rule.region.contains(coded, posterior.schema)
        allowed = _allowed(posterior, rule, coded, inside) if inside.any() else None
        found += [] if allowed is None else [float(end) for end in np.ravel(allowed) if np.isfinite(end)]
    return found


def _extent(
    posterior: Posterior, curves: Sequence[Curve], limits: Sequence[float] = ()
) -> tuple[float, float]:
    """How far the vertical axis goes: probabilities from 0 to 1, y as far as data and curves do.

    And as far as the limits of rules, unless these are so far away that nothing else could be seen.
    """
    if posterior.classes:
        return 0.0, 1.0
    ends = [value for curve in curves for band in curve.bands for values in band for value in values]
    ends += [value for curve in curves for value in curve.mean]
    ends += [value for value in posterior.target.observed if np.isfinite(value)]
    low, high = min(ends), max(ends)
    ends += [limit for limit in limits if 2 * low - high <= limit <= 2 * high - low]
    room = ROOM * (max(ends) - min(ends) or 1.0)
    return min(ends) - room, max(ends) + room


def _zone(
    posterior: Posterior,
    name: str,
    rule: Constraint,
    coded: Float[np.ndarray, "n Q"],
    extent: tuple[float, float],
    curves: int,
) -> RuledZone:
    inside = rule.region.contains(coded, posterior.schema)
    allowed = _allowed(posterior, rule, coded, inside) if inside.any() and curves == 1 else None
    gaps: list[Band] = []
    for begin, end in [] if allowed is None else _gaps(*allowed):
        low, high = (np.full(len(inside), extent[0]) for _ in range(2))
        low[inside] = np.clip(begin, *extent)
        high[inside] = np.maximum(np.clip(end, *extent), low[inside])
        if (high > low).any():
            gaps.append((_floats(low), _floats(high)))
    return RuledZone(name, tuple(map(bool, inside)), tuple(gaps))


def _allowed(
    posterior: Posterior, rule: Constraint, coded: Float[np.ndarray, "n Q"], inside: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Allowed intervals of the one curve at the points inside `(m, K)`; None where there are no such."""
    if rule.is_predictive or not rule.requirement.is_pointwise:
        return None
    allowed = rule.requirement.allowed(rule.demand(coded[inside], posterior.schema))
    if allowed is None:
        return None
    if allowed.outputs is not None:
        lower, upper = (np.asarray(ends, dtype=float) for ends in allowed.outputs)
        return lower, upper
    if len(posterior.classes) != 2:
        return None
    if allowed.classes is not None:
        classes = np.asarray(allowed.classes)
        return np.where(classes[:, :1], 0.0, 0.5), np.where(classes[:, 1:], 1.0, 0.5)
    return None if allowed.shares is None else _of_second_class(allowed.shares)


def _of_second_class(shares: Shares) -> tuple[np.ndarray, np.ndarray] | None:
    """Bounds on the classes named as bounds on the second class's probability."""
    members = np.asarray(shares.members)
    lower, upper = np.asarray(shares.lower, dtype=float), np.asarray(shares.upper, dtype=float)
    if (members[:, 0] == members[:, 1]).any():
        return None
    flipped = members[:, :1]
    return np.where(flipped, 1.0 - upper, lower), np.where(flipped, 1.0 - lower, upper)


def _gaps(
    lower: Float[np.ndarray, "m K"], upper: Float[np.ndarray, "m K"]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """What lies between, before and after disjoint intervals, in the order of their lower ends."""
    used = lower <= upper
    lower, upper = np.where(used, lower, np.inf), np.where(used, upper, np.inf)
    order = np.argsort(lower, axis=1, kind="stable")
    lower, upper = (np.take_along_axis(ends, order, axis=1) for ends in (lower, upper))
    edge = np.full((len(lower), 1), np.inf)
    begins = np.concatenate([-edge, upper], axis=1)
    ends = np.concatenate([lower, edge], axis=1)
    return [(begins[:, slot], ends[:, slot]) for slot in range(begins.shape[1])]
