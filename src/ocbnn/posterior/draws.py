"""The posterior: draws with everything that is needed to predict, check, enforce and save.

    posterior = Posterior.from_result(infer(model))
    posterior.flat          # the kept draws, (S, size)
    posterior.provenance    # rules in words, schema, settings, seed, versions, hash of the data, diagnostics

Draws are NumPy arrays, chain × draw × weight, and never move: rejection is a mask over chain × draw.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from ocbnn._version import __version__
from ocbnn.checking.draws import Drawn, evenly, rule_name
from ocbnn.checking.explain import lacking_words
from ocbnn.errors import OCBNNError
from ocbnn.inference.engines import ENGINES
from ocbnn.inference.result import Result, RuleOutcome
from ocbnn.model import Data, Model, outputs
from ocbnn.model.conditional import POPULATION, RuleTerm
from ocbnn.model.likelihoods import Gaussian, VaryingGaussian
from ocbnn.model.networks import as_key
from ocbnn.model.outputs import precision
from ocbnn.model.programs import QUICKLY
from ocbnn.resources import require_memory
from ocbnn.rules.constraint import Constraint
from ocbnn.seeds import seed_for
from ocbnn.storage.values import plain

if TYPE_CHECKING:
    import xarray

Table = pd.DataFrame | np.ndarray
"""Raw rows, or coded ones."""
LIBRARIES = ("jax", "numpy", "blackjax")
"""Whose versions a posterior remembers."""
DIAGNOSTICS = (
    "checked",
    "where",
    "worst_rhat",
    "worst_bulk_ess",
    "worst_tail_ess",
    "stuck",
    "discrepancy",
    "bias",
    "rhat_of_scales",
)
"""What of a run's diagnostics it remembers."""


