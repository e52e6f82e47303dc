"""The model: network + likelihood + prior → log-densities, pure functions of one flat vector w.

w holds the network's weights, then the likelihood's own parameters (learnt noise). Everything is jittable and
vmappable, in float32 or float64, and knows nothing of engines: `model.log_density` is what BlackJAX takes,
and `lambda w: -model.log_density(w)` what NumPyro calls a `potential_fn`.

    model = Model.build(frame=frame, target="y", rules=["if -0.3 <= x <= 0.3 then 2.5 <= y <= 3"], noise=0.1)
    jax.value_and_grad(model.log_density)(model.initial(0))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float

from ocbnn.errors import ModelError
from ocbnn.model.conditional import Reduction, RulePoints, RuleTerm, Scoring, concatenated, rule_terms
from ocbnn.model.forms import kept_by_form, signs_for
from ocbnn.model.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    Likelihood,
    Noise,
    VaryingGaussian,
    checked_noise,
)
from ocbnn.model.networks import MLP, AnyArray, Key, Network, as_key
from ocbnn.model.priors import IsotropicGaussian, LearntPrior, Prior
from ocbnn.model.terms import Term
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.parse import parse_rule
from ocbnn.schema import Schema


class Data(NamedTuple):
    """Rows in model units; `weights` multiply log-likelihoods (N/B makes a minibatch stand for all rows)."""

    inputs: Float[AnyArray, "n D"]
    y: AnyArray
    weights: Float[AnyArray, " n"] | None = None


class Stream(Protocol):
    """Rows that are read as they are needed, for tables larger than memory.

    `rows` is how many there are, `identity` tells them from others as plain values.
    """

    rows: int

    @property
    def identity(self) -> Any:
        """Plain values."""
        ...

    def take(self, seed: int, start: int, count: int) -> Data:
        """Rows `start` to `start + count` of the endless sequence of passes that the seed shuffles."""
        ...

    def share(self, index: int, count: int) -> Stream:
        """One of so many parts of the rows; together they are all of them."""
        ...


@dataclass(frozen=True, eq=False)
class Model:
    """The log-densities p(w) and p(D | w) of a network, with or without rules, with or without data.

    The prior is the conditional one, base prior times the terms of the rules (COCP, paper eq. 4):

        log p_C(w) = log p_f(w) + Σ_rules Σ_t weight_t · log p_g(Φ_w(x_t) | x_t)

    Attributes:
        network: Φ_w.
        likelihood: what the network's outputs mean.
        base: p_f, the prior of the network's weights before rules.
        terms: the rules that the prior is conditioned on.
        schema: the table.
        data: the rows; None for the prior alone.
        formed: rules that the network keeps by its form: they add nothing to the density.
        stream: all rows, where `data` are only some of them by chance, whose weights stand for all.
    """

    network: Network
    likelihood: Likelihood
    base: Prior
    terms: tuple[RuleTerm, ...] = ()
    schema: Schema | None = None
    data: Data | None = None
    formed: tuple[RuleTerm, ...] = ()
    stream: Stream | None = None

    def __post_init__(self) -> None:
        if self.base.size != self.network.size:
            raise ModelError(
                f"The base prior is over {self.base.size} weights, but the network has {self.network.size}."
            )
        if self.likelihood.outputs != self.network.outputs:
            raise ModelError(
                f"The likelihood asks for {self.likelihood.outputs} outputs, but the network gives "
                f"{self.network.outputs}."
            )

    @property
    def points(self) -> tuple[RulePoints, ...]:
        """The points of every rule of `terms`, in their order."""
        return tuple(term.points for term in self.terms)

    @property
    def rows(self) -> int:
        """How many rows there are to learn from."""
        if self.stream is not None:
            return self.stream.rows
        return 0 if self.data is None else len(self.data.inputs)

    def without_rows(self) -> Model:
        """The prior alone."""
        return replace(self, data=None, stream=None)

    @property
    def learnt(self) -> tuple[RuleTerm, ...]:
        """The rules that the base prior has learnt."""
        return self.base.learnt if isinstance(self.base, LearntPrior) else ()

    @property
    def rules(self) -> tuple[RuleTerm, ...]:
        """The rules that the prior is conditioned on, then those kept by the network's form, then those that
        the base prior has learnt besides.
        """
        own = (*self.terms, *self.formed)
        known = [term.rule for term in own]
        return (*own, *(term for term in self.learnt if term.rule not in known))

    @property
    def size(self) -> int:
        """Length of w."""
        return self.network.size + self.likelihood.size

    def split(self, w: Float[Array, " size"]) -> tuple[Array, Array]:
        """The network's weights and the likelihood's own parameters."""
        w = jnp.asarray(w)
        if self.likelihood.size == 0:
            return w, w[:0]
        return w[: self.network.size], w[self.network.size :]

    def initial(self, key: Key) -> Float[Array, " size"]:
        """A starting point for an engine."""
        weights, parameters = jax.random.split(as_key(key))
        return jnp.concatenate([self.network.initial(weights), self.likelihood.initial(parameters)])

    def log_prior(
        self, w: Float[Array, " size"], points: Sequence[RulePoints] | None = None
    ) -> Float[Array, ""]:
        """Base prior, rules, and the prior of the likelihood's parameters; `points` replaces the rules'."""
        weights, parameters = self.split(w)
        log_prior = self.base.log_density(weights)
        if self.terms:
            log_prior = log_prior + jnp.sum(self.rule_log_densities(weights, points))
        return log_prior + self.likelihood.log_prior(parameters) if self.likelihood.size else log_prior

    def rule_log_densities(
        self, weights: Float[Array, " weights"], points: Sequence[RulePoints] | None = None
    ) -> Float[Array, " rules"]:
        """What each rule of `terms` adds to the log-density of the network's weights."""
        points = self.points if points is None else tuple(points)
        if len(points) != len(self.terms):
            raise ModelError(f"There are {len(self.terms)} rules, but points for {len(points)} were given.")
        if not self.terms:
            return jnp.zeros((0,))
        # One pass through the network for all rules: many small products cost more than a large one.
        inputs = concatenated([each.inputs for each in points])
        values = self.likelihood.function(self.network.apply(weights, inputs))
        ends = np.cumsum([each.inputs.shape[0] for each in points])[:-1]
        found = [
            term.log_density(value, each)
            for term, value, each in zip(self.terms, jnp.split(values, ends), points, strict=True)
        ]
        for index, (term, each) in enumerate(zip(self.terms, points, strict=True)):
            if term.provable is not None and each.boxes is not None:
                found[index] = found[index] + term.provable.log_density(weights, each.boxes, each.strength)
        return jnp.stack(found)

    def log_likelihood(self, w: Float[Array, " size"], batch: Data | None = None) -> Float[Array, ""]:
        """Σ_rows weight · log p(y | Φ_w(x)) of the batch, or of the model's data; 0 where there are none."""
        rows = self.data if batch is None else batch
        if rows is None:
            return jnp.zeros((), jnp.asarray(w).dtype)
        return jnp.sum(self.row_log_likelihoods(w, rows))

    def row_log_likelihoods(self, w: Float[Array, " size"], rows: Data) -> Float[Array, " n"]:
        """Of each row weight · log p(y | Φ_w(x)), y in model units."""
        weights, parameters = self.split(w)
        outputs = self.network.apply(weights, rows.inputs)
        return self.likelihood.log_density(parameters, outputs, rows.y, rows.weights)

    def log_density(
        self,
        w: Float[Array, " size"],
        batch: Data | None = None,
        points: Sequence[RulePoints] | None = None,
    ) -> Float[Array, ""]:
        """The sum log p(w) + log p(D | w): the posterior's log-density up to its normaliser."""
        return self.log_prior(w, points) + self.log_likelihood(w, batch)

    def apply(self, w: Float[Array, " size"], x: Float[AnyArray, "n D"]) -> Float[Array, "n outputs"]:
        """The network's outputs at model inputs: means, or logits."""
        return self.network.apply(self.split(w)[0], x)

    def function(self, w: Float[Array, " size"], x: Float[AnyArray, "n D"]) -> Array:
        """What rules speak of, in model units: y `(n,)`, or log class probabilities `(n, C)`."""
        return self.likelihood.function(self.apply(w, x))

    def hyperparameters(self, w: Float[Array, " size"]) -> dict[str, Array]:
        """What is learnt besides the weights, by name: noise.

        Scales of layers are integrated out: they are functions of the weights, and not judged with these.
        """
        _, parameters = self.split(w)
        named: dict[str, Array] = {}
        name = "log noise" if isinstance(self.likelihood, Gaussian) else "parameter of the likelihood"
        for index in range(self.likelihood.size):
            named[name if self.likelihood.size == 1 else f"{name} {index + 1}"] = parameters[index]
        return named

    @classmethod
    def build(
        cls,
        *,
        frame: pd.DataFrame | None = None,
        target: str | pd.Series | None = None,
        schema: Schema | None = None,
        rules: Sequence[Constraint | str] = (),
        network: Network | None = None,
        hidden: Sequence[int] = (10,),
        activation: str = "rbf",
        noise: Noise = None,
        weight_scale: float = 1.0,
        scale_by_fan_in: bool = False,
        base: Prior | None = None,
        row_weights: Float[np.ndarray, " n"] | None = None,
        prior_only: bool = False,
        standardize: bool = True,
        points: int = 100,
        reduction: Reduction = "mean",
        term: Term | str | Mapping[str, Term | str] | None = None,
        strength: float | Mapping[str, float] | None = None,
        sampler: str | None = None,
        corners: bool = False,
        key: int = 0,
    ) -> Model:
        """A model from a table, or from a schema alone (then it is its prior).

        Args:
            frame: raw rows, with the target among its columns or beside them.
            target: the name of the target's column, or a Series; needed where `schema` is not given.
            schema: the table's description; inferred from the frame unless given.
            rules: constraints, or rules in words.
            network: any network; an MLP of the widths `hidden` unless given, which keeps rules by its form
                where their `by` and the activation let it.
            hidden: units of each hidden layer.
            activation: "rbf", "tanh", "relu" or "gelu".
            noise: standard deviation of y in raw units, or of log y where that is modelled; learnt unless
                given. "varying": it depends on the inputs, by a second output of the network.
            weight_scale: σ_ω, standard deviation of every weight under the base prior.
            scale_by_fan_in: divide σ_ω by the square root of the number of units that feed in.
            base: another base prior. One that has learnt rules (`AmortizedPrior`) brings its schema and its
                network; `rules` are then further ones, on top of those it has learnt.
            row_weights: one for each row of the frame.
            prior_only: use the rows for the schema and for sampling regions, but not as data.
            standardize: False keeps all columns and the target in raw units, as the paper does.
            points: how many points each rule is scored at; this and what follows as in `Scoring`.
            reduction: "mean" or "sum" over the points of a rule.
            term: how rules become densities, where not by their default.
            strength: of the rules' terms.
            sampler: where points come from.
            corners: whether the corners of regions are points too.
            key: seed of the points.
        """
        if isinstance(base, LearntPrior):
            described = schema = schema or base.schema
            network = network or base.network
            base.check(network, schema)
        else:
            described = _described(frame, target, schema)
            schema = described if standardize else unstandardized(described)
        likelihood = default_likelihood(schema, noise, described)
        read = [parse_rule(rule, schema) if isinstance(rule, str) else rule for rule in rules]
        if network is None:
            signs = signs_for(read, schema, activation, hidden)
            network = MLP(schema.width, tuple(hidden), likelihood.outputs, activation, signs)
        if noise == "varying" and network.outputs != likelihood.outputs:
            raise ModelError(
                f'noise="varying" is a second output of the network, but this one has {network.outputs}. '
                "Give a network of two outputs, or another noise; a prior that has learnt rules brings one."
            )
        coded = None if frame is None else schema.encode(frame)
        base = base or IsotropicGaussian.for_network(network, weight_scale, scale_by_fan_in=scale_by_fan_in)
        terms = rule_terms(
            read,
            schema,
            Scoring(points, reduction, term, strength, sampler, corners, key),
            bounded=network.bounded,
            data=coded,
        )
        data = None
        if coded is not None and not prior_only:
            data = _data(frame, target, schema, coded, row_weights)
        formed = tuple(term for term in terms if _is_formed(term.rule, network, schema))
        scored = tuple(
            term.to_be_proved(network) if term.rule.is_proved else term
            for term in terms
            if term not in formed
        )
        return cls(network, likelihood, base, scored, schema, data, formed)


