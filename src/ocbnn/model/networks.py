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
from jaxtyping import Array, Float, Int

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
    """A nonlinearity and whether its values are bounded."""

    function: Callable[[Array], Array]
    bounded: bool


ACTIVATIONS: dict[str, Activation] = {
    "rbf": Activation(lambda z: jnp.exp(-(z * z)), bounded=True),
    "tanh": Activation(jnp.tanh, bounded=True),
    "relu": Activation(jax.nn.relu, bounded=False),
    "gelu": Activation(jax.nn.gelu, bounded=False),
}


@dataclass(frozen=True)
class MLP:
    """Dense layers of any depth and width; `hidden=()` is a linear model.

    Layout of w, layer by layer: the weights (inputs × outputs, row by row), then the biases.

    Attributes:
        inputs: columns in model units.
        hidden: units of each hidden layer.
        outputs: of the last layer.
        activation: a name in `ACTIVATIONS`.
        sums_below: layers with fewer multiplications than that, for all rows together, are written as sums:
            elementwise code, which fuses with what is around it, where a matrix product is a call of its own.
        units_first: layers are computed as units × rows: an eighth faster where both are many.
    """

    inputs: int
    hidden: tuple[int, ...] = (10,)
    outputs: int = 1
    activation: str = "rbf"
    sums_below: int = field(default=0, repr=False, compare=False)
    units_first: bool = field(default=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", tuple(self.hidden))
        if self.activation not in ACTIVATIONS:
            raise ModelError(
                f"There is no activation {self.activation!r}; choose one of {', '.join(ACTIVATIONS)}, "
                "or bring your own network with FunctionNetwork.wrap."
            )
        if min(self.widths) < 1:
            raise ModelError(f"Every layer needs at least one unit, but the widths given are {self.widths}.")
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
        return bool(self.hidden) and ACTIVATIONS[self.activation].bounded

    @property
    def _layers(self) -> list[tuple[int, int]]:
        return list(itertools.pairwise(self.widths))

    def unravel(self, w: Float[Array, " size"]) -> list[tuple[Array, Array]]:
        """The (weights, biases) of each layer."""
        sizes = [size for before, after in self._layers for size in (before * after, after)]
        pieces = jax.lax.split(jnp.asarray(w), sizes)
        return [
            (weights.reshape(before, after), biases)
            for (before, after), weights, biases in zip(self._layers, pieces[::2], pieces[1::2], strict=True)
        ]

    def apply(self, w: Float[Array, " size"], x: Float[AnyArray, "n d"]) -> Float[Array, "n outputs"]:
        nonlinearity = ACTIVATIONS[self.activation].function
        (first, first_biases), *rest = self.unravel(w)
        values = self._layer(self._turned(jnp.asarray(x, first.dtype)), first, first_biases)
        for weights, biases in rest:
            values = self._layer(nonlinearity(values), weights, biases)
        return self._turned(values)

    def _turned(self, values: Array) -> Array:
        """From rows × units to what layers are computed in, and back."""
        return values.T if self.units_first else values

    def _layer(self, values: Array, weights: Array, biases: Array) -> Array:
        if self.units_first:
            return weights.T @ values + biases[:, None]
        return self._product(values, weights) + biases

    def _product(self, values: Array, weights: Array) -> Array:
        if weights.shape[0] == 1:  # an outer product
            return values * weights
        if len(values) * weights.size < self.sums_below:
            return jnp.sum(values[:, :, None] * weights, axis=1)
        return values @ weights

    def initial(self, key: Key) -> Float[Array, " size"]:
        """A starting point: weights N(0, 1/fan-in), so that no layer starts saturated."""
        return jax.random.normal(as_key(key), (self.size,)) / jnp.sqrt(jnp.asarray(self.fan_in()))

    def output_places(self, output: int) -> Int[np.ndarray, " places"]:
        """Places in w of the weights of one output of the last layer; its bias is the last."""
        before, after = self._layers[-1]
        return self.size - self.layer_sizes[-1] + output + after * np.arange(before + 1)

    def fan_in(self) -> Float[np.ndarray, " size"]:
        """For each weight the number of units that feed into its unit; 1 for biases."""
        return np.concatenate(
            [np.repeat([float(before), 1.0], [before * after, after]) for before, after in self._layers]
        )


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