@dataclass(frozen=True, eq=False)
class Posterior(Drawn):
    """Draws, the model they belong to, and where they come from.

    Attributes:
        draws: chain × draw × weight; an engine without chains has one.
        model: with the points and strengths that the draws belong to.
        provenance: plain JSON values: rules in words, schema, settings, seed, versions, hash of the data,
            diagnostics.
        kept: which draws remain after rejection; None for all of them.
        enforced: the rules that rejection has been applied for; point predictions obey them.
        truncated: the rules that every prediction is restricted to (`enforce.truncate`); where there are any,
            it is restricted to the enforced ones too.
        log_density: of every draw, where the engine knows it.
    """

    draws: Float[np.ndarray, "chains draws size"]
    model: Model
    provenance: Mapping[str, Any] = field(default_factory=dict)
    kept: Bool[np.ndarray, "chains draws"] | None = None
    enforced: tuple[RuleTerm, ...] = ()
    truncated: tuple[Constraint, ...] = ()
    log_density: Float[np.ndarray, "chains draws"] | None = None

    def __post_init__(self) -> None:
        draws = np.asarray(self.draws)
        if draws.ndim != 3 or draws.shape[2] != self.model.size or not draws.size:
            raise OCBNNError(
                f"Draws have the shape (chains, draws, {self.model.size}) and are not empty; "
                f"these have {draws.shape}."
            )
        object.__setattr__(self, "draws", draws)
        if self.kept is not None:
            kept = np.asarray(self.kept, dtype=bool)
            if kept.shape != draws.shape[:2]:
                raise OCBNNError(f"kept has the shape {draws.shape[:2]} of the draws, not {kept.shape}.")
            if not kept.any():
                raise OCBNNError("A posterior needs at least one draw, but kept is False for all of them.")
            object.__setattr__(self, "kept", kept)

    @classmethod
    def from_result(cls, result: Result) -> Posterior:
        """The posterior of a run, with its provenance."""
        return cls(
            np.asarray(result.draws),
            result.model,
            _provenance(result),
            log_density=None if result.log_density is None else np.asarray(result.log_density),
        )

    @property
    def rules(self) -> tuple[RuleTerm, ...]:
        """The rules of the model: those it is conditioned on, then those its base prior has learnt."""
        return self.model.rules

    @property
    def rules_in_force(self) -> tuple[Constraint, ...]:
        """All rules that predictions obey: those they are truncated by, and those of rejection."""
        return tuple(dict.fromkeys((*self.truncated, *(term.rule for term in self.enforced))))

    @property
    def has_chains(self) -> bool:
        """Whether draws follow one another in chains; else they are particles, or independent."""
        return bool(self.provenance.get("chains", self.draws.shape[0] > 1))

    def point_values(self, coded: Float[np.ndarray, "n Q"], values: np.ndarray) -> np.ndarray:
        """The point prediction at coded inputs, as enforcement leaves it; the mean of the draws without."""
        from ocbnn.posterior.predict import point_values  # which is made of what is here

        return point_values(self, coded, values)

    def with_kept(self, kept: Bool[np.ndarray, "chains draws"]) -> Posterior:
        """The same draws with another mask."""
        return replace(self, kept=kept)

    def to_datatree(self, *, rows: int = 200, seed: int = 0, log_likelihood: bool = True) -> xarray.DataTree:
        """An ArviZ DataTree: posterior, posterior_predictive, log_likelihood, observed_data and others.

        The others are sample_stats and constant_data.

        `posterior` holds the weights `w` and, as `function`, what rules speak of at some rows (weights are
        not identifiable, functions are). At most `rows` rows, evenly spaced, are in it; without data there is
        none. All draws are in it, as ArviZ's groups are rectangular: `sample_stats.kept` says which remain
        after rejection. For classes, values of Y are class indices. Where predictions are truncated, values
        of Y are samples of the restricted predictive, and of no draw by itself.

        `log_likelihood` is of all rows of the data, as `arviz_stats.loo` needs it, with y in raw units. Rows
        that were equal are one row, whose log-likelihood is multiplied by its weight. The dimension is `row`
        where all rows are in the tree, else `data_row`.

        Args:
            rows: the number of rows in the tree, at most.
            seed: of the samples of Y.
            log_likelihood: whether it is in the tree; it takes a number for each draw and row.

        Raises:
            ResourceError: the log-likelihood does not fit into memory.
        """
        import arviz_base

        chains, count, size = self.draws.shape
        weights: dict[str, Any] = {"w": self.draws}
        groups: dict[str, dict[str, Any]] = {"posterior": weights, "sample_stats": {"kept": self.mask}}
        if self.log_density is not None:
            groups["sample_stats"]["lp"] = self.log_density
        coords: dict[str, Any] = {"weight": np.arange(size)}
        dims = {"w": ["weight"], "function": ["row"], "y": ["row"], "x": ["row", "column"]}
        data = self.model.data
        if data is not None:
            chosen = evenly(len(data.inputs), rows)
            inputs = np.asarray(data.inputs, dtype=float)[chosen]
            coded = self.schema.to_raw(inputs)
            values = outputs.function_values(self.model, self.every, inputs)
            weights["function"] = values.reshape(chains, count, *values.shape[1:])
            observed = np.asarray(data.y)[chosen]
            if self.classes:
                dims["function"] = ["row", "class"]
                coords["class"] = [str(label) for label in self.classes]
            else:
                observed = self.target.to_raw(observed)
            samples = self._samples(coded, values, seed)
            groups["posterior_predictive"] = {"y": samples.reshape(chains, count, -1)}
            groups["observed_data"] = {"y": observed}
            groups["constant_data"] = {"x": coded}
            coords |= {"row": chosen, "column": list(self.schema.names)}
        attributes = {"/": {"provenance": json.dumps(dict(self.provenance))}}
        tree = arviz_base.from_dict(groups, coords=coords, dims=dims, attrs=attributes)
        if data is not None and log_likelihood:
            every = len(data.inputs)
            dimension = "row" if every == len(coords["row"]) else "data_row"
            tree["log_likelihood"] = arviz_base.from_dict(
                {"log_likelihood": {"y": self._row_log_likelihoods(every)}},
                coords={dimension: np.arange(every)},
                dims={"y": [dimension]},
            )["log_likelihood"]
        return tree

    def _row_log_likelihoods(self, rows: int) -> Float[np.ndarray, "chains draws n"]:
        """Of every draw, rejected ones included, at every row of the data, y in raw units."""
        chains, count, _ = self.draws.shape
        what = f"The log-likelihood of {chains * count:,} draws at {rows:,} rows"
        require_memory(2 * 8.0 * chains * count * rows, what, "Say log_likelihood=False.")
        return outputs.row_log_likelihoods(self.model, self.every).reshape(chains, count, rows)

    def _samples(self, coded: Float[np.ndarray, "n Q"], values: np.ndarray, seed: int) -> np.ndarray:
        """One sample of Y for every draw: raw y, or class indices."""
        from ocbnn.posterior.predict import noisy, sample_observation  # which are made of what is here

        every = Posterior(self.draws, self.model)
        if not self.truncated:
            return noisy(every, coded, every.flat, values, np.random.default_rng(seed))
        samples = sample_observation(self, coded, len(every.flat), key=seed)
        if not self.classes:
            return samples
        codes = self.target.to_model(pd.Series(samples.ravel(), name=self.target.name))
        return np.asarray(codes).reshape(samples.shape)

    def __repr__(self) -> str:
        chains, draws, size = self.draws.shape
        kept = "" if self.kept is None else f", {int(self.kept.sum())} kept"
        status = self.provenance.get("status", "origin unknown")
        return f"<posterior: {chains} × {draws} draws of {size} weights{kept}; {status}>"


