"""Bounds of Φ_w and of its Jacobian over boxes of inputs, for many pairs of draw and box at once.

    spread = Spread(MLP(2, (50, 50)), unit=2.0**-53)
    layers = spread.layers(weights, low, high)        # pre-activations of every layer, and lines around units
    forms = spread.forms(layers, rows)                # rows · Φ_w(x) <= forms.slopes · x + forms.constant
    largest(forms.slopes, low, high) + forms.constant # and so at most this anywhere in the box

Every unit f(z) with l <= z <= u lies between two lines. Their slopes are free: where a line of that slope has
to lie is found from the least and largest f(z) − slope·z on [l, u], by values on a grid of step h and the curvature
between them: at most M·h²/8 with |f″| <= M. Put into each other from the last layer to the first, lines become a
line of the inputs (Zhang et al. 2018, CROWN). Intervals, layer by layer, are computed beside it, and the tighter
of the two is kept.

**Rounding.** All is computed in float64 with u = 2⁻⁵³. A sum of n products is off by at most γ·Σ|terms| with
γ = (n + 8)·u·(1 + tiny), in any order and with or without fused operations (Higham 2002, section 3.1). So at
every layer v = |W|·|a| + |b|, with |a| the largest activations in the box, bounds what rounding does: γ·v to
W·a + b, and to a line of rows that is pushed through the layer, γ·|rows|·v. Each activation adds
`ELEMENTARY` units. These errors are added outwards, twice, as they are computed with rounding themselves.

`predict` rounds too, with its own unit (float32 for large networks). By the same argument its layers are off by
δ ← |W|·δ + γ·(v + |W|·δ), then δ ← |f′|·δ + `ELEMENTARY`·unit·(1 + |z|). This `drift` is added to every form,
so that a bound holds for what is predicted and not only for the function that is meant.

Where a network is monotone by its form, the weights that count are computed from w. Each is off by `ELEMENTARY`
units of itself and of 1, which joins the drift too.

**Slopes are pinned.** A slope on a box of nearly no width is a quotient of rounding errors: harmless, as any
slope will do, but only if it is the same number wherever it is used. Within one compiled program XLA may
compute it twice with different rounding. So slopes leave one program as an array, and enter the next as one.
"""  # noqa: E501

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ocbnn.errors import ModelError
from ocbnn.model.boxes import UNIT, Groups, largest
from ocbnn.model.networks import ACTIVATIONS, MLP, AnyArray
from ocbnn.model.shapes import ELEMENTARY, SHAPES, slope_span, span

SEGMENTS = 16
"""Of the grid on which a line's place is found."""
NARROW = 1e-5
"""Relative width below which the slope in the middle is taken instead of one of chords."""
TINY = 1e-300


class Lines(NamedTuple):
    """The units of one layer: pre-activations, and lines around their activations, (P, n) each."""

    low: Array
    high: Array
    sizes: Array  # v, at most |W|·|a| + |b|
    drift: Array  # of the pre-activations that `predict` computes
    forms: Array  # slopes of an upper line of each pre-activation in the inputs, (P, n, D)
    low_slope: Array
    high_slope: Array
    low_offset: Array
    high_offset: Array
    least: Array  # of the activations
    most: Array


class Layers(NamedTuple):
    """What is known of every layer on every box."""

    weights: tuple[tuple[Array, Array], ...]
    hidden: tuple[Lines, ...]
    low: Array  # of the inputs, (P, D)
    high: Array
    last_sizes: Array
    last_drift: Array


class Forms(NamedTuple):
    """Rows of the outputs are at most slopes · x + constant on the box; (P, R, D) and (P, R).

    `looseness` (P, D) says how much of the space between lines each input is to blame for.
    """

    slopes: Array
    constant: Array
    looseness: Array


@dataclass(frozen=True)
class Spread:
    """Bounds of one architecture; `unit` is the rounding of what `predict` computes with."""

    network: MLP
    unit: float = UNIT
    groups: Groups = ()

    def __post_init__(self) -> None:
        if not isinstance(self.network, MLP) or self.network.activation not in SHAPES:
            raise ModelError(
                "A proof needs a network whose bounds are known: MLP with one of the activations "
                f"{', '.join(SHAPES)}. Check the rules by points instead (check_rules)."
            )

    def layers(
        self,
        draws: Float[AnyArray, "P size"],
        low: Float[AnyArray, "P D"],
        high: Float[AnyArray, "P D"],
    ) -> Layers:
        """Bounds of every layer, for pairs of a draw and a box. All in float64."""
        draws, low, high = (jnp.asarray(each) for each in (draws, low, high))
        weights = _unravelled(self, draws)
        hidden: tuple[Lines, ...] = ()
        for number in range(len(weights) - 1):
            reached = _reached(self, weights[: number + 1], hidden, low, high)
            slopes = _slopes(self, reached[0], reached[1])
            hidden = (*hidden, _lines(self, reached, slopes))
        sizes, drift = _last(self, weights, hidden, low, high)
        return Layers(weights, hidden, low, high, sizes, drift)

    def forms(self, layers: Layers, rows: Float[Array, "R outputs"]) -> Forms:
        """Upper lines of rows · Φ_w on each box, which hold for what `predict` computes too."""
        return Forms(*_forms(self, layers, rows))

    def jacobian(
        self, layers: Layers, rows: Float[Array, "R outputs"]
    ) -> tuple[Float[Array, "P R D"], Float[Array, "P R D"]]:
        """The least and the largest ∂(rows · Φ_w)/∂x on each box, of the function that is meant."""
        return _jacobian(self, layers, rows)


