"""What both estimators share: from a table and rules to a posterior, and what can be asked of it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from jaxtyping import Float
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ocbnn.amortize.prior import AmortizedPrior
from ocbnn.errors import InconclusiveWarning, OCBNNError, OCBNNWarning, RuleError, UnmetRuleError
from ocbnn.estimators import defaults
from ocbnn.estimators.adopting import adopted_network, adopted_schema
from ocbnn.estimators.showing import Showing
from ocbnn.estimators.tables import Rows, array_kinds, distinct_rows, read_table
from ocbnn.gates import gates_of
from ocbnn.inference.engines import choose
from ocbnn.inference.feed import rule_terms, with_rules
from ocbnn.inference.prepare import Settings
from ocbnn.inference.result import Result, RuleOutcome
from ocbnn.inference.run import infer
from ocbnn.model import Model
from ocbnn.networks import MLP
from ocbnn.posterior.draws import Posterior
from ocbnn.posterior.enforce import Rejection, reject, truncate
from ocbnn.posterior.predict import Prediction, function_draws, predict, sample_observation
from ocbnn.priors.base import LearntPrior, Prior
from ocbnn.priors.conditional import ConditionalPrior, RuleTerm
from ocbnn.priors.isotropic import IsotropicGaussian
from ocbnn.regions import Region
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.files import load_rules
from ocbnn.rules.parse import parse_rule
from ocbnn.schema import Schema, Task

if TYPE_CHECKING:
    from ocbnn.posterior.conflict import Conflict
    from ocbnn.posterior.satisfaction import SatisfactionReport

Enforcement = Literal["truncate", "draws"]
RULE_FILES = (".yaml", ".yml")


class OCBNNEstimator(Showing, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A Bayesian neural network under rules, in scikit-learn's contract; numerics are in other rooms."""

    task: ClassVar[Task]

    # Set by subclasses' __init__, which scikit-learn reads the parameters from.
    rules: Any
    engine: Any
    hidden: Any
    activation: Any
    prior: Any
    reach: Any
    tolerance: Any
    columns: Any
    draws: Any
    members: Any
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
    n_features_in_: int

    # The fit ------------------------------------------------------------------------------------------------

    def _fit(self, X: Any, frame: pd.DataFrame, target: pd.Series, sample_weight: Any, **run: Any) -> Self:
        schema = self._schema(X, frame, target)
        rows = distinct_rows(frame, target, sample_weight, schema, self._free_columns(schema))
        if isinstance(self.prior, LearntPrior):
            # The learnt weights mean what they mean in the prior's own units, not in those of these rows.
            rows = replace(rows, schema=self.prior.schema)
        self.schema_ = rows.schema
        rules = self._read_rules(rows.schema, named=hasattr(self, "feature_names_in_"))
        warn_of_scaled_inputs(rules, rows)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        result = self._infer(self._model(rows, rules, seed), seed, **run)
        self.posterior_ = Posterior.from_result(result)
        self.rules_ = tuple(term.rule for term in self.posterior_.rules)
        self.outcomes_ = result.rules
        self.enforcement_, self.rejection_ = None, None
        self._tell_unmet(result)
        self._tell_doubts(result)
        return self

    def _schema(self, X: Any, frame: pd.DataFrame, target: pd.Series) -> Schema:
        if isinstance(self.prior, LearntPrior):
            return adopted_schema(self.prior, frame, target, self.task, self.columns)
        declared = {**array_kinds(X, frame)}
        for name, options in dict(self.columns or {}).items():
            declared[name] = (
                {**declared.get(name, {}), **options} if isinstance(options, Mapping) else options
            )
        return Schema.infer(frame, target=target, task=self.task, columns=declared)

    def _free_columns(self, schema: Schema) -> frozenset[str]:
        """The columns whose scale is ours to choose: nobody has declared their transform."""
        declared = {name for name, options in dict(self.columns or {}).items() if "transform" in options}
        return frozenset(schema.names) - declared

    def _model(self, rows: Rows, rules: Sequence[Constraint], seed: int) -> Model:
        """The model of these rows; subclasses add what their task asks for."""
        raise NotImplementedError

    def _built(self, rows: Rows, rules: Sequence[Constraint], seed: int, **options: Any) -> Model:
        assert rows.schema.target is not None
        classes = len(rows.schema.target.classes)
        if isinstance(self.prior, LearntPrior):
            network = adopted_network(self.prior, self.hidden, self.activation)
            base: Prior = self.prior
        else:
            inputs, reach = rows.schema.to_model(rows.schema.encode(rows.frame)), defaults.reach(self.reach)
            # A prior of the user's own is over the weights it knows: there is no room for gates.
            gates = () if isinstance(self.prior, Prior) else gates_of(_regions(rules), rows.schema, reach)
            network = MLP(
                rows.schema.width,
                defaults.hidden_units(self.hidden, len(rows.frame)),
                classes if classes > 2 else 1,
                self.activation,
                defaults.mixing(inputs, rows.weights),
                defaults.telling(gates, inputs),
            )
            base = defaults.base_prior(self.prior, network, classification=classes > 0)
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

    def _infer(self, model: Model, seed: int, *, like: Model | None = None, **run: Any) -> Result:
        """Draws of the model; `run` are options of `infer` that are about this run alone.

        A twin is to differ from the fit it is `like` in nothing but what it leaves out: the engine is that of
        the fit, and rules are scored at the points they have.

        Raises:
            KeyboardInterrupt: Ctrl-C, where nobody looks on: a fit inside a cross-validation must not pass
                for a whole one. With `folder` or `progress` what there is is kept, and labelled.
        """
        result = infer(
            model,
            self.engine if like is None else choose(self.engine, like)[0],
            members=self.members,
            draws=defaults.draw_count(self.draws),
            seed=seed,
            batch=None if self.batch is None else defaults.positive(self.batch, "batch"),
            cores=self.cores,
            prepare_with=(self.preparation or Settings()).frozen() if like is not None else self.preparation,
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
            rules = tuple(rule for given in _listed(self.rules) for rule in _constraints(given, schema))
        except RuleError as error:
            if named:
                raise
            message = (
                f"{error.message} The table came as an array, so its columns are x0 to "
                f"x{len(schema.names) - 1}. Pass a DataFrame; in a pipeline, keep the names with "
                'pipeline.set_output(transform="pandas").'
            )
            raise RuleError(message, rule=error.rule, position=error.position, line=error.line) from None
        if self.tolerance is None:
            return rules
        return tuple(
            replace(rule, tolerance=self.tolerance) if rule.tolerance is None else rule for rule in rules
        )

    def _tell_unmet(self, result: Result) -> None:
        if not result.unmet:
            return
        text = "; ".join(f"UNMET {outcome.name}: {outcome.reason}" for outcome in result.unmet)
        if self.strict:
            raise UnmetRuleError(text)
        warnings.warn(text, OCBNNWarning, stacklevel=4)

    def _tell_doubts(self, result: Result) -> None:
        """Say, once a fit, that the draws do not show what they should."""
        doubts = [] if result.converged else [f"{result.status}"]
        doubts += [f"{outcome.name}: {outcome.reason}" for outcome in result.not_shown]
        if doubts:
            warnings.warn(f"Not shown: {'; '.join(doubts)}.", InconclusiveWarning, stacklevel=4)

    # What can be asked --------------------------------------------------------------------------------------

    def _rows(self, X: Any) -> Float[np.ndarray, "n Q"]:
        """Rows to predict, coded."""
        check_is_fitted(self)
        return self.schema_.encode(read_table(self, X, reset=False))

    def _prediction(self, X: Any, *, levels: Sequence[float]) -> Prediction:
        return self._predicted(self._rows(X), levels=levels)

    def _predicted(self, coded: Float[np.ndarray, "n Q"], *, levels: Sequence[float]) -> Prediction:
        return predict(self.posterior_, coded, levels=levels, coverage=None)

    def sample_function(self, X: Any) -> np.ndarray:
        """What every draw's network says: (draws, rows) in raw units, × classes for a classifier.

        Truncation is of predictions: the functions are what they are. Rejection leaves those that obey.
        """
        coded = self._rows(X)
        return function_draws(self.posterior_, coded)

    def sample_predictive(self, X: Any, samples: int | None = None, random_state: Any = 0) -> np.ndarray:
        """New observations, noise included: (samples, rows) of y or labels; one per draw unless said."""
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        coded = self._rows(X)
        return sample_observation(self.posterior_, coded, samples, key=seed)

    def check_rules(self, *, prior: bool = False, **options: Any) -> SatisfactionReport:
        """How far the posterior obeys each rule, on fresh points.

        Args:
            prior: check the prior with its rules instead, before it has seen any row: draws it anew.
            options: of `posterior.satisfaction.satisfaction`.
        """
        from ocbnn.posterior.satisfaction import satisfaction

        check_is_fitted(self)
        return satisfaction(self.without_data() if prior else self.posterior_, **options)

    def enforce(self, method: Enforcement = "truncate", **options: Any) -> Self:
        """A fitted copy whose predictions cannot break the deterministic rules.

        Args:
            method: "truncate" restricts the predictive at every asked row to what is allowed there; "draws"
                keeps only draws that obey at every one of many points, which says something about the
                function everywhere, and needs draws that do.
            options: `rules=[…]`, the fit's own unless given; for "draws" also the other options of
                `posterior.enforce.reject`, whose account (how many draws were kept) is `rejection_`.

        Raises:
            EnforcementError: no draw survives, or there is no rule to enforce.
        """
        check_is_fitted(self)
        enforced = copy(self)
        if method == "draws":
            enforced.rejection_ = reject(self.posterior_, **options)
            enforced.posterior_ = enforced.rejection_.posterior
        elif method == "truncate":
            enforced.posterior_ = replace(
                self.posterior_, truncated=truncate(self.posterior_, **options).rules
            )
        else:
            raise OCBNNError(f'Rules are enforced by "truncate" or by "draws", not by {method!r}.')
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

        check_is_fitted(self)
        coded = None if X is None else self._rows(X)
        if not self.rules_:
            raise OCBNNError("The estimator has no rules, so nothing can conflict with the data.")
        without, terms = self._twin(()), rule_terms(self.posterior_.model)
        others = None
        if each and len(self.rules_) > 1:
            others = [self._twin(tuple(rule for rule in terms if rule is not left_out)) for left_out in terms]
            # What a prior has learnt cannot be taken out rule by rule: those are compared with no rules.
            others += [without] * (len(self.rules_) - len(terms))
        return conflict(self.posterior_, without, others, held_out=coded, y=y, **options)

    def without_rules(self, **run: Any) -> Posterior:
        """The posterior of the same rows without any rule, to compare.

        Args:
            run: `progress`, `folder` and `resume` of `ocbnn.infer`.
        """
        check_is_fitted(self)
        return self._twin((), **run)

    def without_data(self, **run: Any) -> Posterior:
        """Draws of the prior with its rules, as strong as they are in the fit, before any row was seen.

        Args:
            run: `progress`, `folder` and `resume` of `ocbnn.infer`.
        """
        check_is_fitted(self)
        model = replace(with_given_strengths(self.posterior_.model), data=None)
        seed = int(self.posterior_.provenance["seed"])
        return Posterior.from_result(self._infer(model, seed, like=self.posterior_.model, **run))

    def _twin(self, rules: tuple[RuleTerm, ...], **run: Any) -> Posterior:
        """The posterior of the same rows under some of the rules, as strong as they are in the fit.

        A rule that is left out takes its gate with it. Under none, a base prior that has learnt rules gives
        way to what it was before.
        """
        model = self.posterior_.model
        if model.data is None:
            raise OCBNNError(
                "The rows of the fit are not here: a saved model does not hold them. Fit again for this."
            )
        assert isinstance(model.prior, ConditionalPrior)
        network, base = model.network, model.prior.base
        if isinstance(network, MLP) and network.gates and isinstance(base, IsotropicGaussian):
            regions = _regions([term.rule for term in rules])
            network, places = network.with_gates(gates_of(regions, self.schema_, network.gates[0].reach))
            base = IsotropicGaussian(network.size, np.broadcast_to(base.scale, base.size)[places])
        elif not rules and isinstance(base, AmortizedPrior):
            base = base.base
        prior = replace(model.prior, network=network, base=base, rules=rules)
        twin = with_given_strengths(replace(model, network=network, prior=prior))
        seed = int(self.posterior_.provenance["seed"])
        return Posterior.from_result(self._infer(twin, seed, like=model, **run))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator as a folder of plain files; `ocbnn.load(path)` gives it back."""
        from ocbnn.estimators.files import save

        check_is_fitted(self)
        save(path, self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def _listed(rules: Any) -> list[Any]:
    if rules is None:
        return []
    if isinstance(rules, str | os.PathLike | Constraint):
        return [rules]
    try:
        return list(rules)
    except TypeError:
        raise RuleError(
            f"rules= takes rules in words, constraints, or the path of a rules.yaml, not {rules!r}."
        ) from None


def _constraints(given: Any, schema: Schema) -> tuple[Constraint, ...]:
    if isinstance(given, Constraint):
        return (given,)
    if isinstance(given, os.PathLike) or (isinstance(given, str) and Path(given).suffix in RULE_FILES):
        return load_rules(given, schema)
    if isinstance(given, str):
        return (parse_rule(given, schema),)
    raise RuleError(
        f"A rule is words, a constraint, or the path of a rules.yaml, not a {type(given).__name__}."
    )


def _regions(rules: Sequence[Constraint]) -> list[Region]:
    return [rule.region for rule in rules]


def with_given_strengths(model: Model) -> Model:
    """The model whose rules keep their strengths: found with all rules and rows, they are no longer free."""
    return with_rules(model, [replace(rule, strength_is_free=False) for rule in rule_terms(model)])


def warn_of_scaled_inputs(rules: Sequence[Constraint], rows: Rows) -> None:
    """Warn where columns look standardised while a rule speaks of values far outside of them."""
    schema = rows.schema
    numbers = [column for column in schema.columns if column.kind in ("continuous", "integer")]
    standardised = numbers and all(
        abs(column.center) < 0.1 and abs(column.scale - 1.0) < 0.1 for column in numbers
    )
    if not standardised:
        return
    for rule in rules:
        low, high = rule.region.bounding_box(schema)
        for name in sorted(rule.region.columns()):
            place = schema.index(name)
            observed = schema.columns[place].observed
            room = 2.0 * (observed[1] - observed[0])
            if low[place] > observed[1] + room or high[place] < observed[0] - room:
                warnings.warn(
                    f"The rule `{rule.text(schema)}` speaks of {name} far outside of what was observed "
                    f"({observed[0]:.3g} to {observed[1]:.3g}), and all columns look standardised. Is there "
                    "a scaler before this estimator? Rules are in raw units, and inputs are standardised "
                    "inside: leave the scaler out.",
                    OCBNNWarning,
                    stacklevel=6,
                )
                return


def require_share(value: Any, what: str) -> float:
    """A number strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 < value < 1:
        raise OCBNNError(f"{what} lies strictly between 0 and 1, not at {value!r}.")
    return float(value)