def base_prior_draws(model: Model, count: int, key: int = 0) -> Posterior:
    """Draws of the base prior of the network's weights: before any row, and before the rules of `terms`.

    What the likelihood learns besides (noise) is where an engine would start.
    """
    with precision("float64"):
        keys = jax.random.split(as_key(seed_for(key, "draws of the base prior")), count)
        weights = np.asarray(jax.jit(jax.vmap(model.base.sample), compiler_options=QUICKLY)(keys))
        parameters = np.tile(model.likelihood.initial(keys[0]), (count, 1))
    draws = np.concatenate([weights, parameters], axis=1)
    return Posterior(draws[None], model, {"chains": False, "status": "drawn from the base prior"})


def as_coded(posterior: Posterior, table: Table) -> Float[np.ndarray, "n Q"]:
    """Raw rows as coded ones; coded rows as they are."""
    if isinstance(table, pd.DataFrame):
        return posterior.schema.encode(table)
    coded = np.asarray(table, dtype=float)
    if coded.ndim != 2 or coded.shape[1] != len(posterior.schema.columns):
        raise OCBNNError(
            f"Rows are a DataFrame, or coded rows of the shape (n, {len(posterior.schema.columns)}); "
            f"got the shape {coded.shape}."
        )
    return coded


def function_blocks(
    posterior: Posterior, table: Table, draws: Float[np.ndarray, "S size"] | None = None
) -> Iterator[tuple[slice, np.ndarray]]:
    """Blocks of the rows with Φ there: y in raw units `(S, b)`, or class probabilities `(S, b, C)`.

    Args:
        posterior: whose draws are used.
        table: a DataFrame, or coded rows.
        draws: some of its draws, flat; default: all kept ones.
    """
    inputs = posterior.schema.to_model(as_coded(posterior, table))
    yield from outputs.function_blocks(posterior.model, posterior.flat if draws is None else draws, inputs)


def function_draws(posterior: Posterior, table: Table) -> np.ndarray:
    """Φ of every kept draw at every row: y raw `(S, n)`, or class probabilities `(S, n, C)`.

    All of it is held here; `predict` and `function_blocks` are for tables of any length.
    """
    return posterior.values(as_coded(posterior, table), posterior.flat)


def data_hash(data: Data | None) -> str | None:
    """SHA-256 of the rows in model units: the same for the same table, in every process."""
    if data is None:
        return None
    digest = hashlib.sha256()
    for array in data:
        if array is not None:
            values = np.ascontiguousarray(np.asarray(array, dtype=np.float64))
            digest.update(f"{values.shape}".encode())
            digest.update(values.tobytes())
    return digest.hexdigest()


def rule_provenance(rule: RuleTerm) -> dict[str, Any]:
    """A rule in words, with who says so and how it entered the prior."""
    constraint = rule.rule
    return {
        "text": constraint.text(rule.schema),
        "name": constraint.name,
        "source": constraint.source,
        "reason": constraint.reason,
        "tolerance": rule.tolerance,
        "strength": float(np.asarray(rule.points.strength)),
        "term": rule.term.name,
        "sampler": rule.sampled_by,
        "points": int(np.count_nonzero(rule.points.weights)),  # places kept for points to find weigh nothing
        "points_found": int(np.count_nonzero(np.asarray(rule.points.weights)[rule.drawn + rule.corners :])),
        "learnt": False,
        "by_construction": False,
    }


EMPIRICAL = (
    "Points taken from rows or found by ascent, and strengths found by pilots, depend on the data, so this "
    "prior is empirical; all of them were frozen before any draw was kept."
)


