"""Divergences between what a probabilistic rule asks for, D_y(x), and the predictive (paper eq. 10), by name.

Over cells (classes, or a grid of y) with the asked and the predicted probability of each:

| name | definition | largest value that keeps total variation within t |
| --- | --- | --- |
| total-variation | ½ Σ |D − p| | t |
| hellinger | √(1 − Σ √(D p)) | √(1 − √(1 − t²)) |
| kl | Σ D log(D / p) | 2 t² (Pinsker) |
| reverse-kl | Σ p log(p / D) | 2 t² |
| symmetric-kl | mean of both (the paper's code: for two classes, errata D7) | 2 t² |

Tolerances of probabilistic rules are in total variation; another divergence gets the budget that implies it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import jax.numpy as jnp
from jaxtyping import Array, Float

from ocbnn.errors import ModelError

DivergenceName = Literal["total-variation", "hellinger", "kl", "reverse-kl", "symmetric-kl"]
FLOOR = 1e-3
"""Probabilities are at least this inside logarithms and roots, as in the paper's code (errata D7): the
gradient stays finite where the rule asks for certainty."""


class Divergence(NamedTuple):
    """A divergence over the last axis, and the most of it that implies a total variation."""

    between: Callable[[Array, Array], Array]
    budget: Callable[[float], float]


def divergence(name: str) -> Divergence:
    """The divergence of that name."""
    if name not in DIVERGENCES:
        raise ModelError(
            f"There is no divergence {name!r}; choose one of {', '.join(get_args(DivergenceName))}."
        )
    return DIVERGENCES[name]


def _total_variation(asked: Float[Array, "... C"], predicted: Float[Array, "... C"]) -> Array:
    return 0.5 * jnp.sum(jnp.abs(asked - predicted), axis=-1)


def _hellinger(asked: Float[Array, "... C"], predicted: Float[Array, "... C"]) -> Array:
    # √a − √p squared and halved is 1 − √(ap) summed, without the cancellation at equality.
    gap = jnp.sqrt(_floored(asked)) - jnp.sqrt(_floored(predicted))
    return jnp.sqrt(0.5 * jnp.sum(gap * gap, axis=-1) + 1e-12)


def _kl(asked: Float[Array, "... C"], predicted: Float[Array, "... C"]) -> Array:
    asked, predicted = _floored(asked), _floored(predicted)
    return jnp.sum(asked * jnp.log(asked / predicted) - asked + predicted, axis=-1)


def _reverse_kl(asked: Float[Array, "... C"], predicted: Float[Array, "... C"]) -> Array:
    return _kl(predicted, asked)


def _symmetric_kl(asked: Float[Array, "... C"], predicted: Float[Array, "... C"]) -> Array:
    return 0.5 * (_kl(asked, predicted) + _kl(predicted, asked))


def _floored(probability: Array) -> Array:
    return jnp.where(probability > FLOOR, probability, FLOOR)


def _pinsker(variation: float) -> float:
    return 2.0 * variation * variation


DIVERGENCES: dict[str, Divergence] = {
    "total-variation": Divergence(_total_variation, lambda variation: variation),
    "hellinger": Divergence(_hellinger, lambda t: math.sqrt(1.0 - math.sqrt(1.0 - min(t, 1.0) ** 2))),
    "kl": Divergence(_kl, _pinsker),
    "reverse-kl": Divergence(_reverse_kl, _pinsker),
    "symmetric-kl": Divergence(_symmetric_kl, _pinsker),
}
