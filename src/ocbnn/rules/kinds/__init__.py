"""One file per kind of rule; each owns everything that is special about it.

`READERS` turns what stands after `then` or `always` into a requirement: the first reader that recognises the
sentence reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ocbnn.rules.kinds import (
    bounds,
    classes,
    contrast,
    distribution,
    invariance,
    parity,
    probability,
    shape,
    slope,
    together,
    values,
)
from ocbnn.rules.requirement import Requirement

if TYPE_CHECKING:
    from ocbnn.language.syntax import Branch, Sentence
    from ocbnn.schema import Target

Reader = Callable[["Sentence", "Branch", "Target"], Requirement | None]

RELATIONS: list[together.Reader] = [
    slope.read,
    contrast.read,
    invariance.read,
    parity.read,
    shape.read,
]
"""Readers of kinds that compare outputs at several inputs; `and` joins them."""
READERS: list[Reader] = [
    together.reader(RELATIONS),
    distribution.read,
    probability.read,
    classes.read,
    values.read,
    bounds.read,
]


def read_requirement(sentence: Sentence, tree: Branch, target: Target) -> Requirement:
    """What stands after `then` or `always`."""
    for read in READERS:
        found = read(sentence, tree, target)
        if found is not None:
            return found
    raise sentence.error("No kind of rule is written like this.", tree)
