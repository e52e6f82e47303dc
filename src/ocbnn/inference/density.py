"""What is sampled: a density of w and a context; and what preparation hands to the loop, frozen."""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ocbnn.errors import InferenceError
from ocbnn.model import Data, Model
from ocbnn.model.conditional import RulePoints, RuleTerm
from ocbnn.model.networks import MLP
from ocbnn.model.outputs import enabled_precision
from ocbnn.model.programs import QUICKLY, compiled
from ocbnn.model.terms import Distance

Arrays = dict[str, np.ndarray]
FUSED = 4096
"""Sums of fewer numbers XLA's CPU fuses; larger ones go to a library that wants the factors written out."""


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


def fixed_context(model: Model, nodes: tuple[RulePoints, ...] | None = None) -> Context:
    """All rows and the prior's own points."""
    return Context(model.data, model.points, model.points if nodes is None else nodes)


@dataclass(eq=False)
class Density:
    """The posterior's log-density as functions of w and a context, with the programs compiled for it.

    Attributes:
        model: network, likelihood, base prior and terms; rows, points and strengths come with a context.
        programs: compiled functions. JAX's own tables would keep the model alive.
        name: of this density in every process, so that a worker compiles for it once.
    """

    model: Model
    programs: dict[Hashable, Callable[..., Any]] = field(default_factory=dict, init=False, repr=False)
    name: str = field(default_factory=lambda: uuid.uuid4().hex, init=False, repr=False)
    compiling: Any = field(default_factory=threading.Lock, init=False, repr=False)

    def __reduce__(self) -> Any:
        # Programs cannot travel: another process compiles its own. What is only for sampling points stays.
        terms = tuple(replace(term, data=None) for term in self.model.terms)
        return _received, (self.name, replace(self.model, terms=terms, formed=()))

    def program(self, function: Callable[..., Any], *settings: Hashable) -> Callable[..., Any]:
        """`function(*settings, density, …)` as a function of the rest, compiled quickly: it runs seldom."""
        key = (function, *settings)
        if key not in self.programs:
            self.programs[key] = jax.jit(partial(function, *settings, self), compiler_options=QUICKLY)
        return self.programs[key]

    def compiled(
        self,
        function: Callable[..., Any],
        settings: tuple[Hashable, ...],
        *arguments: Any,
        sharding: Any = None,
    ) -> Callable[..., Any]:
        """The same, compiled for arguments of these shapes before threads share it.

        `sharding` is that of its results, where processes compute them together.
        """
        leaves = jax.tree.leaves(arguments)
        kinds = tuple((np.shape(leaf), str(getattr(leaf, "dtype", type(leaf)))) for leaf in leaves)
        key = (function, *settings, enabled_precision(), kinds, sharding)
        with self.compiling:
            if key not in self.programs:
                whole = partial(function, *settings, self)
                program = jax.jit(whole) if sharding is None else jax.jit(whole, out_shardings=sharding)
                lowered = program.lower(*arguments)
                self.programs[key] = compiled(lowered) if sharding is None else lowered.compile()
        return self.programs[key]

    @cached_property
    def held(self) -> Density:
        """The density to optimise: where the prior learns scales, they are held at what they are around."""
        held = getattr(self.model.base, "held", None)
        return self if held is None else Density(replace(self.model, base=held))

    @cached_property
    def guide(self) -> Density:
        """The density to climb while strength grows: its own, with no term that is flat far from the rule."""
        terms = self.model.terms
        if all(term.term.climbable for term in terms):
            return self
        distances = tuple(
            term
            if term.term.climbable
            else replace(term, term=Distance(term.rule.requirement.scale(term.points.demand)))
            for term in terms
        )
        return Density(replace(self.model, terms=distances))

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

    def for_few(self, chains: int) -> Density:
        """The same density in code that is faster where all is small, so many chains side by side.

        On Figure 2's posterior (24 rows, 21 nodes, ten units, four chains) the calls of eight little matrix
        products take half the time of a gradient.
        """
        network = self.model.network
        if not isinstance(network, MLP):
            return self
        return Density(replace(self.model, network=replace(network, sums_below=-(-FUSED // chains))))

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
        rules = self.model.rule_log_densities(weights, context.points)
        named = {
            f"rule {term.rule.name or term.rule.text(term.schema)!r}": rules[i]
            for i, term in enumerate(self.model.terms)
        }
        base = self.model.base.log_density(weights)
        if self.model.likelihood.size:
            base = base + self.model.likelihood.log_prior(parameters)
        return {"likelihood": self.log_likelihood(w, context), **named, "base prior": base}


MOST_RECEIVED = 8
"""Densities, with their programs, that a worker keeps: a run has up to three."""
_RECEIVED: OrderedDict[str, Density] = OrderedDict()
_RECEIVING = threading.Lock()


def _received(name: str, model: Model) -> Density:
    """The density of that name in this process, with the programs that were compiled for it here."""
    with _RECEIVING:
        if name not in _RECEIVED:
            _RECEIVED[name] = density = Density(model)
            density.name = name
            while len(_RECEIVED) > MOST_RECEIVED:
                _RECEIVED.popitem(last=False)
        _RECEIVED.move_to_end(name)
        return _RECEIVED[name]


def parts_of(density: Density, positions: Float[Array, "chains size"], context: Context) -> dict[str, Array]:
    """Every part of the log-density at every position."""
    parts: dict[str, Array] = density.program(_parts)(positions, context)
    return parts


def _parts(density: Density, positions: Float[Array, "chains size"], context: Context) -> dict[str, Array]:
    return jax.vmap(lambda w: density.parts(w, context))(positions)


def check_finite(density: Density, positions: Float[np.ndarray, "chains size"], context: Context) -> None:
    """Refuse to start where the log-density is not finite, naming the part that is to blame."""
    parts = parts_of(density, jnp.asarray(positions), context)
    for name, values in parts.items():
        bad = np.flatnonzero(~np.isfinite(np.asarray(values)))
        if bad.size:
            raise InferenceError(
                f"The log-density is not finite at the start of chain {int(bad[0])}: the {name} is "
                f"{float(values[bad[0]])}. Check the values that it sees (data, noise, strength)."
            )


@dataclass(frozen=True, eq=False)
class Strengths:
    """The strength of every rule, and whether pilots found it."""

    values: Float[np.ndarray, " rules"]
    searched: np.ndarray

    @classmethod
    def given(cls, model: Model) -> Strengths:
        """The strengths a model has."""
        rules = model.terms
        values = np.array([float(rule.points.strength) for rule in rules])
        return cls(values, np.zeros(len(rules), bool))


@dataclass(frozen=True, eq=False)
class Prepared:
    """A frozen density and where to start.

    Attributes:
        density: what every chunk is compiled for, of pilots, the kept run and later runs of the model; points
            and strengths reach it through a context.
        model: with its final points and strengths.
        positions: of every chain.
        context: rows, points and nodes, for engines that always see the same.
        strengths: how each rule came by its strength.
        tunings: what pilots have adapted of the engine, of each group as the leaves of a pytree.
        work: gradients spent.
        seconds: by phase.
    """

    density: Density
    model: Model
    positions: Float[np.ndarray, "chains size"]
    context: Context
    strengths: Strengths
    tunings: Sequence[Sequence[Any]] = ()
    work: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)

    def with_strengths(self, values: Sequence[float] | np.ndarray) -> Prepared:
        """The same points and nodes with other strengths: nothing is compiled anew."""
        rules = [
            replace(rule, points=_strong(rule.points, value))
            for rule, value in zip(self.model.terms, values, strict=True)
        ]
        model = replace(self.model, terms=tuple(rules))
        nodes = tuple(_strong(each, value) for each, value in zip(self.context.nodes, values, strict=True))
        strengths = replace(self.strengths, values=np.asarray(values, dtype=float))
        return replace(self, model=model, context=fixed_context(model, nodes), strengths=strengths)

    def with_points(self, rules: Sequence[RuleTerm]) -> Prepared:
        """The same with other points for some rules; nodes of those are their points."""
        before = zip(rules, self.model.terms, self.context.nodes, strict=True)
        nodes = tuple(nodes if new is old else new.points for new, old, nodes in before)
        model = replace(self.model, terms=tuple(rules))
        return replace(self, model=model, context=fixed_context(model, nodes))

    def arrays(self) -> Arrays:
        """All that cannot be had again from the model and the seed without the work."""
        arrays: Arrays = {
            "positions": np.asarray(self.positions),
            "strengths": self.strengths.values,
            "searched": self.strengths.searched.astype(np.uint8),
            "work": np.asarray(self.work, np.int64),
        }
        for index, (points, nodes) in enumerate(zip(self.context.points, self.context.nodes, strict=True)):
            arrays[f"points.{index}"] = np.asarray(points.coded)
            arrays[f"weights.{index}"] = np.asarray(points.weights)
            arrays[f"nodes.{index}"] = np.asarray(nodes.coded)
            arrays[f"node_weights.{index}"] = np.asarray(nodes.weights)
            if points.boxes is not None:
                arrays[f"boxes.{index}"] = points.boxes.table
        for group, leaves in enumerate(self.tunings):
            arrays |= {f"tuning.{group}.{place}": np.asarray(leaf) for place, leaf in enumerate(leaves)}
        return arrays

    @classmethod
    def restored(cls, model: Model, arrays: Arrays) -> Prepared:
        """What `arrays` gave, for the same model."""
        strengths = Strengths(arrays["strengths"], arrays["searched"].astype(bool))
        rules, nodes = [], []
        for index, rule in enumerate(model.terms):
            strength = float(strengths.values[index])
            if rule.provable is not None:
                boxes = rule.provable.of_table(arrays[f"boxes.{index}"])
                rule = replace(rule, points=rule.points._replace(boxes=boxes))
            points = rule.at(arrays[f"points.{index}"], weights=arrays[f"weights.{index}"], strength=strength)
            rules.append(replace(rule, points=points))
            few = rule.at(
                arrays[f"nodes.{index}"], weights=arrays[f"node_weights.{index}"], strength=strength
            )
            nodes.append(few)
        density = density_of(model)
        model = replace(model, terms=tuple(rules))
        context = fixed_context(model, tuple(nodes))
        tunings: list[list[Any]] = []
        while f"tuning.{len(tunings)}.0" in arrays:
            group = f"tuning.{len(tunings)}"
            count = sum(name.startswith(f"{group}.") for name in arrays)
            tunings.append([arrays[f"{group}.{place}"] for place in range(count)])
        work = int(arrays["work"])
        return cls(density, model, arrays["positions"], context, strengths, tunings, work)


_DENSITIES: WeakKeyDictionary[Model, Density] = WeakKeyDictionary()
"""A density goes when its model goes: it refers to the model's parts, not to the model."""


def density_of(model: Model) -> Density:
    """A model's density, always the same: runs that differ in seed alone compile nothing anew."""
    if model not in _DENSITIES:
        _DENSITIES[model] = Density(model.without_rows())
    return _DENSITIES[model]


def _strong(points: RulePoints, strength: float) -> RulePoints:
    return points._replace(strength=float(strength))
