"""What every engine is: a file with `init` and `step`, pure functions that the one loop (`loop.py`) drives.

    class MyEngine:                      # a frozen dataclass of settings
        name = "mine"
        def init(self, density, key, positions, context): ...   -> state
        def step(self, density, key, state, context): ...       -> state, Info

A *state* is a pytree of arrays and carries over from step to step, adaptation included; an `Info` is what a
step says of itself. A *context* is all that the density depends on besides w. Engines whose steps see a
minibatch and fresh points (`stochastic`) get another context at every step, the others always the same.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from jaxtyping import Array, Float

from ocbnn.inference.density import Context, Density
from ocbnn.model.outputs import Precision

State = Any


class Info(NamedTuple):
    """What one step says of itself, each for every chain of the group.

    Attributes:
        log_density: at the new position (for a variational engine: its objective).
        acceptance: probability of acceptance, 1 where nothing is ever rejected.
        diverged: whether the trajectory was cut off for its energy error, or a value was not finite.
        work: gradients spent.
    """

    log_density: Float[Array, " chains"]
    acceptance: Float[Array, " chains"]
    diverged: Array
    work: Array


class Bias(NamedTuple):
    """What an engine that is not exact knows of how far its draws are from the posterior.

    Attributes:
        words: a sentence for the status, without capital and full stop.
        problem: why that is too much, and the remedy; empty where it is not.
    """

    words: str
    problem: str = ""


@runtime_checkable
class Engine(Protocol):
    """One inference algorithm; its fields are its settings."""

    name: ClassVar[str]
    stochastic: ClassVar[bool]  # steps see a minibatch and fresh points
    has_chains: ClassVar[bool]  # every step is a draw of a chain; else draws come from the final state
    precision: ClassVar[Precision]  # of all numbers of a run
    exact: ClassVar[bool]  # with ever more draws their distribution tends to the posterior itself

    @property
    def warmup(self) -> int:
        """Steps whose positions are not kept: adaptation, or the whole optimisation."""
        ...

    # An engine that takes gradients of `density.surrogate` has `few_nodes = True`: nodes are then chosen.
    # An engine with chains that is not exact may also have `bias(states)`: what it knows of how far its
    # draws are from the posterior, as a `Bias`, from the states of all groups.
    # An engine without chains is judged by its objective, which `objective` may name, or by
    # `discrepancy(particles, scores)`: how far its particles are from the posterior.

    def groups(self, chains: int, cores: int) -> tuple[int, ...]:
        """How many chains (or particles) run together in each group; groups run side by side."""
        ...

    def init(
        self, density: Density, key: Array, positions: Float[Array, "chains size"], context: Context
    ) -> State:
        """The state at the given positions."""
        ...

    def step(self, density: Density, key: Array, state: State, context: Context) -> tuple[State, Info]:
        """One step of all chains; jittable."""
        ...

    def draws(self, key: Array, state: State, count: int) -> Float[Array, "chains draws size"]:
        """Draws of a state: the chains' positions `(chains, 1, size)` for engines with chains."""
        ...


def spread(chains: int, cores: int) -> tuple[int, ...]:
    """The chains in as many groups as there are cores, of nearly the same size."""
    cores = min(chains, cores)
    return tuple(chains // cores + (i < chains % cores) for i in range(cores))
