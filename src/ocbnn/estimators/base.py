"""What both estimators share: from a table and rules to a posterior, and what can be asked of it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from jaxtyping import Float
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ocbnn.amortize.prior import AmortizedPrior
from ocbnn.errors import (
    InconclusiveWarning,
    ModelError,
    OCBNNError,
    OCBNNWarning,
    RuleError,
    SchemaError,
    UnmetRuleError,
)
from ocbnn.estimators import defaults, given, tables
from ocbnn.estimators.large import LargeTable, is_in_files
from ocbnn.estimators.lazy import by_partition, is_lazy
from ocbnn.inference.engines import choose
from ocbnn.inference.prepare import Settings
from ocbnn.inference.result import Result, RuleOutcome
from ocbnn.inference.run import infer
from ocbnn.model import Model
from ocbnn.model.conditional import RuleTerm
from ocbnn.model.forms import signs_for
from ocbnn.model.likelihoods import checked_noise
from ocbnn.model.networks import MLP
from ocbnn.model.priors import LearntPrior, Prior
from ocbnn.posterior.draws import Posterior
from ocbnn.posterior.enforce import Rejection, reject, truncate
from ocbnn.posterior.predict import Prediction, function_draws, predict, sample_observation
from ocbnn.rules.constraint import Constraint
from ocbnn.schema import Schema, Task
from ocbnn.schema.table import declarations

if TYPE_CHECKING:
    from ocbnn.checking.results import RuleChecks
    from ocbnn.posterior.conflict import Conflict
    from ocbnn.proof.results import Proofs

Enforcement = Literal["truncate", "draws", "proved"]


class OCBNNEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A Bayesian neural network under rules, in scikit-learn's contract; numerics are in other modules."""

    task: ClassVar[Task]

    # Set by subclasses' __init__ through `_keep`; scikit-learn reads the parameters from its signature.
    rules: Any
    engine: Any
    hidden: Any
    activation: Any
    prior: Any
    tolerance: Any
    columns: Any
    missing: Any
    unseen: Any
    draws: Any
    chains: Any
    batch: Any
    preparation: Any
    cores: Any
    strict: Any
    random_state: Any

    schema_: Schema
    rules_: tuple[Constraint, ...]
    posterior_: Posterior
    outcomes_: tuple[RuleOutcome, ...]
    enforcement_: Enforcement | None
    rejection_: Rejection | None
    proof_: Proofs | None
    n_features_in_: int

    # The fit ------------------------------------------------------------------------------------------------

    def _keep(self, arguments: Mapping[str, Any]) -> None:
        """Store the constructor's arguments, its `locals()`, under their names."""
        self.__dict__.update({name: value for name, value in arguments.items() if name != "self"})

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        progress: Any = False,
        folder: Any = None,
        resume: bool = False,
        executor: Any = None,
    ) -> Self:
        """Learn from rows and rules; a row of weight 2 is as two equal rows.

        A table that is larger than memory is given by its path: `fit("folder/", "y")` reads a folder of
        Parquet or CSV files (or one file) in pieces, and y is the name of its target. Engines that take
        minibatches can do so, such as "bbb". A table of at most 100,000 rows is read whole.

        `progress`, `folder`, `resume` and `executor` are those of `ocbnn.infer`: a bar, a folder in which
        draws are kept as they come, going on with the run in it, and workers that run the groups of chains.
        A fit that fails or is interrupted leaves the estimator as it was.
        """
        # Half of a fit would answer with the draws of one table in the units and labels of another.
        before = dict(self.__dict__)
        run = {"progress": progress, "folder": folder, "resume": resume, "executor": executor}
        try:
            result = self._fitted(X, y, sample_weight, **run)
            self._tell_unmet(result)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        self._tell_doubts(result)
        return self

    def _read_target(self, y: Any, rows: int) -> pd.Series:
        """The target beside the rows; subclasses know what it may hold."""
        raise NotImplementedError

    def _fitted(self, X: Any, y: Any, sample_weight: Any, **run: Any) -> Result:
        from ocbnn.estimators.folder import require_savable

        table = self._large(X, y, sample_weight) if is_in_files(X) else None
        if table is not None:
            X, y = table.train[table.inputs], table.train[table.target]
        frame = tables.read_table(self, X, reset=True)
        target = self._read_target(y, len(frame))
        schema = self._schema(X, frame, target, table)
        rows = tables.distinct_rows(frame, target, sample_weight, schema, self._free_columns(schema))
        if table is not None and not table.whole:
            rows = table.completed(rows)
        if isinstance(self.prior, LearntPrior):
            # The learnt weights mean what they mean in the prior's own units, not in those of these rows.
            rows = replace(rows, schema=self.prior.schema)
        self.schema_ = rows.schema
        rules = self._read_rules(rows.schema, named=hasattr(self, "feature_names_in_"))
        given.warn_of_scaled_inputs(rules, rows.schema)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        model = self._model(rows, rules, seed)
        if table is not None and not table.whole:
            model = replace(model, stream=table.stream(rows.schema))
        given.warn_of_no_probabilities(model)
        require_savable(self, model)
        result = self._infer(model, seed, **run)
        self.posterior_ = Posterior.from_result(result)
        self.rules_ = tuple(term.rule for term in self.posterior_.rules)
        self.outcomes_ = result.rules
        self.enforcement_, self.rejection_, self.proof_ = None, None, None
        return result

    def _large(self, X: Any, y: Any, sample_weight: Any) -> LargeTable:
        """The table at a path, after a pass over it."""
        if sample_weight is not None:
            raise OCBNNError("Rows that are read from files have no sample_weight; leave it out.")
        if not isinstance(y, str):
            raise OCBNNError("With the path of a table, y is the name of the column to predict.")
        if isinstance(X, LargeTable):
            return X
        table = LargeTable(X, y, missing=self.missing)
        for name, count in table.incomplete.items():
            raise SchemaError(
                f"Column {name!r} of {table.path} has {count:,} missing values. Leave these rows out or fill "
                "them; missing='indicator' keeps rows in which an input is missing."
            )
        return table

    def _schema(
        self, X: Any, frame: pd.DataFrame, target: pd.Series, table: LargeTable | None = None
    ) -> Schema:
        if isinstance(self.prior, LearntPrior):
            given.refuse_options(self, ("missing", "unseen", "target_transform"))
            return given.adopted_schema(self.prior, frame, target, self.task, self.columns)
        declared: dict[str, Any] = {**tables.array_kinds(X, frame)}
        for name, options in declarations(self.columns).items():
            declared[name] = (
                {**declared.get(name, {}), **options} if isinstance(options, Mapping) else options
            )
        if table is not None:
            declared = table.declared(declared, self.task)
        options = {"missing": self.missing, "unseen": self.unseen}
        self._declare_target(declared, str(target.name), frame)
        schema = Schema.infer(frame, target=target, task=self.task, columns=declared, **options)
        return tables.guessed_kinds(in_sorted_order(schema), frame, self.columns)

    def _declare_target(self, declared: dict[str, Any], name: str, frame: pd.DataFrame) -> None:
        """Add what the constructor says of the target to the declarations; subclasses know what that is."""

    def _free_columns(self, schema: Schema) -> frozenset[str]:
        """The columns whose scale is ours to choose: nobody has declared their transform."""
        declared = {name for name, options in dict(self.columns or {}).items() if "transform" in options}
        return frozenset(schema.names) - declared

    def _preparation(self) -> Settings:
        if self.preparation is None:
            return Settings()
        if not isinstance(self.preparation, Settings):
            raise ModelError(
                f"preparation is an ocbnn.inference.prepare.Settings, or None, not {self.preparation!r}."
            )
        return self.preparation

    def _model(self, rows: tables.Rows, rules: Sequence[Constraint], seed: int) -> Model:
        """The model of these rows; subclasses add what their task asks for."""
        raise NotImplementedError

    def _built(self, rows: tables.Rows, rules: Sequence[Constraint], seed: int, **options: Any) -> Model:
        if isinstance(self.prior, LearntPrior):
            network = given.adopted_network(self.prior, self.hidden, self.activation)
            base: Prior = self.prior
        else:
            noise = options.get("noise")
            network = defaults.network(
                rows.schema, self.hidden, len(rows.frame), self.activation, noise, rules
            )
            base = self._base_prior(network)
        return Model.build(
            frame=rows.frame,
            target=rows.target,
            schema=rows.schema,
            rules=rules,
            network=network,
            base=base,
            key=seed,
            **options,
        )

    def _base_prior(self, network: MLP) -> Prior:
        noise = checked_noise(getattr(self, "noise", None))
        return defaults.base_prior(
            self.prior, network, classification=self.task == "classification", noise=noise
        )

    def _infer(self, model: Model, seed: int, *, like: Model | None = None, **run: Any) -> Result:
        """Draws of the model; `run` are options of `infer` that are about this run alone.

        A twin is to differ from the fit it is `like` in nothing but what it leaves out: the engine is that of
        the fit, and rules are scored at the points they have.

        Raises:
            KeyboardInterrupt: Ctrl-C, where nobody looks on: a fit inside a cross-validation must not pass
                for a whole one. With `folder` or `progress` what there is is kept, and labelled.
        """
        preparation = self._preparation()
        result = infer(
            model,
            self.engine if like is None else choose(self.engine, like)[0],
            chains=self.chains,
            draws=None if self.draws is None else defaults.positive(self.draws, "draws"),
            seed=seed,
            batch=None if self.batch is None else defaults.positive(self.batch, "batch"),
            cores=self.cores,
            prepare_with=preparation if like is None else preparation.frozen(),
            **run,
        )
        if not result.complete and not (run.get("folder") or run.get("progress")):
            raise KeyboardInterrupt(
                f"The fit was {result.status.split(';')[0]}, and is not kept: fit(…, progress=True) or "
                "fit(…, folder=…) keeps what there is."
            )
        return result

    def _read_rules(self, schema: Schema, *, named: bool) -> tuple[Constraint, ...]:
        """The rules as constraints; where names were lost on the way, the error says how to keep them."""
        try:
            return self._tolerated(given.constraints(self.rules, schema))
        except RuleError as error:
            if named:
                raise
            message = (
                f"{error.message} The table came as an array, so its columns are x0 to "
                f"x{len(schema.names) - 1}. Pass a DataFrame; in a pipeline, keep the names with "
                'pipeline.set_output(transform="pandas").'
            )
            raise RuleError(message, rule=error.rule, position=error.position, line=error.line) from None

    def _tolerated(self, rules: Iterable[Constraint]) -> tuple[Constraint, ...]:
        if self.tolerance is None:
            return tuple(rules)
        return tuple(
            replace(rule, tolerance=self.tolerance) if rule.tolerance is None else rule for rule in rules
        )

    def _with_read_rules(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options with `rules=` as constraints: whatever the constructor takes, and rules of a model."""
        if options.get("rules") is None:
            return dict(options)
        rules: list[Any] = []
        for each in given.listed(options["rules"]):
            is_term = isinstance(each, RuleTerm)
            rules += [each] if is_term else self._tolerated(given.constraints(each, self.schema_))
        return {**options, "rules": tuple(rules)}

    def _tell_unmet(self, result: Result) -> None:
        if not result.unmet:
            return
        text = "; ".join(f"UNMET {outcome.name}: {outcome.explained}" for outcome in result.unmet)
        if self.strict:
            raise UnmetRuleError(text)
        warnings.warn(text, OCBNNWarning, stacklevel=3)

    def _tell_doubts(self, result: Result) -> None:
        """Say, once a fit, that the draws do not show what they should."""
        doubts = [] if result.converged else [f"{result.status}"]
        doubts += [f"{outcome.name}: {outcome.reason}" for outcome in result.not_shown]
        if doubts:
            warnings.warn(f"Not shown: {'; '.join(doubts)}.", InconclusiveWarning, stacklevel=3)

    # What can be asked --------------------------------------------------------------------------------------

    def _rows(self, X: Any) -> Float[np.ndarray, "n Q"]:
        """Rows to predict, coded."""
        check_is_fitted(self)
        return self._coded(tables.read_table(self, X, reset=False))

    def _coded(self, frame: pd.DataFrame) -> Float[np.ndarray, "n Q"]:
        coded = self.schema_.encode(frame)
        rules = (*self.rules_, *self.posterior_.rules_in_force)
        ruled = frozenset(name for rule in rules for name in rule.region.columns())
        tables.require_ruled_kinds(self.schema_, coded, ruled)
        return coded

    def _rows_and_target(self, X: Any, y: Any) -> tuple[pd.DataFrame, np.ndarray] | None:
        """Rows that come with their target, which is told by position; None where there are none.

        Raises:
            OCBNNError: one without the other, or a target that this estimator does not know.
        """
        check_is_fitted(self)
        if X is None and y is None:
            return None
        if X is None or y is None:
            one, missing = ("y", "X") if X is None else ("X", "y")
            raise OCBNNError(f"{one} came without {missing}: give rows and their target, or neither.")
        frame = tables.read_table(self, X, reset=False)
        self._coded(frame)
        values = tables.one_column(self, y, len(frame))
        assert self.schema_.target is not None
        self.schema_.target.to_model(pd.Series(values))
        return frame, values

    def _prediction(self, X: Any, levels: Sequence[float] = ()) -> Prediction:
        coded = self._rows(X)
        return predict(self.posterior_, coded, levels=levels, coverage=None)

    def outside(self, X: Any) -> Any:
        """Which values lie outside of what the fit has seen: a truth value for each row and column.

        A number lies outside of the observed range (the 0.5% and 99.5% quantiles of the fit's rows), a label
        is not a known level (only with `unseen="other"`, else it is refused). A missing value does not count.
        A prediction of such a row is an extrapolation. Of a Dask DataFrame it is a lazy one.
        """
        check_is_fitted(self)
        if is_lazy(X):
            return by_partition(self, X, "outside", self.schema_.names, bool)
        frame = tables.read_table(self, X, reset=False)
        where = self.schema_.outside(self.schema_.encode(frame))
        return pd.DataFrame(where, columns=list(self.schema_.names), index=frame.index)

    def sample_function(self, X: Any) -> np.ndarray:
        """What every draw's network says: (draws, rows) in raw units, × classes for a classifier.

        Truncation is of predictions: the functions are what they are. Rejection leaves those that obey.
        """
        coded = self._rows(X)
        return function_draws(self.posterior_, coded)

    def sample_predictive(self, X: Any, samples: int | None = None, random_state: Any = 0) -> np.ndarray:
        """New observations, noise included: (samples, rows) of y or labels; default: one per draw."""
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        coded = self._rows(X)
        samples = None if samples is None else defaults.positive(samples, "samples")
        return sample_observation(self.posterior_, coded, samples, key=seed)

    def check_rules(self, *, prior: bool = False, **options: Any) -> RuleChecks:
        """How far the posterior obeys each rule, on fresh points, or by proof where a rule asks for it.

        Args:
            prior: check the prior with its rules instead, before it has seen any row: draws it anew.
            options: of `checking.check.check_rules`; `rules=` as in the constructor.
        """
        from ocbnn.checking.check import check_rules
        from ocbnn.proof import asked_proofs, with_proofs

        check_is_fitted(self)
        options = self._with_read_rules(options)
        defaults.require_options(check_rules, options)
        defaults.positive(options.get("points", 1), "points")
        # Of no rules it is done at once, and refuses what it would refuse after the prior has been drawn.
        check_rules(self.posterior_, **{**options, "rules": ()})
        drawn, known = (self.without_data(), None) if prior else (self.posterior_, self.proof_)
        rules, key = options.get("rules"), options.get("key", 0)
        checks = check_rules(drawn, **options)
        if all(each.asked != "proved" for each in checks):
            return checks
        proofs = asked_proofs(drawn, rules, None if rules is not None else known, key=key)
        return checks if proofs is None else with_proofs(drawn, checks, proofs)

    def prove(self, **options: Any) -> Proofs:
        """Prove, refute or leave undecided that each draw keeps each rule everywhere in its region.

        The proof of the fit's own rules is kept as `proof_`, and saved with the estimator.

        Args:
            options: of `proof.prove`: budgets of `boxes` and `seconds`, `progress`; `rules=` as in the
                constructor.
        """
        from ocbnn.proof import prove

        check_is_fitted(self)
        options = self._with_read_rules(options)
        defaults.require_options(prove, options)
        proofs = prove(self.posterior_, **options)
        if options.get("rules") is None:
            self.proof_ = proofs
        return proofs

    def enforce(self, method: Enforcement = "truncate", **options: Any) -> Self:
        """A fitted copy whose predictions cannot break the deterministic rules.

        Args:
            method: "truncate" restricts the predictive at every asked row to what is allowed there; "draws"
                keeps only draws that obey at every one of many points, which says something about the
                function everywhere, and needs draws that do; "proved" keeps only draws that are proved to
                obey at every input.
            options: `rules=` as in the constructor, the fit's own unless given; for "draws" also those of
                `posterior.enforce.reject`, whose account (how many draws were kept) is `rejection_`; for
                "proved" those of `prove`, which is asked again only where there are any.

        Raises:
            EnforcementError: no draw survives, or there is no rule to enforce.
        """
        check_is_fitted(self)
        enforced, options = copy(self), self._with_read_rules(options)
        if method == "draws":
            defaults.require_options(reject, options)
            enforced.rejection_ = reject(self.posterior_, **options)
            enforced.posterior_ = enforced.rejection_.posterior
        elif method == "truncate":
            defaults.require_options(truncate, options)
            enforced.posterior_ = replace(
                self.posterior_, truncated=truncate(self.posterior_, **options).rules
            )
        elif method == "proved":
            from ocbnn.posterior.enforce import keep_proved

            proofs = self.proof_ if self.proof_ is not None and not options else self.prove(**options)
            enforced.posterior_ = keep_proved(self.posterior_, proofs, options.get("rules"))
            enforced.proof_ = None if options.get("rules") is not None else proofs
        else:
            raise OCBNNError(f'Rules are enforced by "truncate", "draws" or "proved", not by {method!r}.')
        enforced.enforcement_ = method
        return enforced

    def conflict(
        self, X: Any = None, y: Any = None, *, each: bool = True, **options: Any
    ) -> tuple[Conflict, ...]:
        """How much the data and each rule disagree: fits twins without the rules on the same rows.

        Args:
            X: rows that were not in the fit, for the log score; no log score unless given.
            y: their target.
            each: also fit without each rule in turn, so that log scores and changes are each rule's own;
                else those of all rules together.
            options: of `posterior.conflict.conflict`.
        """
        from ocbnn.posterior.conflict import conflict

        held_out = self._rows_and_target(X, y)
        defaults.require_options(conflict, options, ours=("held_out", "y"))
        defaults.positive(options.get("points", 1), "points")
        if not self.rules_:
            raise OCBNNError("The estimator has no rules, so nothing can conflict with the data.")
        without, model = self._twin(()), self.posterior_.model
        terms = (*model.terms, *model.formed)
        others = None
        if each and len(self.rules_) > 1:
            others = [self._twin(tuple(rule for rule in terms if rule is not left_out)) for left_out in terms]
            # What a prior has learnt cannot be taken out rule by rule: those are compared with no rules.
            others += [without] * (len(self.rules_) - len(terms))
        table, target = (None, None) if held_out is None else held_out
        return conflict(self.posterior_, without, others, held_out=table, y=target, **options)

    def without_rules(self, **run: Any) -> Posterior:
        """The posterior of the same rows without any rule, to compare.

        Args:
            run: `progress`, `folder`, `resume` and `executor` of `ocbnn.infer`.
        """
        check_is_fitted(self)
        return self._twin((), **run)

    def without_data(self, **run: Any) -> Posterior:
        """Draws of the prior with its rules, as strong as they are in the fit, before any row was seen.

        Args:
            run: `progress`, `folder`, `resume` and `executor` of `ocbnn.infer`.
        """
        check_is_fitted(self)
        model = with_given_strengths(self.posterior_.model).without_rows()
        seed = int(self.posterior_.provenance["seed"])
        return Posterior.from_result(self._infer(model, seed, like=self.posterior_.model, **run))

    def _twin(self, rules: tuple[RuleTerm, ...], **run: Any) -> Posterior:
        """The posterior of the same rows under some of the rules, as strong as they are in the fit.

        Under none, a base prior that has learnt rules gives way to what it was before. The network keeps by
        its form those of the rules that it keeps so in the fit, and may turn along all other columns.
        """
        model = self.posterior_.model
        if model.data is None:
            raise OCBNNError(
                "The rows of the fit are not here: a saved model does not hold them. Fit again for this."
            )
        base = model.base
        if not rules and isinstance(base, AmortizedPrior):
            base = base.base
        network, formed = model.network, tuple(term for term in rules if term in model.formed)
        if formed != model.formed:
            assert isinstance(network, MLP)
            asked = [replace(term.rule, by="construction") for term in formed]
            signs = signs_for(asked, self.schema_, network.activation, network.hidden)
            network = replace(network, signs=signs)
            base = self._base_prior(network)
        scored = tuple(term for term in rules if term not in formed)
        twin = with_given_strengths(replace(model, network=network, base=base, terms=scored, formed=formed))
        seed = int(self.posterior_.provenance["seed"])
        return Posterior.from_result(self._infer(twin, seed, like=model, **run))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator as a folder of plain files; `ocbnn.load(path)` gives it back."""
        from ocbnn.estimators.folder import save

        check_is_fitted(self)
        save(path, self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = self.missing == "indicator"
        return tags


def in_sorted_order(schema: Schema) -> Schema:
    """The schema with classes sorted, however they were declared: scikit-learn's scorers rely on that."""
    target = schema.target
    if target is None or not target.classes:
        return schema
    return replace(schema, target=replace(target, classes=tuple(sorted(target.classes))))


def with_given_strengths(model: Model) -> Model:
    """The model whose rules keep their strengths: found with all rules and rows, they are no longer free."""
    return replace(model, terms=tuple(replace(rule, strength_is_free=False) for rule in model.terms))


def require_share(value: Any, what: str) -> float:
    """A number strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 < value < 1:
        raise OCBNNError(f"{what} lies strictly between 0 and 1, not at {value!r}.")
    return float(value)
