"""The models that are compared: each learns from training rows and gives the scores of test rows.

Every library is imported by its model alone: ours and the peers do not share an environment. All have their
libraries' defaults but bde, whose settings are stated below, and scikit-learn's network, which gets scaled
columns, a scaled target and the steps it needs. Models that predict a point alone are scored as a Gaussian
around it, with an honest standard deviation: that of residuals of rows held out by five-fold cross-validation
among the training rows, not of the training residuals, which a model that follows its rows makes too small.
Their seconds include it, since without it they say nothing about intervals.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.panel.scores import COVERAGE, Scored, gaussian_mixture

# The cores of all models: those that this process may use.
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
# A Gaussian process has a cost of rows³; beyond this many it sees as many of them, chosen at random.
GP_ROWS = 2_000
# Eight members of 16 × 16 units, 5,000 steps of warm-up, then 10,000 of which every tenth is kept. Epochs,
# patience and rates are those of bde's own example; all else is its default: relu, N(0, 1) on every weight,
# noise that depends on the inputs.
BDE = {
    "hidden_layers": [16, 16],
    "n_members": 8,
    "epochs": 200,
    "patience": 10,
    "validation_split": 0.15,
    "lr": 1e-3,
    "weight_decay": 1e-4,
    "warmup_steps": 5000,
    "n_samples": 10_000,
    "n_thinning": 10,
}


class Task(NamedTuple):
    """What a model is given: rows to learn from, rows to be scored on, a seed, and known trends.

    A trend is 1 where the target increases with a column, -1 where it decreases, 0 where that is not known.
    """

    X: pd.DataFrame
    y: np.ndarray
    X_test: pd.DataFrame
    y_test: np.ndarray
    target: str
    seed: int
    trends: Mapping[str, int] = MappingProxyType({})

    def numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """Training and test rows as numbers, text one-hot."""
        coded = self._coded().to_numpy(dtype=float)
        return coded[: len(self.X)], coded[len(self.X) :]

    def signs(self) -> tuple[int, ...]:
        """The trend of each column of `numbers`."""
        return tuple(self.trends.get(name, 0) for name in self._coded())

    def _coded(self) -> pd.DataFrame:
        return pd.get_dummies(pd.concat([self.X, self.X_test]), dtype=float)


Fitted = tuple[Scored, str]
"""Scores, and in a sentence how the fit ended."""


class Model(NamedTuple):
    """A model and the library that it needs, which is imported before the clock starts."""

    library: str
    run: Callable[[Task], Fitted]


def ours(task: Task, rule: str | None = None) -> Fitted:
    """OCBNNRegressor with its defaults; with the rules of that name."""
    from ocbnn import OCBNNRegressor
    from ocbnn.posterior.conflict import log_scores

    y = pd.Series(task.y, index=task.X.index, name=task.target)
    text = None if rule is None else trend_rule(task) if rule == TRENDS else RULES[rule](task.X, y)
    model = OCBNNRegressor(rules=text, random_state=task.seed).fit(task.X, y)
    low, high = model.predict_interval(task.X_test, COVERAGE).T
    scored = Scored(
        task.y_test - model.predict(task.X_test),
        log_scores(model.posterior_, task.X_test, task.y_test),
        (low <= task.y_test) & (task.y_test <= high),
    )
    return scored, model.posterior_.provenance["status"] + (f"; rule: {text}" if text else "")


def bde(task: Task) -> Fitted:
    """Bayesian deep ensembles, `sklearn-contrib-bde`; columns and target standardised."""
    from bde import BdeRegressor
    from sklearn.preprocessing import StandardScaler

    X, X_test = task.numbers()
    columns, target = StandardScaler().fit(X), StandardScaler().fit(task.y[:, None])
    model = BdeRegressor(**BDE, seed=task.seed).fit(columns.transform(X), target.transform(task.y[:, None]))
    raw = np.asarray(model.predict(columns.transform(X_test), raw=True), dtype=float)
    means, spread = raw.reshape(-1, *raw.shape[2:]).transpose(2, 0, 1)
    sds = np.logaddexp(0.0, spread) + 1e-6  # as in its likelihood
    return gaussian_mixture(task.y_test, means * target.scale_ + target.mean_, sds * target.scale_), "fitted"


def gp(task: Task) -> Fitted:
    """A Gaussian process: Matérn 5/2 with one length a column, and noise; scikit-learn."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
    from sklearn.preprocessing import StandardScaler

    X, X_test = task.numbers()
    columns = StandardScaler().fit(X)
    seen = np.random.default_rng(task.seed).permutation(len(X))[:GP_ROWS]
    kernel = ConstantKernel(1.0) * Matern(np.ones(X.shape[1]), (1e-2, 1e3), nu=2.5) + WhiteKernel(0.1)
    model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=task.seed)
    model.fit(columns.transform(X[seen]), task.y[seen])
    means, sds = model.predict(columns.transform(X_test), return_std=True)
    return gaussian_mixture(task.y_test, means, sds), f"fitted to {len(seen):,} rows"


