"""What a check needs of draws: the model, which draws are kept, whether they form chains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from ocbnn.errors import OCBNNError
from ocbnn.model.likelihoods import Gaussian
from ocbnn.model.model import Model
from ocbnn.model.outputs import function_values
from ocbnn.schema import Schema, Target

if TYPE_CHECKING:
    from ocbnn.rules.constraint import Constraint

GROUPS = 10
"""Of draws left out in turns, where there are no chains to leave out."""
Mask = Bool[np.ndarray, "chains draws"]


class Drawn:
    """Draws of a prior or a posterior; whoever holds `draws`, `model` and `kept` can be checked."""

    draws: Float[np.ndarray, "chains draws size"]
    model: Model
    kept: Mask | None

    @property
    def schema(self) -> Schema:
        """The table that the model was made for."""
        if self.model.schema is None:
            raise OCBNNError("The model has no schema, so raw rows mean nothing to it; build it with one.")
        return self.model.schema

    @property
    def target(self) -> Target:
        """What is predicted."""
        if self.schema.target is None:
            raise OCBNNError("The schema has no target; infer it with Schema.infer(frame, target=…).")
        return self.schema.target

    @property
    def classes(self) -> tuple[Any, ...]:
        """The classes of the target; empty for regression."""
        target = None if self.model.schema is None else self.model.schema.target
        return () if target is None else target.classes

    @property
    def has_chains(self) -> bool:
        """Whether draws follow one another in chains; else they are particles, members, or independent."""
        return self.draws.shape[0] > 1

    @property
    def mask(self) -> Mask:
        """Which draws are kept, also where nothing was rejected."""
        return np.ones(self.draws.shape[:2], dtype=bool) if self.kept is None else self.kept

    @property
    def flat(self) -> Float[np.ndarray, "S size"]:
        """The kept draws, one chain after the other."""
        if self.kept is None:
            return self.draws.reshape(-1, self.draws.shape[2])
        return self.draws[self.kept]

    @property
    def noise(self) -> Float[np.ndarray, " S"]:
        """The standard deviation of the noise of every kept draw, in raw units; regression only."""
        return self.noise_of(self.flat)

    def noise_of(self, flat: Float[np.ndarray, "S size"]) -> Float[np.ndarray, " S"]:
        """The standard deviation of the noise of these draws, in raw units; regression only."""
        likelihood = self.model.likelihood
        if not isinstance(likelihood, Gaussian):
            raise OCBNNError(f"{self.target.name!r} is a class, which has no noise.")
        if likelihood.noise is not None:
            return np.full(len(flat), likelihood.noise * self.target.scale)
        return np.exp(flat[:, self.model.network.size].astype(float)) * self.target.scale

    def values(self, coded: Float[np.ndarray, "n Q"], draws: Float[np.ndarray, "S size"]) -> np.ndarray:
        """Φ of these draws at coded inputs: y raw `(S, n)`, or class probabilities `(S, n, C)`."""
        return function_values(self.model, draws, self.schema.to_model(coded))

    def point_values(self, coded: Float[np.ndarray, "n Q"], values: np.ndarray) -> np.ndarray:
        """The point prediction at coded inputs, from what the kept draws say there: their mean."""
        return values.mean(axis=0)

    @property
    def rules_in_force(self) -> tuple[Constraint, ...]:
        """The rules that predictions are made to satisfy."""
        return ()


@dataclass(frozen=True, eq=False)
class DrawSet(Drawn):
    """Draws by themselves, as pilots and priors have them."""

    draws: Float[np.ndarray, "chains draws size"]
    model: Model
    kept: Mask | None = None
    chains: bool = False

    @property
    def has_chains(self) -> bool:
        return self.chains


def draw_groups(drawn: Drawn) -> np.ndarray:
    """The group of each kept draw, to be left out in turns: its chain, or one of a few stretches of draws."""
    chain = np.nonzero(drawn.mask)[0]
    _, group = np.unique(chain, return_inverse=True)
    if drawn.has_chains and group.max(initial=0) >= 3:
        return group
    # A few chains say too little about the spread between groups: stretches of draws do.
    return np.minimum(np.arange(len(chain)) * GROUPS // max(len(chain), 1), GROUPS - 1)


class Halves(NamedTuple):
    """Two masks that share no draw: one to find a worst point, the other to estimate what happens there."""

    finding: Mask
    estimating: Mask
    how: str


def halves(drawn: Drawn) -> Halves:
    """Half of the chains and the other half; of a single chain its two stretches; else every other draw."""
    kept = drawn.mask
    alive = np.flatnonzero(kept.any(axis=1))
    first = np.zeros_like(kept)
    if drawn.has_chains and len(alive) > 1:
        first[alive[::2]] = True
        how = "found on half of the chains, estimated on the other half"
    elif drawn.has_chains:
        places = np.argwhere(kept)
        first[tuple(places[: len(places) // 2].T)] = True
        how = "one chain: found on its first half, estimated on its second, which depends on the first"
    else:
        first[tuple(np.argwhere(kept)[::2].T)] = True
        how = "found on every other draw, estimated on the others"
    finding, estimating = kept & first, kept & ~first
    if not (finding.any() and estimating.any()):
        return Halves(kept, kept, "one draw: found and estimated on the same, so too good")
    return Halves(finding, estimating, how)


def evenly(count: int, most: int) -> np.ndarray:
    """At most `most` of the numbers 0 to `count` − 1, evenly spaced, both ends among them."""
    return np.unique(np.linspace(0, count - 1, min(most, count)).astype(int))
