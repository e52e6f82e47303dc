"""What the applications share: fits by a setting, figures of rows with standard errors, other methods."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from jaxtyping import Float, Int
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ocbnn import Constraint, OCBNNClassifier, Schema, load_rules
from ocbnn.estimators import written_settings
from ocbnn.posterior import Posterior
from reproduce.outcome import write_text
from reproduce.plans import Plan
from reproduce.progress import one_fit
from reproduce.runs import class_probabilities, run

RESAMPLES = 200

Fitted = OCBNNClassifier | Posterior
"""What the setting `ours` gives, and what the others do."""
Labels = Int[np.ndarray, " n"]
Probabilities = Float[np.ndarray, " n"]
Statistic = Callable[[np.ndarray], float]
"""A figure of some rows, given by their places."""


def rules_path(application: str) -> Path:
    """The rules of an application, as YAML."""
    return Path(__file__).parent / "rules" / f"{application}.yaml"


def read_rules(application: str, schema: Schema) -> tuple[Constraint, ...]:
    """The rules of an application for a table."""
    return load_rules(rules_path(application), schema)


def fit_estimator(
    plan: Plan,
    rows: pd.DataFrame,
    target: str,
    rules: Path | Sequence[str] | None,
    seed: int,
    columns: Mapping[str, Mapping[str, Any]] | None = None,
) -> OCBNNClassifier:
    """The classifier of a plan of the setting `ours`, fitted: what `ocbnn fit` makes of the same options.

    Args:
        plan: options of model and run.
        rows: features and target.
        target: the target's column.
        rules: a file of rules, or their words; None for the baseline.
        seed: of everything.
        columns: what is declared about columns.

    Raises:
        KeyboardInterrupt: Ctrl-C, also where some draws were there: figures are of whole runs.
    """
    estimator = OCBNNClassifier(
        rules=rules,
        engine=plan.engine,
        hidden=tuple(plan.own["hidden"]),
        prior=plan.own.get("prior"),
        class_weight=plan.own.get("class_weight"),
        columns=dict(columns or {}),
        draws=plan.run["draws"],
        preparation=plan.preparation,
        random_state=seed,
    )
    with one_fit() as progress:
        estimator.fit(rows.drop(columns=target), rows[target], progress=progress)
    if not estimator.posterior_.provenance.get("complete", True):
        raise KeyboardInterrupt
    return estimator


def papers_schema(
    plan: Plan, rows: pd.DataFrame, target: str, standardised: Sequence[str], **others: Any
) -> Schema:
    """Only some columns are standardised, `others` is declared of all others; the reference's box is real."""
    features = rows.drop(columns=target)
    columns: dict[str, dict[str, Any]] = {str(name): {} for name in features}
    for name, declared in columns.items():
        if name not in standardised:
            declared |= {"transform": "none", **others}
        if plan.own["region"] == "box":  # 0.2 standard deviations may hold no whole number
            declared["kind"] = "continuous"
    return Schema.infer(features, target=rows[target], task="classification", columns=columns)


def box_conditions(plan: Plan, rows: pd.DataFrame, but: Sequence[str]) -> list[str]:
    """The reference's box: some standard deviations around the mean of each column but some (errata D5)."""
    if plan.own["region"] != "box":
        return []
    reaches = {name: plan.own["box"] * rows[name].std() for name in rows if name not in but}
    return [
        f"{rows[name].mean() - reach} <= `{name}` <= {rows[name].mean() + reach}"
        for name, reach in reaches.items()
    ]


def posterior_of(
    plan: Plan,
    rows: pd.DataFrame,
    target: str,
    rules: Sequence[str],
    seed: int,
    schema: Schema,
    **changes: Any,
) -> Posterior:
    """Draws of a plan of the settings `paper` and `reference`: the network and the prior they name."""
    with warnings.catch_warnings():
        # The credit setting's α below 1 is the paper's own; docs/terms.md says what is wrong with it.
        warnings.filterwarnings("ignore", message="A Dirichlet with α")
        return run(plan, rows, rules, seed=seed, target=rows[target], schema=schema, **changes)


def probability(fitted: Fitted, features: pd.DataFrame) -> Probabilities:
    """P(class 1) of every row, the mean over draws."""
    if isinstance(fitted, Posterior):
        return class_probabilities(fitted, features)[:, 1]
    return np.asarray(fitted.predict_proba(features)[:, 1])