def data_choices(model: Model, outcomes: Sequence[RuleOutcome]) -> list[str]:
    """Every choice that depends on the rows, in words: scales, missing values, points, strengths."""
    schema, said = model.schema, list[str]()
    if schema is None:
        return said
    coded = None if model.data is None else schema.to_raw(np.asarray(model.data.inputs, dtype=float))
    for column in schema.columns:
        name, offset = column.name, f"{column.offset:.4g}"
        if column.indicator:
            rows = f"{column.missing:,} row{'s' if column.missing != 1 else ''}"
            instead = (
                "a level of its own" if column.levels else f"the mean {column.mean:.4g}, with an indicator"
            )
            said.append(f"{name} is missing in {rows} and enters there as {instead}")
        if (column.transform, column.center, column.scale) in (("none", 0.0, 1.0), ("standardize", 0.0, 1.0)):
            continue
        value = {"log": f"log({name} + {offset})", "asinh": f"asinh({name} / {offset})"}
        shown = value.get(column.transform, name)
        said.append(f"{name} enters as ({shown} − {column.center:.4g}) / {column.scale:.4g}")
    target, likelihood = schema.target, model.likelihood
    if target is not None and (target.center, target.scale) != (0.0, 1.0):
        shown = f"log({target.name})" if target.is_log else target.name
        words = f"{target.name} is modelled as ({shown} − {target.center:.4g}) / {target.scale:.4g}"
        said.append(f"{words}: its mean and standard deviation")
    if target is not None and isinstance(likelihood, Gaussian | VaryingGaussian):
        scale = likelihood.noise_prior * target.scale
        shown = f"log({target.name})" if target.is_log else target.name
        if isinstance(likelihood, VaryingGaussian):
            said.append(
                f"the noise of {shown} is {scale / 2:.4g} a priori where the network's output for it is 0"
            )
        elif likelihood.noise is None:
            said.append(f"the noise of {shown} is half-normal a priori with the scale {scale:.4g}")
    known = {outcome.name: outcome.found_strength for outcome in outcomes}
    for term in model.terms:
        rule, name = rule_provenance(term), rule_name(term)
        found = "found by pilots" if known.get(name) else "given, or its term's own"
        drawn = _drawn(term, rule["points"] - rule["points_found"])
        said.append(
            f"{name}: {drawn} and {rule['points_found']:,} found where networks broke it; "
            f"strength {rule['strength']:.4g}, {found}"
        )
        lacking = 0 if coded is None else int(term.rule.lacks_value(coded, schema).sum())
        if lacking:
            said.append(f"{name}: {lacking_words(lacking)}")
    return said


def _drawn(term: RuleTerm, count: int) -> str:
    """The points of a rule that were not found, in words."""
    if term.sampled_by == POPULATION:
        return f"{len(term.points.coded):,} rows of the table"
    return f"{count:,} points drawn by the sampler {term.sampled_by!r}{' from rows' * term.uses_rows}"


def _provenance(result: Result) -> dict[str, Any]:
    model = result.model
    engine = ENGINES.get(result.engine)
    rules = [rule_provenance(rule) for rule in model.terms]
    # Rules that hold by construction, or that the base prior has learnt, have no term in this density.
    nothing: dict[str, Any] = {"strength": None, "term": None}
    rules += [rule_provenance(rule) | nothing | {"by_construction": True} for rule in model.formed]
    rules += [rule_provenance(rule) | nothing | {"learnt": True} for rule in model.learnt]
    found = any(rule["points_found"] for rule in rules) or any(o.found_strength for o in result.rules)
    empirical = any(rule.uses_rows for rule in model.terms) or (found and model.data is not None)
    diagnostics = result.diagnostics
    known: dict[str, Any] = plain(
        {
            "rules": rules,
            "schema": None if model.schema is None else model.schema.to_json(),
            "network": repr(model.network),
            "likelihood": repr(model.likelihood),
            "engine": result.engine,
            "chains": engine is None or engine.has_chains,
            "settings": result.settings,
            "seed": result.seed,
            "versions": {"ocbnn": __version__} | {name: version(name) for name in LIBRARIES},
            "data_sha256": data_hash(model.data),
            "data_rows": model.rows,
            "status": result.status,
            "converged": result.converged,
            "complete": result.complete,
            "diagnostics": {name: getattr(diagnostics, name, None) for name in DIAGNOSTICS},
            "acceptance": result.acceptance,
            "divergences": result.divergences,
            "seconds": result.seconds,
            "unmet": [_told(outcome) for outcome in result.unmet],
            "not_shown": [_told(outcome) for outcome in result.not_shown],
            "data_choices": data_choices(model, result.rules),
            "empirical_prior": EMPIRICAL if empirical else None,
        }
    )
    return known


def _told(outcome: RuleOutcome) -> dict[str, Any]:
    return {"name": outcome.name, "violation": outcome.violation, "reason": outcome.reason}