def ngboost(task: Task) -> Fitted:
    """Natural gradient boosting of a Gaussian."""
    from ngboost import NGBRegressor

    X, X_test = task.numbers()
    found = NGBRegressor(verbose=False, random_state=task.seed).fit(X, task.y).pred_dist(X_test)
    return gaussian_mixture(task.y_test, found.loc, found.scale), "fitted"


def point_model(build: Callable[[int], Any], task: Task) -> Fitted:
    """A model that predicts a point, with the honest noise of the module's first lines."""
    from sklearn.model_selection import KFold, cross_val_predict

    X, X_test = task.numbers()
    model = build(task.seed)
    folds = KFold(5, shuffle=True, random_state=task.seed)
    noise = np.sqrt(np.mean((task.y - cross_val_predict(model, X, task.y, cv=folds)) ** 2))
    means = model.fit(X, task.y).predict(X_test)
    return gaussian_mixture(task.y_test, means, np.full(len(means), noise)), "fitted"


def constrained(build: Callable[[int], Any], option: str, task: Task) -> Fitted:
    """The same with the known trends, by its library's own option."""
    return point_model(lambda seed: build(seed).set_params(**{option: task.signs()}), task)


def xgboost(seed: int) -> Any:
    from xgboost import XGBRegressor

    return XGBRegressor(random_state=seed, n_jobs=CORES)


def lightgbm(seed: int) -> Any:
    from lightgbm import LGBMRegressor

    return LGBMRegressor(random_state=seed, n_jobs=CORES, verbose=-1)


def histgb(seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(random_state=seed)


def network(seed: int) -> Any:
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    steps = make_pipeline(StandardScaler(), MLPRegressor(random_state=seed, max_iter=2000))
    return TransformedTargetRegressor(steps, transformer=StandardScaler())


def quoted(name: Any) -> str:
    """A column's name as rules write it."""
    return "`" + str(name).replace("`", "``") + "`"


def positive(X: pd.DataFrame, y: pd.Series) -> str:
    """The target is at least 0 everywhere, where that is true of the rows."""
    if (y < 0).any():
        raise ValueError("the rule 'positive' is not true of these rows")
    return f"always {quoted(y.name)} >= 0"


def region(X: pd.DataFrame, y: pd.Series) -> str:
    """A bound at the upper end of the column of numbers with the largest rank correlation with the target.

    From the 90% quantile of the column on, the target is at least the smallest value that rows show there;
    where it falls with the column, at most the largest one.
    """
    correlation = X.select_dtypes("number").corrwith(y, method="spearman")
    column = correlation.abs().idxmax()
    edge = float(X[column].quantile(0.9))
    there = y[X[column] >= edge]
    limit = f">= {float(there.min())}" if correlation[column] > 0 else f"<= {float(there.max())}"
    return f"if {quoted(column)} >= {edge} then {quoted(y.name)} {limit}"


def trend_rule(task: Task) -> str:
    """The known trends, as one rule; they hold everywhere."""
    words = {1: "increases", -1: "decreases"}
    parts = (
        f"{quoted(task.target)} {words[sign]} with {quoted(name)}"
        for name, sign in task.trends.items()
        if sign
    )
    return f"always {' and '.join(parts)}"


RULES: dict[str, Callable[[pd.DataFrame, pd.Series], str]] = {"positive": positive, "region": region}
OURS = "ocbnn"
TRENDS = "trends"
BOOSTING = {
    "xgboost": ("xgboost", xgboost, "monotone_constraints"),
    "lightgbm": ("lightgbm", lightgbm, "monotone_constraints"),
    "histgb": ("sklearn.ensemble", histgb, "monotonic_cst"),
}
"""Gradient boosting: its library, how it is made, and its option for trends."""
PEERS = {
    "bde": Model("bde", bde),
    "gp": Model("sklearn.gaussian_process", gp),
    "ngboost": Model("ngboost", ngboost),
    **{name: Model(library, partial(point_model, build)) for name, (library, build, _) in BOOSTING.items()},
    "network": Model("sklearn.neural_network", partial(point_model, network)),
}
MODELS = {
    OURS: Model("ocbnn", ours),
    **{f"{OURS}+{rule}": Model("ocbnn", partial(ours, rule=rule)) for rule in (*RULES, TRENDS)},
    **PEERS,
    **{
        f"{name}+{TRENDS}": Model(library, partial(constrained, build, option))
        for name, (library, build, option) in BOOSTING.items()
    },
}
