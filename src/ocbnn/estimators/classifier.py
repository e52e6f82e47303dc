"""Classification under rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from jaxtyping import Float
from sklearn.base import ClassifierMixin

from ocbnn.errors import ModelError
from ocbnn.estimators.lazy import by_partition, is_lazy
from ocbnn.estimators.pictures import PlotMethods
from ocbnn.estimators.tables import Rows, read_labels
from ocbnn.model import Model
from ocbnn.posterior.allowed import RulesAt
from ocbnn.posterior.predict import Prediction, predict
from ocbnn.rules.constraint import Constraint
from ocbnn.schema import Task


class OCBNNClassifier(ClassifierMixin, PlotMethods):  # type: ignore[misc]
    """A Bayesian neural network for classes, under rules; any number of classes, labels of any kind.

    Args:
        rules: rules in words, constraints, or the path of a rules.yaml; one or several.
        engine: "auto" (chains for small tables, a variational posterior for large ones), a name such as
            "nuts", or an engine with its settings.
        hidden: units of each hidden layer; by the number of rows unless given.
        activation: "tanh", "rbf", "relu" or "gelu".
        prior: scale of the outputs' weights (in logits), or a base prior. An `AmortizedPrior` brings its
            table, its network and the rules it has learnt; `rules` are further ones.
        class_weight: "balanced", or a weight for each label: what a mistake on a row of that class costs.
            It is about decisions: `predict` chooses by it. The fit, and so probabilities and their bands, do
            not depend on it.
        tolerance: the share of violation accepted of rules that do not say it themselves.
        columns: what to declare about columns: {"age": {"bounds": (18, None), "transform": "log"}}; for the
            target {"levels": […]} declares classes that do not occur.
        missing: "indicator" lets values be missing: a number enters as the mean of the others, with a
            further input that is 1 where it is missing; a missing category is a level of its own. Default:
            None, missing values are refused.
        unseen: "other" predicts a category's label that the fit has not seen as none of the known levels:
            all of its inputs are 0. Default: None, such a label is refused.
        draws: of each chain (engines without chains: in all).
        chains: chains, particles or networks of an ensemble, side by side.
        batch: rows of a minibatch, for engines that take them; by the number of rows unless given.
        preparation: settings of warm start and strength search, `ocbnn.inference.prepare.Settings`.
        cores: groups of chains that run side by side; all cores unless given.
        strict: raise where a rule is not kept within its tolerance, instead of warning.
        random_state: a seed.

    Attributes:
        classes_: the labels, in the order of probabilities.
        class_weights_: the weight of each class in decisions.
        schema_: the table as it was understood.
        rules_: the rules as constraints.
        posterior_: draws with their model and provenance.
        outcomes_: how each rule fared.
        enforcement_: "truncate", "draws" or "proved" on what `enforce` gives back, else None.
        rejection_: after `enforce("draws")`: how many draws were kept, by chain and by rule.
        proof_: after `prove`: which draws keep which rule everywhere.

    >>> model = OCBNNClassifier(rules=["if x0 > 2 then y = 1"])
    """

    task: ClassVar[Task] = "classification"
    class_weight: Any
    classes_: np.ndarray
    class_weights_: np.ndarray

    def __init__(
        self,
        rules: Any = None,
        *,
        engine: Any = "auto",
        hidden: Any = None,
        activation: str = "tanh",
        prior: Any = None,
        class_weight: Any = None,
        tolerance: float | None = None,
        columns: Any = None,
        missing: str | None = None,
        unseen: str | None = None,
        draws: int | None = None,
        chains: int | None = None,
        batch: int | None = None,
        preparation: Any = None,
        cores: int | None = None,
        strict: bool = False,
        random_state: Any = None,
    ) -> None:
        self._keep(locals())

    def _read_target(self, y: Any, rows: int) -> pd.Series:
        target, self._label_dtype = read_labels(self, y, rows)
        return target

    def _model(self, rows: Rows, rules: Sequence[Constraint], seed: int) -> Model:
        target = rows.schema.target
        assert target is not None
        if len(target.classes) < 2:
            raise ModelError(
                f"{target.name!r} has only the one class {target.classes[0]!r}, and a classifier needs at "
                "least two. Classes that do not occur can be declared: "
                f"columns={{{target.name!r}: {{'levels': […]}}}}."
            )
        self.classes_ = _labels(target.classes, self._label_dtype)
        codes = target.to_model(rows.target)
        self.class_weights_ = class_weights(self.class_weight, self.classes_, codes, rows.weights)
        return self._built(rows, rules, seed, row_weights=rows.weights)

    def predict(self, X: Any) -> Any:
        """The most probable class, `(n,)`; with `class_weight` the one whose omission would cost most.

        Weights never move a prediction out of what a rule allows where the most probable class is allowed. Of
        a Dask DataFrame it is a lazy Series.
        """
        if is_lazy(X):
            assert self.schema_.target is not None
            name = self.schema_.target.name
            return by_partition(self, X, "predict", [name], self.classes_.dtype)[name]
        coded = self._rows(X)
        return self._decisions(coded, predict(self.posterior_, coded, levels=(), coverage=None))

    def _decisions(self, coded: Float[np.ndarray, "n Q"], prediction: Prediction) -> np.ndarray:
        """The class chosen for each of these rows, of which this is predicted."""
        probabilities, target = prediction.probabilities, self.schema_.target
        assert probabilities is not None
        assert target is not None
        choice = target.to_model(prediction.point)
        if self.class_weight is not None:
            weighted = probabilities * self.class_weights_
            choice = np.argmax(self._allowed_weights(weighted, coded, choice), axis=1)
        return self.classes_[choice]

    def predict_proba(self, X: Any) -> Any:
        """The probability of every class, `(n, C)`, in the order of `classes_`.

        Of a Dask DataFrame a lazy one, whose columns are the classes.
        """
        if is_lazy(X):
            return by_partition(self, X, "predict_proba", self.classes_.tolist())
        probabilities = self._prediction(X).probabilities
        assert probabilities is not None
        return probabilities

    def predict_log_proba(self, X: Any) -> Any:
        """Logarithms of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _allowed_weights(
        self, weighted: Float[np.ndarray, "n C"], coded: Float[np.ndarray, "n Q"], choice: np.ndarray
    ) -> Float[np.ndarray, "n C"]:
        for rule in dict.fromkeys((*self.rules_, *self.posterior_.rules_in_force)):
            for inside, here in RulesAt((rule,), self.schema_, coded).listed(all_of_them=False):
                if here.classes is None:
                    continue
                obeyed = np.asarray(here.classes)[np.arange(len(inside)), choice[inside]]
                weighted[inside[obeyed]] *= np.asarray(here.classes)[obeyed]
        return weighted