def _is_formed(rule: Constraint, network: Network, schema: Schema) -> bool:
    """Whether a rule needs no term, as the network keeps it by its form.

    Raises:
        ModelError: it is to hold by construction, and this network does not keep it.
    """
    kept = rule.by != "prior" and kept_by_form(network, rule, schema)
    if rule.by == "construction" and not kept:
        rule.require_form(schema)
        raise ModelError(
            f"The rule `{rule.text(schema)}` is to hold by construction, but the network that was given does "
            "not keep it by its form. Leave the network out, give an MLP with these signs, or `by: prior`."
        )
    return kept


def unstandardized(schema: Schema) -> Schema:
    """The same table with model units equal to raw ones, one-hot categories apart: the paper's settings."""
    columns = tuple(replace(column, transform="none", center=0.0, scale=1.0) for column in schema.columns)
    target = None if schema.target is None else replace(schema.target, center=0.0, scale=1.0)
    return replace(schema, columns=columns, target=target)


def _described(frame: pd.DataFrame | None, target: str | pd.Series | None, schema: Schema | None) -> Schema:
    if schema is None:
        if frame is None:
            raise ModelError("Model.build needs a table (frame=…, target=…) or a schema.")
        schema = Schema.infer(frame, target=target)
    if schema.target is None:
        raise ModelError(
            "Model.build needs to know what is predicted: give target=…, or a schema that has one."
        )
    return schema