def _gamma(terms: int, unit: float = UNIT) -> float:
    return 1.001 * (terms + 8) * unit


@partial(jax.jit, static_argnums=0)
def _unravelled(spread: Spread, draws: Array) -> tuple[tuple[Array, Array], ...]:
    """Weights (P, after, before) and biases (P, after) of each layer."""
    layers = jax.vmap(spread.network.unravel)(draws)
    return tuple((jnp.swapaxes(weights, 1, 2), biases) for weights, biases in layers)


def _read(rows: Array, vectors: Array) -> Array:
    """Σ_n rows (P, R, n) · vectors (P, n). A sum: XLA is slow where it sees a product with a matrix."""
    return jnp.sum(rows * vectors[:, None], axis=2)


def _sizes(
    spread: Spread, weights: Array, biases: Array, hidden: tuple[Lines, ...], low: Array, high: Array
) -> tuple[Array, Array]:
    """The v of a layer, and the drift of its pre-activations."""
    least, most = (hidden[-1].least, hidden[-1].most) if hidden else (low, high)
    units = least.shape[1]
    if weights.shape[2] > units:  # the last layer reads the inputs too, which do not drift
        least, most = jnp.concatenate([least, low], axis=1), jnp.concatenate([most, high], axis=1)
    magnitude = jnp.maximum(jnp.abs(least), jnp.abs(most))
    sizes = _read(jnp.abs(weights), magnitude) + jnp.abs(biases)
    drift = jnp.zeros_like(sizes)
    if hidden:
        shape, before = SHAPES[spread.network.activation], hidden[-1]
        z = jnp.maximum(jnp.abs(before.low), jnp.abs(before.high))
        # A unit that has drifted is bounded by what it is plus the drift.
        rounded = ELEMENTARY * spread.unit * (1.0 + z + before.drift)
        drift = _read(jnp.abs(weights[:, :, :units]), shape.steepest * before.drift + rounded)
    if spread.network.signs:
        # Weights are computed too: a softplus times at most 1, here and, in its own precision, by `predict`.
        drift = drift + 2.0 * ELEMENTARY * spread.unit * _read(jnp.abs(weights) + 1.0, magnitude)
    least_number = float(np.finfo(np.float32 if spread.unit > UNIT else np.float64).tiny)
    terms = weights.shape[2]
    gamma = _gamma(terms, spread.unit)
    return sizes, drift + gamma * (sizes + drift) + 2.0 * (terms + 1) * least_number


@partial(jax.jit, static_argnums=0)
def _reached(
    spread: Spread,
    weights: tuple[tuple[Array, Array], ...],
    hidden: tuple[Lines, ...],
    low: Array,
    high: Array,
) -> tuple[Array, Array, Array, Array, Array]:
    """Pre-activations of the last of these layers: least, largest, v, drift, and upper forms."""
    matrix, biases = weights[-1]
    sizes, drift = _sizes(spread, matrix, biases, hidden, low, high)
    units, terms = matrix.shape[1:]
    rows = jnp.concatenate([matrix, -matrix], axis=1)
    constant = jnp.concatenate([biases, -biases], axis=1)
    error = _gamma(terms) * jnp.concatenate([sizes, sizes], axis=1)
    forms, constant, error, _ = _pushed(weights[:-1], hidden, rows, constant, error)
    upper = largest(forms, low, high, spread.groups) + constant
    upper = upper + 2.0 * (error + _read_error(forms, low, high))
    most, least = upper[:, :units], -upper[:, units:]
    if hidden:
        middle, radius = (
            (hidden[-1].most + hidden[-1].least) / 2,
            (hidden[-1].most - hidden[-1].least) / 2,
        )
        center = _read(matrix, middle) + biases
        reach = _read(jnp.abs(matrix), radius) + 4.0 * _gamma(terms) * sizes
        most, least = jnp.minimum(most, center + reach), jnp.maximum(least, center - reach)
    return least, most, sizes, drift, forms[:, :units]