def class_weights(
    given: Any, classes: np.ndarray, codes: np.ndarray, row_weights: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " C"]:
    """The weight of each class in decisions, in the mean over rows 1."""
    if given is None:
        return np.ones(len(classes))
    occurring = np.bincount(codes, row_weights, minlength=len(classes))
    if isinstance(given, str):
        if given != "balanced":
            raise ModelError(f'class_weight is "balanced", or a weight for each label, not {given!r}.')
        weights = np.where(occurring > 0, occurring.sum() / np.maximum(occurring, 1e-300), 1.0)
    elif isinstance(given, Mapping):
        unknown = [label for label in given if label not in classes.tolist()]
        if unknown:
            raise ModelError(
                f"class_weight has a weight for {unknown[0]!r}, which is not among the classes "
                f"{classes.tolist()}."
            )
        weights = np.array([_weight(given.get(label, 1.0)) for label in classes.tolist()])
    else:
        raise ModelError(f'class_weight is "balanced", or a weight for each label, not {given!r}.')
    if not (np.isfinite(weights).all() and (weights > 0).all()):
        raise ModelError(f"Every weight in class_weight is positive and finite; got {given!r}.")
    return weights * occurring.sum() / (weights * occurring).sum()


def _weight(value: Any) -> float:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return float(value) if number else np.nan


def _labels(classes: Sequence[Any], dtype: np.dtype[Any]) -> np.ndarray:
    """The classes as an array of the dtype that the target came in, or of one that holds them all.

    Declared classes need not fit into the type of those that occur: 'bc' is cut to 'b' in one of a letter.
    """
    labels = np.array(classes, dtype=object)
    if dtype.kind == "O":
        return labels
    try:
        converted = labels.astype(dtype)
    except (OverflowError, ValueError):
        return np.array(classes)
    return converted if converted.tolist() == list(classes) else np.array(classes)
