"""What every engine is: a file with `init` and `step`, pure functions that the one loop (`run.py`) drives.

    class MyEngine:                      # a frozen dataclass of settings
        name = "mine"
        def init(self, density, key, positions, context): ...   -> state
        def step(self, density, key, state, context): ...       -> state, Info

A *state* is a pytree of arrays and carries over from step to step, adaptation included; an `Info` is what a
step says of itself. A *context* is all that the density depends on besides w. Engines whose steps see a
minibatch and fresh points (`stochastic`) get another context at every step, the others always the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ocbnn.errors import OCBNNError
from ocbnn.model import Data, Model
from ocbnn.model.conditional import ConditionalPrior, RulePoints
from ocbnn.model.networks import MLP

State = Any
FUSED = 4096
"""Sums of fewer numbers XLA's CPU fuses; larger ones go to a library that wants the factors written out."""


class InferenceError(OCBNNError, RuntimeError):
    """A run that cannot start or go on, with the part of the density that is to blame."""


class Context(NamedTuple):
    """All that a density depends on besides w: one pytree, so that changing it compiles nothing anew.

    Attributes:
        data: the rows, or a minibatch whose weights make it stand for all of them; None for the prior alone.
        points: where each rule is scored.
        nodes: a few weighted points that stand for `points` in gradients, where an engine accepts with the
            exact density afterwards (`surrogate.py`); the same as `points` where there are no better.
    """

    data: Data | None
    points: tuple[RulePoints, ...]
    nodes: tuple[RulePoints, ...]


@dataclass(frozen=True, eq=False)
class Density:
    """The posterior's log-density as functions of w and a context.

    Attributes:
        model: whose density it is; contexts may hold other points and strengths.
    """

    model: Model

    @cached_property
    def programs(self) -> dict[Hashable, Callable[..., Any]]:
        """What was compiled for it: kept here and not in JAX's tables, which would keep the model alive."""
        return {}

    def program(self, function: Callable[..., Any], *settings: Hashable) -> Callable[..., Any]:
        """`function(*settings, density, …)` as a function of the rest, compiled once for all runs."""
        key = (function, *settings)
        if key not in self.programs:
            self.programs[key] = jax.jit(partial(function, *settings, self))
        return self.programs[key]

    @property
    def size(self) -> int:
        """Length of w."""
        return self.model.size

    def log_density(self, w: Float[Array, " size"], context: Context) -> Float[Array, ""]:
        """The exact log p(w) + log p(D | w), up to its normaliser."""
        return self._at(w, context.data, context.points)

    def surrogate(self, w: Float[Array, " size"], context: Context) -> Float[Array, ""]:
        """The same with rules scored at the nodes: for gradients of engines that accept exactly."""
        return self._at(w, context.data, context.nodes)

    def for_few(self, members: int) -> Density:
        """The same density in code that is faster where all is small, so many members side by side.

        On Figure 2's posterior (24 rows, 21 nodes, ten units, four chains) the calls of eight little matrix
        products take half the time of a gradient.
        """
        network, prior = self.model.network, self.model.prior
        if not isinstance(network, MLP):
            return self
        network = replace(network, sums_below=-(-FUSED // members))
        if isinstance(prior, ConditionalPrior):
            prior = replace(prior, network=network)
        return replace(self, model=replace(self.model, network=network, prior=prior))

    def log_prior(self, w: Float[Array, " size"], context: Context) -> Float[Array, ""]:
        """The prior with its rules."""
        return self.model.log_prior(w, context.points)

    def log_likelihood(self, w: Float[Array, " size"], context: Context) -> Float[Array, ""]:
        """The likelihood of the context's rows; 0 without data."""
        if context.data is None:
            return jnp.zeros((), w.dtype)
        return self.model.log_likelihood(w, context.data)

    def _at(self, w: Array, data: Data | None, points: tuple[RulePoints, ...]) -> Array:
        log_prior = self.model.log_prior(w, points)
        return log_prior if data is None else log_prior + self.model.log_likelihood(w, data)

    def parts(self, w: Float[Array, " size"], context: Context) -> dict[str, Array]:
        """Every part of the log-density by name, to say which one is not finite."""
        weights, parameters = self.model.split(w)
        prior = self.model.prior
        if not isinstance(prior, ConditionalPrior):
            return {
                "likelihood": self.log_likelihood(w, context),
                "base prior": self.model.log_prior(w),
            }
        rules = prior.rule_log_densities(weights, context.points)
        named = {
            f"rule {rule.rule.name or rule.rule.text(rule.schema)!r}": rules[i]
            for i, rule in enumerate(prior.rules)
        }
        base = prior.base.log_density(weights)
        if self.model.likelihood.size:
            base = base + self.model.likelihood.log_prior(parameters)
        return {"likelihood": self.log_likelihood(w, context), **named, "base prior": base}


class Info(NamedTuple):
    """What one step says of itself, each for every member of the group.

    Attributes:
        log_density: at the new position (for a variational engine: its objective).
        acceptance: probability of acceptance, 1 where nothing is ever rejected.
        diverged: whether the trajectory was cut off for its energy error, or a value was not finite.
        work: gradients spent.
    """

    log_density: Float[Array, " members"]
    acceptance: Float[Array, " members"]
    diverged: Array
    work: Array


@runtime_checkable
class Engine(Protocol):
    """One inference algorithm; its fields are its settings."""

    name: ClassVar[str]
    stochastic: ClassVar[bool]  # steps see a minibatch and fresh points
    collects: ClassVar[Literal["along", "at-end"]]  # every step a draw, or draws from the final state

    @property
    def warmup(self) -> int:
        """Steps whose positions are not kept: adaptation, or the whole optimisation."""
        ...

    def groups(self, members: int, cores: int) -> tuple[int, ...]:
        """How many members (chains, particles, …) run together in each group; groups run side by side."""
        ...

    def init(
        self, density: Density, key: Array, positions: Float[Array, "members size"], context: Context
    ) -> State:
        """The state at the given positions."""
        ...

    def step(self, density: Density, key: Array, state: State, context: Context) -> tuple[State, Info]:
        """One step of all members; jittable."""
        ...

    def draws(self, key: Array, state: State, count: int) -> Float[Array, "chains draws size"]:
        """Draws of a state: the members' positions `(members, 1, size)` for engines that collect along."""
        ...


def parts_of(density: Density, positions: Float[Array, "members size"], context: Context) -> dict[str, Array]:
    """Every part of the log-density at every position."""
    parts: dict[str, Array] = density.program(_parts)(positions, context)
    return parts


def _parts(density: Density, positions: Float[Array, "members size"], context: Context) -> dict[str, Array]:
    return jax.vmap(lambda w: density.parts(w, context))(positions)


def check_finite(density: Density, positions: Float[np.ndarray, "members size"], context: Context) -> None:
    """Refuse to start where the log-density is not finite, naming the part that is to blame."""
    parts = parts_of(density, jnp.asarray(positions), context)
    for name, values in parts.items():
        bad = np.flatnonzero(~np.isfinite(np.asarray(values)))
        if bad.size:
            raise InferenceError(
                f"The log-density is not finite at the start of member {int(bad[0])}: the {name} is "
                f"{float(values[bad[0]])}. Check the values that it sees (data, noise, strength)."
            )
