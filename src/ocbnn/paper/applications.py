"""What the three applications share: fits by a setting, figures of predictions with their standard errors."""

from __future__ import annotations

import shlex
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from jaxtyping import Float, Int
from sklearn.metrics import roc_auc_score

from ocbnn.estimators import OCBNNClassifier
from ocbnn.estimators.folder import save as save_estimator
from ocbnn.estimators.folder import save_posterior
from ocbnn.estimators.settings_files import written_settings
from ocbnn.paper.plans import Plan
from ocbnn.paper.runs import run
from ocbnn.paper.watching import one_fit
from ocbnn.posterior.draws import Posterior
from ocbnn.posterior.predict import predict
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.files import load_rules
from ocbnn.schema import Schema
from ocbnn.storage.files import write_text, write_whole

RESAMPLES = 200

Labels = Int[np.ndarray, " n"]
Probabilities = Float[np.ndarray, " n"]
Statistic = Callable[[np.ndarray], float]
"""A figure of some rows, given by their places."""


def rules_path(application: str) -> AbstractContextManager[Path]:
    """The rules of an application: the YAML file shipped with the package, while the context is open."""
    return as_file(files("ocbnn.paper") / "rules" / f"{application}.yaml")


def read_rules(application: str, schema: Schema) -> tuple[Constraint, ...]:
    """The rules of an application for a table."""
    with rules_path(application) as path:
        return load_rules(path, schema)


def estimator(plan: Plan, rules: Any, seed: int, columns: Mapping[str, Mapping[str, Any]]) -> OCBNNClassifier:
    """The classifier of a plan of the setting `ours`: what `ocbnn fit` makes of the same options."""
    return OCBNNClassifier(
        rules=rules,
        engine=plan.engine,
        hidden=tuple(plan.own["hidden"]),
        prior=plan.own.get("prior"),
        class_weight=plan.own.get("class_weight"),
        columns=dict(columns),
        draws=plan.run["draws"],
        preparation=plan.preparation,
        random_state=seed,
    )


def fit_estimator(
    plan: Plan,
    rules: Any,
    frame: pd.DataFrame,
    target: pd.Series,
    seed: int,
    columns: Mapping[str, Mapping[str, Any]],
) -> OCBNNClassifier:
    """The same after a fit, which is one of those that are counted.

    Raises:
        KeyboardInterrupt: Ctrl-C, also where some draws were there: figures are of whole runs.
    """
    with one_fit() as progress:
        found = estimator(plan, rules, seed, columns).fit(frame, target, progress=progress)
    if not found.posterior_.provenance.get("complete", True):
        raise KeyboardInterrupt
    return found


def posterior_of(
    plan: Plan,
    frame: pd.DataFrame,
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
        return run(plan, frame, rules, seed=seed, target=frame[target], schema=schema, **changes)


def positive_probability(posterior: Posterior, frame: pd.DataFrame) -> Probabilities:
    """P(class 1) of every row, the mean over draws."""
    probabilities = predict(posterior, posterior.schema.encode(frame), levels=(), coverage=None).probabilities
    assert probabilities is not None
    return probabilities[:, 1]


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


def mean_of(values: np.ndarray, among: np.ndarray) -> Statistic:
    """The mean over those rows that are among some; NaN where none is."""

    def statistic(rows: np.ndarray) -> float:
        chosen = rows[among[rows]]
        return float(values[chosen].mean()) if len(chosen) else float("nan")

    return statistic


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


def save(out: Path, application: str, name: str, fitted: OCBNNClassifier | Posterior) -> None:
    """A run as a saved model, `out/<application>/<name>/`."""
    folder = out / application / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(fitted, Posterior):
        save_posterior(folder, fitted)
    else:
        save_estimator(folder, fitted)


def save_table(
    out: Path,
    application: str,
    frame: pd.DataFrame,
    target: str,
    fitted: OCBNNClassifier | Posterior,
) -> dict[str, str]:
    """What `ocbnn fit` needs to do the same, and the command that does it, for the outcome's details.

    table.csv, rules.yaml, columns.yaml if any are declared, and fit.toml with the options of the estimator.
    The networks of `paper` and `reference` are none that `ocbnn fit` makes: for them there is no command.
    """
    folder = out / application
    write_whole(folder / "table.csv", lambda part: frame.to_csv(part, index=False))
    with rules_path(application) as path:
        write_whole(folder / "rules.yaml", lambda part: shutil.copyfile(path, part))
    if isinstance(fitted, Posterior):
        return {}
    declared = {name: {k: _listed(v) for k, v in each.items()} for name, each in fitted.columns.items()}
    files = {"--rules": "rules.yaml", "--settings": "fit.toml"}
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


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