def scores(labels: Labels, predicted: Labels) -> dict[str, Statistic]:
    """Accuracy and F1 of classes 0 and 1 as figures of rows; F1 is 0 where nobody is or is called positive.

    By hand: scikit-learn's take milliseconds each for checks, and a bootstrap asks for thousands.
    """
    right, both = labels == predicted, (labels == 1) & (predicted == 1)
    either = (labels == 1).astype(np.int64) + (predicted == 1)

    def f1(rows: np.ndarray) -> float:
        called_or_are = int(either[rows].sum())
        return 2.0 * int(both[rows].sum()) / called_or_are if called_or_are else 0.0

    return {"accuracy": lambda rows: float(right[rows].mean()), "f1": f1}


def among(statistic: Statistic, chosen: np.ndarray) -> Statistic:
    """The figure of those rows that are among some; NaN where none is."""

    def of_chosen(rows: np.ndarray) -> float:
        rows = rows[chosen[rows]]
        return statistic(rows) if len(rows) else float("nan")

    return of_chosen


def mean_of(values: np.ndarray, chosen: np.ndarray) -> Statistic:
    """The mean over those rows that are among some; NaN where none is."""
    return among(lambda rows: float(values[rows].mean()), chosen)


def area(labels: Labels, probability: Probabilities) -> Statistic:
    """Area under the ROC curve as a figure of rows; NaN where they are of one class."""

    def statistic(rows: np.ndarray) -> float:
        if len(np.unique(labels[rows])) < 2:
            return float("nan")
        return float(roc_auc_score(labels[rows], probability[rows]))

    return statistic


def with_errors(
    statistics: Mapping[str, Statistic], clusters: np.ndarray, seed: int = 0
) -> dict[str, float | None]:
    """Each figure of all rows, and its standard error `…_se`: a bootstrap over clusters, patients or rows."""
    generator = np.random.default_rng(seed)
    _, codes = np.unique(clusters, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    members = np.split(order, np.cumsum(np.bincount(codes))[:-1])
    samples = [
        np.concatenate([members[cluster] for cluster in generator.integers(len(members), size=len(members))])
        for _ in range(RESAMPLES)
    ]
    everything = np.arange(len(clusters))
    figures: dict[str, float | None] = {}
    for name, statistic in statistics.items():
        figures[name] = statistic(everything)
        resampled = np.array([statistic(sample) for sample in samples])
        known = resampled[np.isfinite(resampled)]
        figures[f"{name}_se"] = float(known.std(ddof=1)) if len(known) > 1 else None
    return figures


def logistic_regression(**options: Any) -> Any:
    """On standardised columns; a method that people would use instead."""
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000, **options))


def gradient_boosting(seed: int, **options: Any) -> HistGradientBoostingClassifier:
    """scikit-learn's histogram boosting, shallow and slow enough not to overfit tables of this size."""
    settings = {"max_depth": 4, "learning_rate": 0.05, "max_iter": 150, "random_state": seed}
    return HistGradientBoostingClassifier(**{**settings, **options})


def save_table(
    folder: Path, application: str, frame: pd.DataFrame, target: str, fitted: Fitted
) -> dict[str, str]:
    """What `ocbnn fit` needs to do the same, and the command that does it, for the outcome's details.

    table.csv, rules.yaml, columns.yaml if any are declared, and fit.toml with the options of the estimator.
    `ocbnn fit` does not make the networks of `paper` and `reference`: for them there is no command.
    """
    write_text(folder / "table.csv", frame.to_csv(index=False))
    write_text(folder / "rules.yaml", rules_path(application).read_text(encoding="utf-8"))
    if isinstance(fitted, Posterior):
        return {}
    files = {"--rules": "rules.yaml", "--settings": "fit.toml"}
    declared = {
        name: {key: list(value) if isinstance(value, tuple) else value for key, value in each.items()}
        for name, each in fitted.columns.items()
    }
    if declared:
        write_text(folder / "columns.yaml", yaml.safe_dump(declared, sort_keys=False, allow_unicode=True))
        files["--columns"] = "columns.yaml"
    command = shlex.join(
        [
            *("ocbnn", "fit", str(folder / "table.csv"), "--target", target),
            *(word for option, name in files.items() for word in (option, str(folder / name))),
            *("--hold-out", "0", "--no-compare", "--seed", str(fitted.random_state)),
            *("--out", str(folder / "again")),
        ]
    )
    write_text(folder / "fit.toml", f"# {command}\n\n{written_settings(fitted)}")
    return {"fit_command": command}