def default_likelihood(schema: Schema, noise: Noise = None, described: Schema | None = None) -> Likelihood:
    """The likelihood of the task; learnt noise is half-normal with the scale sd(y), known to `described`."""
    target, standard = schema.target, (described or schema).target
    if target is None or standard is None:
        raise ModelError("The schema has no target: Schema.infer(frame, target=…).")
    if target.task == "regression":
        spread, given = standard.scale / target.scale, checked_noise(noise)
        if given == "varying":
            return VaryingGaussian(noise_prior=spread)
        return Gaussian(None if given is None else given / target.scale, noise_prior=spread)
    if noise is not None:
        raise ModelError(f"{target.name!r} is a class, which has no noise; leave noise out.")
    if len(target.classes) < 2:
        raise ModelError(
            f"{target.name!r} has the one class {target.classes[0]!r}; declare all classes it can take: "
            f"Schema.infer(…, columns={{{target.name!r}: {{'levels': […]}}}})."
        )
    return Bernoulli() if len(target.classes) == 2 else Categorical(len(target.classes))


def _data(
    frame: Any,
    target: str | pd.Series | None,
    schema: Schema,
    coded: np.ndarray,
    row_weights: np.ndarray | None,
) -> Data:
    assert schema.target is not None
    name = schema.target.name
    if isinstance(target, pd.Series):
        series = target
    elif name in frame.columns:
        series = frame[name]
    else:
        raise ModelError(f"The frame has no column {name!r}, the target; give target=… or prior_only=True.")
    if len(series) != len(coded):
        raise ModelError(f"The target has {len(series)} values, but the table {len(coded)} rows.")
    weights = None if row_weights is None else np.asarray(row_weights, dtype=float)
    if weights is not None and (weights.shape != (len(coded),) or not np.all(weights >= 0)):
        raise ModelError(f"row_weights is one non-negative number for each of the {len(coded)} rows.")
    return Data(schema.to_model(coded), schema.target.to_model(series), weights)
