"""Networks Φ_w: pure functions of a flat weight vector w and inputs in model units.

The flat vector is what engines move, store and compare; a network only knows how to take it apart.

    network = MLP(inputs=2, hidden=(10,), outputs=1, activation="rbf")
    w = network.initial(key)
    network.apply(w, x)          # (n, 1)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ocbnn.errors import ModelError
from ocbnn.resources import require_memory

Key = int | Array
AnyArray = Array | np.ndarray


def as_key(key: Key) -> Array:
    """A JAX key from a seed, or the key itself."""
    return jax.random.key(key) if isinstance(key, int | np.integer) else key


@runtime_checkable
class Network(Protocol):
    """Anything that maps a flat vector and inputs to outputs.

    `bounded` says whether the last hidden layer is bounded whatever its input: only then can a term that is
    unbounded at the edge of the simplex be used (see `terms.Dirichlet`).
    """

    @property
    def size(self) -> int: ...
    @property
    def outputs(self) -> int: ...
    @property
    def bounded(self) -> bool: ...
    def apply(self, w: Float[Array, " size"], x: Float[AnyArray, "n d"]) -> Float[Array, "n outputs"]: ...
    def initial(self, key: Key) -> Float[Array, " size"]: ...
    def fan_in(self) -> Float[np.ndarray, " size"]: ...


@dataclass(frozen=True)
class Activation:
    """A nonlinearity, whether its values are bounded, and whether it falls nowhere."""

    function: Callable[[Array], Array]
    bounded: bool
    increasing: bool


ACTIVATIONS: dict[str, Activation] = {
    "rbf": Activation(lambda z: jnp.exp(-(z * z)), bounded=True, increasing=False),
    "tanh": Activation(jnp.tanh, bounded=True, increasing=True),
    "relu": Activation(jax.nn.relu, bounded=False, increasing=True),
    "gelu": Activation(jax.nn.gelu, bounded=False, increasing=False),
}


@dataclass(frozen=True)
class MLP:
    """Dense layers of any depth and width; `hidden=()` is a linear model.

    Layout of w, layer by layer: the weights (inputs × outputs, row by row), then the biases.

    **Monotone by its form.** With `signs` the first output increases with every input of sign 1, and
    decreases with every input of sign −1, whatever w is. Hidden units then have directions. Those of the
    first half rise and fall in turn. The others are free: they see inputs of sign 0 and other free units
    alone. A weight from a unit of direction a to one of direction b counts as

        a · b · softplus(√n · w) · min(1/√n, 2/m)

    with n units before it, m of which have a direction. It is 0 from those to free units, and w itself from
    free units. Further outputs, such as the noise, read all units by w itself, so that they may turn.

    Free weights are N(0, s²/n) under the usual priors, so √n · w has the size s in every layer, and positive
    weights have the size of free ones. But their sums do not cancel: they grow like m where those of free
    ones grow like √n, and units would saturate. So they are limited by 2/m: draws of the prior then rise
    along a ruled column about as far as they move along a free one, whatever the width. Weights of a linear
    part count as a layer of their own here.

    **Linear part.** With `linear` the outputs also read the inputs: Φ(x) = W h(x) + A x + b. Bounded units
    level off far from the rows, all of them; with a linear part functions go on as lines of many slopes.

    Attributes:
        inputs: columns in model units.
        hidden: units of each hidden layer.
        outputs: of the last layer.
        activation: a name in `ACTIVATIONS`.
        linear: whether there is a linear part beside the hidden layers. Its weights come after those of the
            last hidden layer, row by row.
        signs: of each input: 1, −1, or 0 where the network may turn; () where it may along all of them.
        sums_below: layers with fewer multiplications than that, for all rows together, are written as sums:
            elementwise code, which fuses with what is around it, where a matrix product is a call of its own.
    """

    inputs: int
    hidden: tuple[int, ...] = (10,)
    outputs: int = 1
    activation: str = "rbf"
    signs: tuple[int, ...] = ()
    linear: bool = False
    sums_below: int = field(default=0, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", tuple(self.hidden))
        if self.activation not in ACTIVATIONS:
            raise ModelError(
                f"There is no activation {self.activation!r}; choose one of {', '.join(ACTIVATIONS)}, "
                "or bring your own network with FunctionNetwork.wrap."
            )
        if min(self.widths) < 1:
            raise ModelError(f"Every layer needs at least one unit, but the widths given are {self.widths}.")
        object.__setattr__(self, "signs", tuple(self.signs) if any(self.signs) else ())
        if self.signs and (len(self.signs) != self.inputs or not {*self.signs} <= {-1, 0, 1}):
            raise ModelError(f"signs has 1, -1 or 0 for each of the {self.inputs} inputs, not {self.signs}.")
        if self.signs and self.hidden and not ACTIVATIONS[self.activation].increasing:
            rising = ", ".join(name for name, each in ACTIVATIONS.items() if each.increasing)
            raise ModelError(
                f"A network is monotone by its form only if its activation is, and {self.activation!r} rises "
                f"and falls. Choose one of {rising}."
            )
        # Weights, their prior scales, a gradient and a momentum: the least that any engine holds.
        require_memory(
            4 * 8 * self.size, f"A network of {self.size:,} weights", "Give fewer or smaller hidden layers."
        )

    @property
    def widths(self) -> tuple[int, ...]:
        """Units per layer, inputs and outputs included."""
        return (self.inputs, *self.hidden, self.outputs)

    @property
    def size(self) -> int:
        return sum(self.layer_sizes)

    @property
    def layer_sizes(self) -> tuple[int, ...]:
        """Weights and biases of each layer."""
        return tuple((before + 1) * after for before, after in self._layers)

    @property
    def bounded(self) -> bool:
        return bool(self.hidden) and not self.direct and ACTIVATIONS[self.activation].bounded

    @property
    def plain(self) -> bool:
        """Whether every layer reads the one before alone, by weights that are those in w."""
        return not (self.signs or self.direct)

    @property
    def direct(self) -> int:
        """How many inputs the last layer reads beside hidden units."""
        return self.inputs if self.linear and self.hidden else 0

    @property
    def _layers(self) -> list[tuple[int, int]]:
        *layers, (before, after) = itertools.pairwise(self.widths)
        return [*layers, (before + self.direct, after)]

    @property
    def _parts(self) -> list[list[slice]]:
        """Rows of each layer's weights that share a fan-in: units, and inputs that are read directly."""
        units = [[slice(0, before)] for before in self.widths[:-1]]
        if self.direct:
            units[-1].append(slice(self.hidden[-1], self.hidden[-1] + self.direct))
        return units

    @property
    def _directions(self) -> list[Int[np.ndarray, " units"]]:
        """Of the units of each layer, inputs first; of outputs after the first nothing is asked."""
        found = [np.array(self.signs)]
        for units in self.hidden:
            ruled = units if found[-1].all() else -(-units // 2)
            found.append(np.where(np.arange(units) < ruled, 1 - 2 * (np.arange(units) % 2), 0))
        return [*found, np.eye(self.outputs, dtype=int)[0]]

    @property
    def _roles(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Of the weights of each layer: which are free, and the sign of the others, 0 where there is none."""
        roles, directions = [], self._directions
        for number, (before, after) in enumerate(itertools.pairwise(directions)):
            if number == len(self.hidden) and self.direct:
                before = np.concatenate([before, directions[0]])
            further = (np.arange(len(after)) > 0) & (number == len(self.hidden))
            free = (before == 0)[:, None] | further[None, :]
            roles.append((free, np.where(free, 0, np.outer(before, after))))
        return roles

    def keeps_signs(self, w: Float[AnyArray, " size"]) -> Bool[Array, ""]:
        """Whether every weight on a path from an input of a sign to the first output has the sign it needs.

        Read off the weights as they count: then the first output is monotone, at all inputs.
        """
        kept = jnp.all(jnp.isfinite(jnp.asarray(w)))
        for (weights, _), (free, signs) in zip(self.unravel(jnp.asarray(w)), self._roles, strict=True):
            right = jnp.where(signs == 0, weights == 0, weights * signs >= 0)
            kept = kept & jnp.all(free | right)
        return kept

    def unravel(self, w: Float[Array, " size"]) -> list[tuple[Array, Array]]:
        """The (weights, biases) of each layer, as they count."""
        sizes = [size for before, after in self._layers for size in (before * after, after)]
        pieces = jax.lax.split(jnp.asarray(w), sizes)
        layers = [
            (weights.reshape(before, after), biases)
            for (before, after), weights, biases in zip(self._layers, pieces[::2], pieces[1::2], strict=True)
        ]
        if not self.signs:
            return layers
        return [
            (jnp.concatenate([_of_sign(weights[rows], free[rows], signs[rows]) for rows in parts]), biases)
            for (weights, biases), (free, signs), parts in zip(layers, self._roles, self._parts, strict=True)
        ]

    def apply(self, w: Float[Array, " size"], x: Float[AnyArray, "n d"]) -> Float[Array, "n outputs"]:
        nonlinearity = ACTIVATIONS[self.activation].function
        (first, first_biases), *rest = self.unravel(w)
        # Layers are computed as units × rows: a gradient takes half the time where units are few.
        columns = jnp.asarray(x, first.dtype).T
        values = self._layer(columns, first, first_biases)
        for number, (weights, biases) in enumerate(rest, start=1):
            values = nonlinearity(values)
            if self.direct and number == len(rest):
                values = jnp.concatenate([values, columns])
            values = self._layer(values, weights, biases)
        return values.T

    def _layer(self, values: Array, weights: Array, biases: Array) -> Array:
        if weights.shape[0] == 1:  # an outer product
            return weights.T * values + biases[:, None]
        if values.shape[1] * weights.size < self.sums_below:
            return jnp.sum(weights[:, :, None] * values[:, None, :], axis=0) + biases[:, None]
        return weights.T @ values + biases[:, None]

    def initial(self, key: Key) -> Float[Array, " size"]:
        """A starting point: weights N(0, 1/fan-in), so that no layer starts saturated."""
        return jax.random.normal(as_key(key), (self.size,)) / jnp.sqrt(jnp.asarray(self.fan_in()))

    def linear_places(self) -> Int[np.ndarray, " places"]:
        """Places in w of the weights of the linear part."""
        count = self.direct * self.outputs
        return self.size - self.outputs - count + np.arange(count)

    def output_places(self, output: int) -> Int[np.ndarray, " places"]:
        """Places in w of the weights of one output of the last layer; its bias is the last."""
        before, after = self._layers[-1]
        return self.size - self.layer_sizes[-1] + output + after * np.arange(before + 1)

    def fan_in(self) -> Float[np.ndarray, " size"]:
        """For each weight the number of units that feed into its unit, or of inputs; 1 for biases."""
        numbers = []
        for number, (parts, (before, after)) in enumerate(zip(self._parts, self._layers, strict=True)):
            reads = np.ones((before, after), bool)
            if self.signs:
                free, signs = self._roles[number]
                reads = free | (signs != 0)
            numbers += [np.tile(reads[rows].sum(axis=0), rows.stop - rows.start) for rows in parts]
            numbers.append(np.ones(after))
        return np.concatenate(numbers).astype(float)


def _of_sign(weights: Array, free: np.ndarray, signs: np.ndarray) -> Array:
    """Weights as they count in a network that is monotone by its form."""
    root, ruled = math.sqrt(len(free)), max(int(np.count_nonzero(~free[:, 0])), 1)
    positive = jax.nn.softplus(root * weights) * min(1.0 / root, 2.0 / ruled)
    return jnp.where(free, weights, signs.astype(weights.dtype) * positive)


@dataclass(frozen=True, eq=False)
class FunctionNetwork:
    """A user's own function of (parameters, x), any pytree of parameters, as a network over a flat vector."""

    function: Callable[[Any, Array], Array]
    structure: Any
    shapes: tuple[tuple[int, ...], ...]
    example: Float[np.ndarray, " size"]
    outputs: int = 1
    bounded: bool = False

    @classmethod
    def wrap(
        cls,
        function: Callable[[Any, Array], Array],
        example_params: Any,
        outputs: int = 1,
        *,
        bounded: bool = False,
    ) -> FunctionNetwork:
        """Wrap `function(params, x) -> (n, outputs)` or `(n,)`.

        Args:
            function: traceable by JAX.
            example_params: parameters as the function takes them: structure, shapes, and the starting point.
            outputs: columns of what it returns.
            bounded: True if outputs are bounded functions of x for any given parameters.
        """
        leaves, structure = jax.tree.flatten(example_params)
        if not leaves:
            raise ModelError("The example parameters hold no array, so there is nothing to infer.")
        arrays = [np.asarray(leaf, dtype=np.float64) for leaf in leaves]
        example = np.concatenate([array.ravel() for array in arrays])
        return cls(function, structure, tuple(a.shape for a in arrays), example, outputs, bounded)

    @property
    def size(self) -> int:
        return self.example.size

    def unravel(self, w: Float[Array, " size"]) -> Any:
        """The parameters as the function takes them."""
        pieces = jax.lax.split(jnp.asarray(w), [math.prod(shape) for shape in self.shapes])
        leaves = [piece.reshape(shape) for piece, shape in zip(pieces, self.shapes, strict=True)]
        return jax.tree.unflatten(self.structure, leaves)

    def ravel(self, params: Any) -> Float[Array, " size"]:
        """The flat vector of parameters given as the function takes them."""
        return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(params)])

    def apply(self, w: Float[Array, " size"], x: Float[AnyArray, "n d"]) -> Float[Array, "n outputs"]:
        w = jnp.asarray(w)
        values = self.function(self.unravel(w), jnp.asarray(x, w.dtype))
        return jnp.reshape(values, (np.shape(x)[0], self.outputs))

    def initial(self, key: Key) -> Float[Array, " size"]:
        """A starting point near the example parameters: they plus N(0, 0.1²)."""
        return jnp.asarray(self.example) + 0.1 * jax.random.normal(as_key(key), (self.size,))

    def fan_in(self) -> Float[np.ndarray, " size"]:
        """For matrices the size of their first axis; 1 for everything else."""
        return np.concatenate(
            [np.full(math.prod(s), float(s[0]) if len(s) == 2 else 1.0) for s in self.shapes]
        )
