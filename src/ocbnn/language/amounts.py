"""The numbers of a rule that have limits: margins, weights, probabilities."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ocbnn.language.expressions import Expression, constant
from ocbnn.language.reading import Role, read_constant
from ocbnn.language.syntax import Sentence
from ocbnn.language.trees import branches

if TYPE_CHECKING:
    from ocbnn.language.trees import Branch


def read_suffixes(
    sentence: Sentence, suffixes: list[Branch], role: Role
) -> tuple[float | None, float | None]:
    found: dict[str, float] = {}
    for suffix in suffixes:
        kind = str(suffix.data)
        if kind in found:
            raise sentence.error(f"A value has one {kind if kind == 'weight' else '`within`'}.", suffix)
        if kind == "within":
            value = read_constant(sentence, branches(suffix)[0], role, "What follows `within`")
            if value <= 0:
                raise sentence.error("What follows `within` has to be above 0.", suffix)
        else:
            value = read_weight(sentence, suffix)
        found[kind] = value
    return found.get("within"), found.get("weight")


def read_weight(sentence: Sentence, suffix: Branch) -> float:
    if len(branches(suffix)) != 1:
        raise sentence.error("A weight is one number in parentheses: `y = 2 (0.7) or y = 3 (0.3)`.", suffix)
    weight = read_constant(sentence, branches(suffix)[0], "probability", "A weight")
    if weight <= 0:
        raise sentence.error("A weight has to be above 0; leave out what cannot be.", suffix)
    return weight


def normalised(sentence: Sentence, weighted: list[tuple[float | None, Branch]]) -> list[float]:
    weights = [weight for weight, _ in weighted if weight is not None]
    missing = [tree for weight, tree in weighted if weight is None]
    if missing and weights:
        raise sentence.error("Either every value has a weight, or none has.", missing[0])
    if missing or len(set(weights)) == 1:
        return [1.0 / len(weighted)] * len(weighted)
    total = math.fsum(weights)
    # Weights that sum to one already are kept to the last digit: printing and parsing changes nothing.
    return weights if abs(total - 1) < 1e-9 else [weight / total for weight in weights]


def require_probability(sentence: Sentence, value: Expression, tree: Branch) -> None:
    number = constant(value)
    if number is not None and not 0 <= number <= 1:
        raise sentence.error(f"{number:g} is not a probability: probabilities are within [0, 1].", tree)


def tidy(value: float) -> float:
    """0.2 rather than 0.19999999999999998: without what arithmetic on decimals adds in the last digit."""
    return float(f"{value:.15g}")