def _read_error(forms: Array, low: Array, high: Array) -> Array:
    """Of the maximum of lines over a box."""
    magnitude = jnp.maximum(jnp.abs(low), jnp.abs(high))
    return _gamma(forms.shape[2]) * _read(jnp.abs(forms), magnitude) + TINY


def _pushed(
    weights: tuple[tuple[Array, Array], ...],
    hidden: tuple[Lines, ...],
    rows: Array,
    constant: Array,
    error: Array,
) -> tuple[Array, Array, Array, tuple[Array, ...]]:
    """Rows over the activations of the last of these layers as lines of the inputs, upper ones.

    Also how far apart the lines of each unit are, times the rows that read it, layer by layer.
    """
    blame: list[Array] = []
    for (matrix, biases), lines in zip(reversed(weights), reversed(hidden), strict=True):
        up = rows > 0
        middle = (lines.low + lines.high) / 2
        gap = (lines.high_slope - lines.low_slope) * middle + lines.high_offset - lines.low_offset
        blame.insert(0, jnp.sum(jnp.abs(rows), axis=1) * gap)
        offsets = jnp.where(up, rows * lines.high_offset[:, None], rows * lines.low_offset[:, None])
        sizes = jnp.maximum(jnp.abs(lines.high_offset), jnp.abs(lines.low_offset))
        error = error + _gamma(rows.shape[2]) * _read(jnp.abs(rows), sizes)
        rows = jnp.where(up, rows * lines.high_slope[:, None], rows * lines.low_slope[:, None])
        constant = constant + jnp.sum(offsets, axis=2) + _read(rows, biases)
        error = error + _gamma(sum(matrix.shape[1:])) * _read(jnp.abs(rows), lines.sizes)
        rows = rows @ matrix
    return rows, constant, error + _gamma(8) * jnp.abs(constant), tuple(blame)


@partial(jax.jit, static_argnums=0)
def _slopes(spread: Spread, low: Array, high: Array) -> tuple[Array, Array]:
    """Slopes of a lower and an upper line: those whose lines are lowest, or highest, in the middle.

    The best upper line in the middle m has the slope of the concave hull there: of all chords from left of m
    to right of m, the one that is highest at m. Any slope is sound; this one is tight.
    """
    function, shape = ACTIVATIONS[spread.network.activation].function, SHAPES[spread.network.activation]
    width = high - low
    places = [low + width * share for share in (0.0, 0.125, 0.25, 0.375, 0.625, 0.75, 0.875, 1.0)]
    values = [function(place) for place in places]
    middle = (low + high) / 2
    best_high, best_low = jnp.full_like(low, -jnp.inf), jnp.full_like(low, jnp.inf)
    high_slope = low_slope = jnp.zeros_like(low)
    for left in range(4):
        for right in range(4, 8):
            slope = (values[right] - values[left]) / jnp.where(width > 0, places[right] - places[left], 1.0)
            there = values[left] + slope * (middle - places[left])
            higher, lower = there > best_high, there < best_low
            high_slope, best_high = jnp.where(higher, slope, high_slope), jnp.maximum(there, best_high)
            low_slope, best_low = jnp.where(lower, slope, low_slope), jnp.minimum(there, best_low)
    tangent = shape.derivative(middle)
    narrow = width < NARROW * (1.0 + jnp.abs(middle))
    steepest = shape.steepest
    pinned = [
        jnp.clip(jnp.where(narrow, tangent, slope), -steepest, steepest) for slope in (low_slope, high_slope)
    ]
    # Endless boxes have chords that are not numbers; a flat line is sound on them too.
    return tuple(jnp.where(jnp.isfinite(slope), slope, 0.0) for slope in pinned)  # type: ignore[return-value]


@partial(jax.jit, static_argnums=0)
def _lines(
    spread: Spread, reached: tuple[Array, Array, Array, Array, Array], slopes: tuple[Array, Array]
) -> Lines:
    """Lines of these slopes around the activations, and the activations' range."""
    low, high, sizes, drift, forms = reached
    name = spread.network.activation
    function, shape = ACTIVATIONS[name].function, SHAPES[name]
    low_slope, high_slope = slopes
    magnitude = jnp.maximum(jnp.abs(low), jnp.abs(high))
    shares = np.linspace(0.0, 1.0, SEGMENTS + 1)
    # Between these places lie steps of at most h; the ends are themselves.
    places = [low, *(low + (high - low) * share for share in shares[1:-1]), high]
    places += [jnp.clip(place, low, high) for place, _, _ in shape.kinks]
    step = (high - low) * (1.0 / SEGMENTS) * (1.0 + 1e-12) + 8.0 * UNIT * magnitude
    bulge = shape.curvature * step * step / 8.0
    above, below = jnp.full_like(low, -jnp.inf), jnp.full_like(low, jnp.inf)
    for place in places:
        value = function(place)
        above = jnp.maximum(above, value - high_slope * place)
        below = jnp.minimum(below, value - low_slope * place)
    steep = jnp.maximum(jnp.abs(low_slope), jnp.abs(high_slope))
    rounding = (ELEMENTARY + 16.0) * UNIT * (1.0 + magnitude * (1.0 + steep)) + TINY
    least, most = span(name, low, high)
    return Lines(
        low,
        high,
        sizes,
        drift,
        forms,
        low_slope,
        high_slope,
        below - bulge - rounding,
        above + bulge + rounding,
        least - rounding,
        most + rounding,
    )


