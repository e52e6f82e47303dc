"""Regression under rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import pandas as pd
from sklearn.base import RegressorMixin

from ocbnn.errors import OCBNNError
from ocbnn.estimators.base import require_share
from ocbnn.estimators.lazy import by_partition, is_lazy
from ocbnn.estimators.pictures import PlotMethods
from ocbnn.estimators.tables import Rows, read_numbers
from ocbnn.model import Model
from ocbnn.model.likelihoods import Noise, checked_noise
from ocbnn.model.priors import Prior
from ocbnn.rules.constraint import Constraint
from ocbnn.schema import Task


class OCBNNRegressor(RegressorMixin, PlotMethods):  # type: ignore[misc]
    """A Bayesian neural network for a number, under rules; everything a user gives or gets is in raw units.

    Args:
        rules: rules in words, constraints, or the path of a rules.yaml; one or several.
        engine: "auto" (chains for small tables, a variational posterior for large ones), a name such as
            "nuts", or an engine with its settings.
        hidden: units of each hidden layer; by the number of rows unless given.
        activation: "tanh", "rbf", "relu" or "gelu".
        prior: scale of the outputs' weights (in standard deviations of y), or a base prior. An
            `AmortizedPrior` brings its table, its network and its rules; `rules` are further ones.
        noise: standard deviation of y around the function. Default: "varying", it depends on the inputs and
            is learnt as a second output of the network; "constant" learns one number (the default with a
            base prior of your own); a number, in units of y, is taken as it is. With
            `target_transform="log"` it is that of log y.
        target_transform: "log" models log y, for targets above 0 whose spread grows with their size. All
            that is given or asked stays in units of y; `predict` is then about the median of y.
        tolerance: the share of violation accepted of rules that do not say it themselves.
        columns: what to declare about columns: {"age": {"bounds": (18, None), "transform": "log"}}.
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
        schema_: the table as it was understood.
        rules_: the rules as constraints.
        posterior_: draws with their model and provenance.
        outcomes_: how each rule fared.
        enforcement_: "truncate", "draws" or "proved" on what `enforce` gives back, else None.
        rejection_: after `enforce("draws")`: how many draws were kept, by chain and by rule.
        proof_: after `prove`: which draws keep which rule everywhere.

    >>> model = OCBNNRegressor(rules=["if x0 > 2 then y >= 0"])
    """

    task: ClassVar[Task] = "regression"
    noise: Any
    target_transform: Any

    def __init__(
        self,
        rules: Any = None,
        *,
        engine: Any = "auto",
        hidden: Any = None,
        activation: str = "tanh",
        prior: Any = None,
        noise: float | Literal["varying", "constant"] | None = None,
        target_transform: str | None = None,
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
        return read_numbers(self, y, rows)

    def _declare_target(self, declared: dict[str, Any], name: str, frame: pd.DataFrame) -> None:
        if self.target_transform is None:
            return
        # In declarations `y` means the target, too.
        key = "y" if "y" in declared and name not in declared and "y" not in frame else name
        options = declared.get(key, {})
        if isinstance(options, Mapping):
            declared[key] = {**options, "transform": self.target_transform}

    def _model(self, rows: Rows, rules: Sequence[Constraint], seed: int) -> Model:
        return self._built(rows, rules, seed, noise=self._noise(), row_weights=rows.weights)

    def _noise(self) -> Noise:
        """The noise of the model: by default it varies, where no base prior says what the network is."""
        if self.noise is None:
            return None if isinstance(self.prior, Prior) else "varying"
        return checked_noise(self.noise)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean, `(n,)`; with `return_std` also the standard deviation of an observation, with noise.

        With `target_transform="log"` the prediction is exp of the mean of log Φ: about the median of y. Of a
        Dask DataFrame it is a lazy Series, or two of them.
        """
        if is_lazy(X):
            assert self.schema_.target is not None
            name = self.schema_.target.name
            if not return_std:
                return by_partition(self, X, "predict", [name])[name]
            both = by_partition(self, X, "predict", [name, "sd"], return_std=True)
            return both[name], both["sd"]
        prediction = self._prediction(X)
        if not return_std:
            return prediction.point
        assert prediction.observation is not None
        return prediction.point, prediction.observation.sd

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        """Where a new observation falls with that probability: its central quantiles, `(n, 2)`.

        Of a Dask DataFrame a lazy one with the columns `lower` and `upper`.
        """
        share = require_share(coverage, "coverage")
        if is_lazy(X):
            return by_partition(self, X, "predict_interval", ["lower", "upper"], coverage=share)
        return self.predict_quantiles(X, (0.5 - share / 2, 0.5 + share / 2))

    def predict_quantiles(self, X: Any, levels: Sequence[float]) -> Any:
        """Quantiles of a new observation, noise included, `(n, levels)`.

        Of a Dask DataFrame a lazy one, whose columns are the levels.
        """
        if not isinstance(levels, Iterable):
            raise OCBNNError(f"levels is a list, such as [0.05, 0.5, 0.95], not {levels!r}.")
        checked = tuple(require_share(level, "A quantile's level") for level in levels)
        if not checked:
            raise OCBNNError("levels is empty: give at least one quantile's level, such as [0.5].")
        if is_lazy(X):
            return by_partition(self, X, "predict_quantiles", checked, levels=checked)
        observation = self._prediction(X, checked).observation
        assert observation is not None
        assert observation.quantiles is not None
        return observation.quantiles
