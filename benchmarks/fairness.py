"""Parity on COMPAS as a rule, beside fairlearn's reduction: how far groups are apart, and what it costs.

    python -m benchmarks.fairness --splits 30 --json FILE --picture FILE.png

The table is that of docs/applications/recidivism.md, race among its columns; each split holds out 30% of
rows. Asked for are gaps between the two groups of at most 0.02, 0.05 and 0.1: of the mean probability, and of
the share that is called high-risk (P > 0.5). Ours are rules of these words; without a rule; and with two
rules about single people; with the classifier's defaults (`ocbnn`), and with the network of that page, in a
fraction of the time (`bbb`). fairlearn's ExponentiatedGradient (over the boosting of that page) bounds the
share; it predicts by chance, so its share and accuracy are expected ones, and its mean probability is that of
its boosted models.

Gaps are of held-out rows: two samples of equal groups are apart by chance too. Ours are those of the mean of
all draws, with the 5% and 95% quantiles over draws beside them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from benchmarks.panel.scores import Difference
from ocbnn import OCBNNClassifier, OCBNNError
from ocbnn.posterior import function_draws
from reproduce.applications.common import fit_estimator, gradient_boosting
from reproduce.data import compas
from reproduce.plans import plan

ASKED = (0.02, 0.05, 0.1)
MEASURES = {"mean": "mean probability", "share": "share called high-risk"}
TEST_SHARE = 0.3
RULES = {
    "mean": "always mean P(high_risk = 1) is equal over race within {}",
    "share": "always share P(high_risk = 1) > 0.5 is equal over race within {}",
    "invariance": "always P(high_risk = 1) does not depend on race by more than {}",
    "trend": "always P(high_risk = 1) increases with priors_count",
}
BOOSTING, REDUCTION, OURS, QUICK = "boosting", "fairlearn", "ocbnn", "bbb"
EPS = 0.01


class Record(TypedDict):
    """One model on one split; gaps are African-American less others.

    `ends` are the 5% and 95% quantiles over draws of each gap; `violation` is the share of violating draws on
    the training rows. They, and the status of the run, are None for others.
    """

    split: int
    method: str
    rule: str
    asked: float | None
    accuracy: float
    called: float
    mean: float
    share: float
    ends: dict[str, list[float]] | None
    violation: float | None
    verdict: str | None
    status: str | None
    seconds: float


def gap(values: np.ndarray, race: np.ndarray) -> np.ndarray:
    """The mean over African-American rows less that over others, of the last axis."""
    return values[..., race == 1].mean(axis=-1) - values[..., race == 0].mean(axis=-1)


def scored(chance: np.ndarray, called: np.ndarray, test: pd.DataFrame) -> dict[str, float]:
    """Figures of held-out rows; `called` may be probabilities of calling."""
    race, label = test[compas.RACE].to_numpy(), test[compas.TARGET].to_numpy()
    return {
        "accuracy": float(np.mean(called * label + (1 - called) * (1 - label))),
        "called": float(called.mean()),
        "mean": float(gap(chance, race)),
        "share": float(gap(called, race)),
    }


def ours(method: str, train: pd.DataFrame, test: pd.DataFrame, rule: str | None, seed: int) -> dict[str, Any]:
    """A network of ours, with the rule."""
    rules = rule and [rule]
    X, race = test.drop(columns=compas.TARGET), test[compas.RACE].to_numpy()
    if method == OURS:
        model = OCBNNClassifier(rules, random_state=seed).fit(train[X.columns], train[compas.TARGET])
    else:
        model = fit_estimator(plan("recidivism", "ours"), train, compas.TARGET, rules, seed)
    chance = model.predict_proba(X)[:, 1]
    draws = function_draws(model.posterior_, X)[..., 1]
    gaps = {"mean": gap(draws, race), "share": gap((draws > 0.5).astype(float), race)}
    ends = {name: np.quantile(each, [0.05, 0.95]).tolist() for name, each in gaps.items()}
    found: dict[str, Any] = {**scored(chance, (chance > 0.5).astype(float), test), "ends": ends}
    found["status"] = model.posterior_.provenance["status"]
    if rule:
        check = model.check_rules()[0]
        found |= {"violation": check.violation.value, "verdict": check.verdict}
    return found


def reduction(train: pd.DataFrame, test: pd.DataFrame, asked: float, seed: int) -> dict[str, Any]:
    """fairlearn's, whose bound is on each group's distance from all rows: a part of the gap between two."""
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient

    share = train[compas.RACE].mean()
    parity = DemographicParity(difference_bound=asked * max(share, 1 - share))
    model = ExponentiatedGradient(gradient_boosting(seed), parity, eps=EPS)
    X, X_test = (rows.drop(columns=compas.TARGET) for rows in (train, test))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of pandas, about how fairlearn uses it
        model.fit(X, train[compas.TARGET], sensitive_features=train[compas.RACE])
    weights = [model.weights_[index] for index in model.predictors_.index]
    both = [(each.predict_proba(X_test)[:, 1], each.predict(X_test)) for each in model.predictors_]
    chance, called = (np.average([each[of] for each in both], axis=0, weights=weights) for of in (0, 1))
    return scored(chance, called, test)


def boosting(train: pd.DataFrame, test: pd.DataFrame, seed: int) -> dict[str, Any]:
    """The same boosting without a bound."""
    X, X_test = (rows.drop(columns=compas.TARGET) for rows in (train, test))
    chance = gradient_boosting(seed).fit(X, train[compas.TARGET]).predict_proba(X_test)[:, 1]
    return scored(chance, (chance > 0.5).astype(float), test)


def tasks(asked: Sequence[float]) -> Iterator[tuple[str, str, float | None]]:
    """Method, kind of rule and gap, of everything that is compared."""
    yield BOOSTING, "none", None
    yield from ((REDUCTION, "share", each) for each in asked)
    for method in (OURS, QUICK):
        yield method, "none", None
        yield from ((method, measure, each) for measure in MEASURES for each in asked)
        yield method, "invariance", 0.02
        yield method, "trend", None


def measure(table: pd.DataFrame, split: int, task: tuple[str, str, float | None]) -> Record:
    """One model on one split."""
    method, kind, asked = task
    strata = table[compas.RACE] * 2 + table[compas.TARGET]
    train, test = train_test_split(table, test_size=TEST_SHARE, random_state=split, stratify=strata)
    train, test = (rows.reset_index(drop=True) for rows in (train, test))
    began = time.perf_counter()
    if method in (OURS, QUICK):
        found = ours(method, train, test, RULES[kind].format(asked) if kind in RULES else None, split)
    else:
        # Dozens of small fits: their threads cost more than they save.
        with threadpool_limits(1):
            found = boosting(train, test, split) if asked is None else reduction(train, test, asked, split)
    seconds = round(time.perf_counter() - began, 1)
    blank: dict[str, Any] = dict.fromkeys(("ends", "violation", "verdict", "status"))
    return Record(split=split, method=method, rule=kind, asked=asked, seconds=seconds, **{**blank, **found})


def groups(records: Sequence[Record]) -> dict[tuple[str, str, float | None], list[Record]]:
    """The records of each task, in the order in which they were measured."""
    found: dict[tuple[str, str, float | None], list[Record]] = {}
    for each in records:
        found.setdefault((each["method"], each["rule"], each["asked"]), []).append(each)
    return found


def complete(records: Sequence[Record]) -> list[Record]:
    """The records of splits on which all was measured that was on any: means are of the same splits."""
    asked = {(each["method"], each["rule"], each["asked"]) for each in records}
    splits = [each["split"] for each in records]
    return [each for each in records if splits.count(each["split"]) == len(asked)]


def summary(records: Sequence[Record]) -> Iterator[str]:
    """Means over splits ± standard errors; the excess is of the absolute gap over the one asked for."""
    yield f"{'':28}{'splits':>7}{'accuracy':>16}{'called':>8}{'mean gap':>17}{'share gap':>17}{'excess':>17}"
    for (method, rule, asked), found in groups(records).items():
        name = f"{method} {'' if rule == 'none' else rule} {asked or ''}"
        accuracy = Difference.of([each["accuracy"] for each in found])
        called = np.mean([each["called"] for each in found])
        gaps = {key: Difference.of([abs(each[key]) for each in found]) for key in MEASURES}
        told = f"  {name:26}{len(found):7}{accuracy.mean:8.3f} ± {accuracy.error:.3f}{called:8.3f}"
        told += "".join(f"{each!s:>17}" for each in gaps.values())
        if rule in gaps:
            told += f"{Difference(gaps[rule].mean - asked, gaps[rule].error)!s:>17}"
        kept = [each["violation"] for each in found if each["violation"] is not None]
        yield f"{told}  violated by {np.mean(kept):.1%} of draws" if kept else told


def picture(records: Sequence[Record], file: Path) -> None:
    """Accuracy against the achieved gap, a panel for each measure; bars are standard errors over splits."""
    from matplotlib.figure import Figure

    from ocbnn.plots import style

    figure = Figure(figsize=(8.0, 3.6), layout="constrained")
    axes = [style.dressed(ax) for ax in figure.subplots(1, 2, sharey=True)]
    names = {
        (OURS, "mean"): "ocbnn, rule about the mean",
        (OURS, "share"): "ocbnn, rule about the share",
        (OURS, "none"): "ocbnn, no rule",
        (QUICK, "mean"): "ocbnn, bbb, mean",
        (QUICK, "share"): "ocbnn, bbb, share",
        (REDUCTION, "share"): "fairlearn, share",
        (BOOSTING, "none"): "boosting, no bound",
    }
    for ax, (measure, words) in zip(axes, MEASURES.items(), strict=True):
        for place, (key, label) in enumerate(names.items()):
            found = [each for task, each in groups(records).items() if task[:2] == key]
            if not found:
                continue
            gaps = [Difference.of([abs(each[measure]) for each in some]) for some in found]
            accuracies = [Difference.of([each["accuracy"] for each in some]) for some in found]
            colour, dashes, marker = style.class_look(place)
            ax.errorbar(
                [each.mean for each in gaps],
                [each.mean for each in accuracies],
                xerr=np.nan_to_num([each.error for each in gaps]),
                yerr=np.nan_to_num([each.error for each in accuracies]),
                **{"color": colour, "ls": dashes, "marker": marker, "ms": 5.0, "lw": 1.0, "elinewidth": 0.8},
                label=label,
            )
        for each in ASKED:
            ax.axvline(each, color=style.MUTED, lw=0.8, ls=":")
        ax.set_xlim(left=0.0)
        style.label(ax, f"gap between the groups: {words}", "accuracy, held-out rows")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=3, frameon=False, prop={"size": 8.0})
    figure.savefig(file, dpi=150)


def main() -> int:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument(
        "--methods", default=f"{BOOSTING},{REDUCTION},{OURS},{QUICK}", help="some, with commas"
    )
    parser.add_argument("--rules", default=f"none,{','.join(RULES)}", help="some kinds, with commas")
    parser.add_argument("--asked", default=",".join(map(str, ASKED)), help="gaps, with commas")
    parser.add_argument("--json", type=Path, help="a file for the records; those in it are kept")
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args()
    try:
        table = compas.table()
    except OCBNNError as error:
        print(f"The COMPAS table is not there: {error}")
        return 0
    table = table[[*compas.FEATURES, compas.TARGET]]
    records = json.loads(given.json.read_text("utf-8")) if given.json and given.json.exists() else []
    done = {(each["split"], each["method"], each["rule"], each["asked"]) for each in records}
    for split in range(given.splits):
        for task in tasks([float(each) for each in given.asked.split(",")]):
            wanted = task[0] in given.methods.split(",") and task[1] in given.rules.split(",")
            if not wanted or (split, *task) in done:
                continue
            records.append(measure(table, split, task))
            print(records[-1], file=sys.stderr, flush=True)
            if given.json:
                given.json.write_text(json.dumps(records, indent=1) + "\n", "utf-8")
    whole = complete(records)
    print("\n".join(summary(whole)))
    if len(whole) < len(records):
        print(f"{len(records) - len(whole)} records of incomplete splits are left out")
    if given.picture:
        picture(whole, given.picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