@partial(jax.jit, static_argnums=0)
def _last(
    spread: Spread,
    weights: tuple[tuple[Array, Array], ...],
    hidden: tuple[Lines, ...],
    low: Array,
    high: Array,
) -> tuple[Array, Array]:
    return _sizes(spread, *weights[-1], hidden, low, high)


@partial(jax.jit, static_argnums=0)
def _forms(spread: Spread, layers: Layers, rows: Array) -> tuple[Array, Array, Array]:
    matrix, biases = layers.weights[-1]
    pairs = matrix.shape[0]
    every = jnp.broadcast_to(rows, (pairs, *rows.shape))
    sizes, drift = (_read(jnp.abs(every), each) for each in (layers.last_sizes, layers.last_drift))
    error = _gamma(matrix.shape[2] + rows.shape[1]) * sizes
    units, direct = _split(every @ matrix, layers)
    slopes, constant, error, blame = _pushed(
        layers.weights[:-1], layers.hidden, units, _read(every, biases), error
    )
    slopes = slopes + direct
    error = error + _read_error(slopes, layers.low, layers.high)
    rounded = 8.0 * spread.unit * sizes  # of differences of outputs
    width = layers.high - layers.low
    looseness = jnp.zeros_like(width)
    for gap, lines in zip(blame, layers.hidden, strict=True):
        moved = jnp.abs(lines.forms) * width[:, None]
        share = moved / (jnp.sum(moved, axis=2, keepdims=True) + TINY)
        looseness = looseness + jnp.sum(gap[:, :, None] * share, axis=1)
    return slopes, constant + 2.0 * (error + drift + rounded), looseness


@partial(jax.jit, static_argnums=0)
def _jacobian(spread: Spread, layers: Layers, rows: Array) -> tuple[Array, Array]:
    """From the last layer to the first, an interval for each derivative."""
    name = spread.network.activation
    matrix, _ = layers.weights[-1]
    every = jnp.broadcast_to(rows, (matrix.shape[0], *rows.shape))

    def through(middle: Array, radius: Array, matrix: Array) -> tuple[Array, Array]:
        size = jnp.abs(matrix)
        rounding = 2.0 * _gamma(matrix.shape[1]) * ((jnp.abs(middle) + radius) @ size)
        return middle @ matrix, radius @ size + rounding + TINY

    middle, radius = through(every, jnp.zeros_like(every), matrix)
    (middle, direct), (radius, direct_radius) = _split(middle, layers), _split(radius, layers)
    for (before, _), lines in zip(reversed(layers.weights[:-1]), reversed(layers.hidden), strict=True):
        least, most = slope_span(name, lines.low, lines.high)
        z = jnp.minimum(jnp.maximum(jnp.abs(lines.low), jnp.abs(lines.high)), 10.0)
        rounding = ELEMENTARY * UNIT * (1.0 + z**3)
        least, most = (least - rounding)[:, None], (most + rounding)[:, None]
        ends = [(middle + sign * radius) * end for sign in (-1.0, 1.0) for end in (least, most)]
        low = jnp.minimum(jnp.minimum(ends[0], ends[1]), jnp.minimum(ends[2], ends[3]))
        high = jnp.maximum(jnp.maximum(ends[0], ends[1]), jnp.maximum(ends[2], ends[3]))
        size = jnp.maximum(jnp.abs(low), jnp.abs(high))
        middle, radius = (low + high) / 2, (high - low) / 2 + 8.0 * UNIT * size
        middle, radius = through(middle, radius, before)
    middle, radius = middle + direct, radius + direct_radius
    radius = radius + 8.0 * UNIT * (jnp.abs(middle) + radius)
    return middle - radius, middle + radius


def _split(rows: Array, layers: Layers) -> tuple[Array, Array]:
    """Rows over what the last layer reads: over hidden units, and over inputs, 0 without a linear part."""
    if not layers.hidden:
        return rows, jnp.zeros_like(layers.low)[:, None]
    units = layers.hidden[-1].low.shape[1]
    direct = rows[..., units:] if rows.shape[2] > units else jnp.zeros_like(layers.low)[:, None]
    return rows[..., :units], direct
