"""Choices that a user need not make: size, prior and budget, by the size of the table.

The engine is chosen by `inference.engines.choose`, the minibatch by `inference.feed.default_batch`.

`benchmarks/estimators.py` measures them beside scikit-learn's networks; docs/estimators.md gives the reasons.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ocbnn.errors import ModelError, OCBNNError
from ocbnn.model.forms import signs_for
from ocbnn.model.likelihoods import Noise
from ocbnn.model.model import default_likelihood
from ocbnn.model.networks import MLP
from ocbnn.model.priors import LayerScales, Prior
from ocbnn.rules.constraint import Constraint
from ocbnn.schema import Schema
from ocbnn.schema.reading import did_you_mean

SMALL_TABLE = 5_000
NUMBER_SCALE, CLASS_SCALE = 1.0, 2.5
"""Around which the last layer's scale is learnt: of a standardised target, and of log-odds.

Standardised columns rarely change log-odds by more than 5 (Gelman et al. 2008 scale their prior by 2.5).
"""
WEIGHT_SCALE = 1.5
"""Around which the scales of the hidden layers are learnt, for inputs of size 1: functions that bend."""
DEGREES = 8.0
"""Of freedom of every scale: nine in ten lie between 0.7 and 1.7 times what they are around.

With two the prior of functions has no variance, and where rows are few chains lose themselves in its tails.
"""
VARIATION = 0.3
"""Around which the scale of log noise's variation is learnt: nearly constant unless rows say otherwise."""
ACTIVATION = "tanh"


def hidden_units(hidden: Any, rows: int) -> tuple[int, ...]:
    """The widths asked for, or two layers: small ones for small tables."""
    if hidden is None:
        return (16, 16) if rows <= SMALL_TABLE else (50, 50)
    single = isinstance(hidden, int | np.integer) and not isinstance(hidden, bool)
    widths = (hidden,) if single else hidden
    if isinstance(widths, str) or not isinstance(widths, Sequence | np.ndarray):
        raise ModelError(f"hidden is a number of units, or one for each layer, not {hidden!r}.")
    return tuple(positive(width, "hidden, the number of units of each layer,") for width in widths)


def network(
    schema: Schema,
    hidden: Any,
    rows: int,
    activation: str,
    noise: Noise = None,
    rules: Sequence[Constraint] = (),
) -> MLP:
    """The network of a table: an output for a number or two classes, else one for each class.

    Noise that varies is one more. The network has a linear part, and keeps those rules by its form that can
    be kept so.
    """
    outputs, units = default_likelihood(schema, noise).outputs, hidden_units(hidden, rows)
    signs = signs_for(rules, schema, activation, units)
    return MLP(schema.width, units, outputs, activation, signs, linear=True)


def base_prior(prior: Any, network: MLP, *, classification: bool, noise: Noise = None) -> Prior:
    """Layers whose scale is learnt, around σ/√fan-in for weights and σ for biases.

    σ is 1.5, and in the last layer the scale of outputs (`prior`, where that is a number). The linear part
    has a scale of its own; so have the weights of noise that varies, and its bias.
    """
    if isinstance(prior, Prior):
        return prior
    prior = (CLASS_SCALE if classification else NUMBER_SCALE) if prior is None else prior
    if isinstance(prior, bool) or not isinstance(prior, int | float | np.number) or not prior > 0:
        raise ModelError(f"prior is a positive number (the scale of outputs) or a Prior, not {prior!r}.")
    *hidden, last = np.split(np.arange(network.size), np.cumsum(network.layer_sizes)[:-1])
    noisy = network.output_places(1) if noise == "varying" else np.zeros(0, int)
    linear = np.setdiff1d(network.linear_places(), noisy)
    groups = {f"hidden layer {number}": places for number, places in enumerate(hidden, start=1)}
    groups["output layer"] = np.setdiff1d(last, [*noisy, *linear])
    groups |= {"linear part": linear, "variation of the noise": noisy[:-1], "level of the noise": noisy[-1:]}
    groups = {name: places for name, places in groups.items() if len(places)}
    scale = WEIGHT_SCALE / np.sqrt(network.fan_in())
    scale[last] *= float(prior) / WEIGHT_SCALE
    scale[noisy[:-1]], scale[noisy[-1:]] = VARIATION / np.sqrt(max(len(noisy) - 1, 1)), 1.0
    sizes, order = tuple(len(places) for places in groups.values()), np.concatenate(list(groups.values()))
    return LayerScales(sizes, scale, DEGREES, order=order, names=tuple(groups))


def positive(value: Any, what: str) -> int:
    """A positive whole number."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ModelError(f"{what} is a positive whole number, not {value!r}.")
    return int(value)


def require_options(
    function: Callable[..., Any], options: Mapping[str, Any], ours: Collection[str] = ()
) -> None:
    """Refuse options that the function does not have, or that are `ours` to give, before it is called."""
    parameters = inspect.signature(function).parameters.values()
    known = [each.name for each in parameters if each.kind == each.KEYWORD_ONLY or each.name == "rules"]
    known = [name for name in known if name not in ours]
    for name in options:
        if name not in known:
            raise OCBNNError(
                f"There is no option {name!r} here; there are {', '.join(known)}.{did_you_mean(name, known)}"
            )
