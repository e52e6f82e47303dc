"""Table 3: credit scores that leave young borrowers a way out, under a rule about their utilisation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.metrics import f1_score

from ocbnn import Schema
from reproduce.applications import common
from reproduce.applications.common import Fitted, Probabilities, Statistic
from reproduce.data import credit as data
from reproduce.outcome import Outcome, expected
from reproduce.pictures import draw
from reproduce.plans import Plan, plan
from reproduce.runs import save_all

NAME = "credit"
STANDARDISED = ("age", "MonthlyIncome", "NumberOfOpenCreditLinesAndLoans")
PAPERS_POSITIVES = 0.5
"""As many positives as negatives times this, after repeating: 1:2 in the authors' code (errata E3)."""
THRESHOLDS = np.linspace(0.01, 0.99, 197)
LEAST_ACCURACY = 0.91
"""On training rows: F1 hardly changes over a wide range of thresholds there, and accuracy and effort do."""
BINS = 10


class Tables(NamedTuple):
    """The paper's split, prepared: training rows as they are, and with positives repeated."""

    train: pd.DataFrame
    prepared: pd.DataFrame
    test: pd.DataFrame


def credit(setting: str, seed: int, quick: bool, out: Path) -> Outcome:
    """A network on all rows, one that has seen nobody below 35, and one under the rule."""
    chosen = plan(NAME, setting, quick=quick)
    tables = prepared(quick, float(chosen.own.get("positives", PAPERS_POSITIVES)))
    blind = without_young(tables)
    ruled_on = {"all": tables, "blind": blind}[chosen.own["ocbnn_rows"]]
    chances: dict[str, Probabilities] = {}
    runs: dict[str, dict[str, Any]] = {"truth": truth(tables.test)}
    networks: dict[str, Fitted] = {}
    for name, rows, young in (
        ("bnn_full", tables, None),
        ("bnn_blind", blind, None),
        ("ocbnn", ruled_on, whom_it_is_about(chosen, tables)),
    ):
        fitted = networks[name] = fit(setting, chosen, rows.prepared, young, seed)
        learnt = common.probability(fitted, _features(rows.train))
        threshold = best_threshold(rows.train, learnt, chosen.own["threshold"])
        chances[name] = common.probability(fitted, _features(tables.test))
        runs[name] = figures(tables.test, chances[name], threshold, _repeated(rows), seed)
    save_all(out / NAME, networks)
    ocbnn = runs["ocbnn"]
    ocbnn["recourse_from_truth"] = abs(ocbnn["recourse"] - runs["truth"]["recourse"])
    ocbnn["auc_young_lost"] = runs["bnn_blind"]["auc_young"] - ocbnn["auc_young"]
    ocbnn["ruled_probability_above_full"] = ocbnn["ruled_probability"] - runs["bnn_full"]["ruled_probability"]
    details = {
        "others": others(tables, blind, seed),
        **common.save_table(out / NAME, NAME, ruled_on.prepared, data.TARGET, networks["ocbnn"]),
    }
    _draw(out, tables.test, chances, runs)
    return Outcome(runs, details)


def prepared(quick: bool = False, positives: float = PAPERS_POSITIVES) -> Tables:
    """The rows of the paper's split, with positives repeated to so many times the negatives."""
    table = data.table()
    if quick:
        table = table.sample(3000, random_state=0).reset_index(drop=True)
    train, test = data.split(table)
    return Tables(train, data.upsampled(train, ratio=positives), test)


def without_young(tables: Tables) -> Tables:
    """The same without anybody below 35 in the training rows."""
    return tables._replace(
        train=tables.train[~data.young(tables.train)].reset_index(drop=True),
        prepared=tables.prepared[~data.young(tables.prepared)].reset_index(drop=True),
    )


def fit(setting: str, chosen: Plan, rows: pd.DataFrame, young: pd.DataFrame | None, seed: int) -> Fitted:
    """One network: under the rule where `young` says whom it is about."""
    if setting == "ours":
        return common.fit_estimator(
            chosen, rows, data.TARGET, None if young is None else common.rules_path(NAME), seed
        )
    schema = common.papers_schema(chosen, rows, data.TARGET, STANDARDISED)
    rules = () if young is None else papers_rules(chosen, young)
    return common.posterior_of(chosen, rows, data.TARGET, rules, seed, schema)


def whom_it_is_about(chosen: Plan, tables: Tables) -> pd.DataFrame:
    """The training rows below 35; in the reference setting with positives repeated, as in its code."""
    rows = tables.prepared if chosen.own.get("region") == "box" else tables.train
    return rows[data.young(rows)]


def papers_rules(chosen: Plan, young: pd.DataFrame) -> tuple[str, ...]:
    """The rule, in the reference setting within a box around the mean of the young in all other columns."""
    conditions = [f"age < {data.YOUNG}", f"{data.UTILISATION} > {data.utilisation_threshold(young)}"]
    conditions += common.box_conditions(chosen, young, but=("age", data.UTILISATION, data.TARGET))
    return (f"if {' and '.join(conditions)} then {data.TARGET} = 0",)


def best_threshold(train: pd.DataFrame, chance: Probabilities, rule: str | float) -> float:
    """The decision threshold: a number, or "f1", the one with the best F1 on the training rows.

    Of those with an accuracy of `LEAST_ACCURACY` there, that is: F1 alone would call more rows positive.
    """
    if not isinstance(rule, str):
        return float(rule)
    labels = train[data.TARGET].to_numpy()

    def worth(threshold: float) -> tuple[bool, float]:
        called = chance >= threshold
        return bool(np.mean(called == labels) >= LEAST_ACCURACY), float(f1_score(labels, called))

    return float(max(THRESHOLDS, key=worth))


def truth(test: pd.DataFrame) -> dict[str, Any]:
    """The effort of recourse of what happened, and how often it did in the ruled region.

    The other figures are those of who knows what happened.
    """
    labels = test[data.TARGET].to_numpy()
    observed = {
        "recourse": recourse(test, labels),
        "ruled_probability": common.mean_of(labels, in_region(test)),
    }
    perfect = dict.fromkeys(("accuracy", "f1", "auc", "auc_young"), 1.0)
    return {
        **common.with_errors(observed, np.arange(len(test))),
        **perfect,
        **{f"{name}_se": 0.0 for name in perfect},
    }


def figures(
    test: pd.DataFrame, chance: Probabilities, threshold: float, repeated: float, seed: int
) -> dict[str, Any]:
    """What the paper reports, the ranking among the young, and calibration; inside the region and outside.

    Args:
        test: rows to judge by.
        chance: P(distress) of each, in the world of the rows that were learnt from.
        threshold: from which a row is called positive, in that world.
        repeated: how often positives were repeated there; probabilities are corrected for it.
        seed: of the bootstrap.
    """
    labels, young = test[data.TARGET].to_numpy(), data.young(test).to_numpy()
    predicted = (chance >= threshold).astype(np.int64)
    ruled = in_region(test)
    corrected = chance / (chance + repeated * (1.0 - chance))
    of_all: dict[str, Statistic] = {
        **common.scores(labels, predicted),
        "called_positive": lambda rows: float(predicted[rows].mean()),
        "calibration_error": lambda rows: calibration_error(labels[rows], corrected[rows]),
    }
    statistics: dict[str, Statistic] = {
        **of_all,
        "auc": common.area(labels, chance),
        "auc_young": common.among(common.area(labels, chance), young),
        "recourse": recourse(test, predicted),
        "ruled_probability": common.mean_of(corrected, ruled),
        "brier": lambda rows: float(np.mean((labels[rows] - corrected[rows]) ** 2)),
        **{f"{name}_ruled": common.among(statistic, ruled) for name, statistic in of_all.items()},
        **{f"{name}_outside": common.among(statistic, ~ruled) for name, statistic in of_all.items()},
    }
    return {**common.with_errors(statistics, np.arange(len(test)), seed), "threshold": threshold}


def recourse(test: pd.DataFrame, predicted: np.ndarray) -> Statistic:
    """The paper's effort of recourse: how much more of their credit the young who are called positive use."""
    used, young = test[data.UTILISATION].to_numpy(), data.young(test).to_numpy()

    def statistic(rows: np.ndarray) -> float:
        rows = rows[young[rows]]
        positive = predicted[rows] == 1
        if not positive.any() or positive.all():
            return float("nan")
        return float(used[rows[positive]].mean() - used[rows[~positive]].mean())

    return statistic


def in_region(rows: pd.DataFrame) -> np.ndarray:
    """Which rows the rule speaks of."""
    schema = Schema.infer(_features(rows), target=rows[data.TARGET], task="classification")
    (rule,) = common.read_rules(NAME, schema)
    return rule.region.contains(schema.encode(_features(rows)), schema)


def calibration_error(labels: np.ndarray, chance: Probabilities) -> float:
    """The mean distance between predicted and observed rates in ten bins of equally many rows."""
    order = np.array_split(np.argsort(chance), min(BINS, len(chance)))
    return float(np.mean([abs(chance[rows].mean() - labels[rows].mean()) for rows in order]))


def others(tables: Tables, blind: Tables, seed: int) -> dict[str, dict[str, Any]]:
    """Boosting with risk monotone in utilisation, and logistic regression, on the same splits."""
    monotone = {data.UTILISATION: 1}
    found: dict[str, dict[str, Any]] = {}
    for name, rows, model in (
        ("gradient_boosting_full", tables, common.gradient_boosting(seed, monotonic_cst=monotone)),
        ("gradient_boosting_blind", blind, common.gradient_boosting(seed, monotonic_cst=monotone)),
        ("logistic_regression_full", tables, common.logistic_regression()),
    ):
        model.fit(_features(rows.train), rows.train[data.TARGET])
        learnt = model.predict_proba(_features(rows.train))[:, 1]
        threshold = best_threshold(rows.train, learnt, "f1")
        chance = model.predict_proba(_features(tables.test))[:, 1]
        found[name] = figures(tables.test, chance, threshold, 1.0, seed)
    return found


def _features(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.drop(columns=data.TARGET)


def _repeated(tables: Tables) -> float:
    """How often each positive of the training rows is in the prepared ones, on average."""
    return float(tables.prepared[data.TARGET].sum() / tables.train[data.TARGET].sum())


def _draw(
    out: Path, test: pd.DataFrame, chances: Mapping[str, Probabilities], runs: Mapping[str, Mapping[str, Any]]
) -> None:
    """Distress called by utilisation among the young, and the effort of recourse beside the truth."""
    young = data.young(test).to_numpy()
    used = test.loc[young, data.UTILISATION].to_numpy()
    edges = np.quantile(used, np.linspace(0, 1, 9))
    place = np.clip(np.searchsorted(edges, used, side="right") - 1, 0, 7)
    shown = {
        "bnn_full": ("all rows", "#555555"),
        "bnn_blind": ("nobody below 35", "#e69f00"),
        "ocbnn": ("with the rule", "#0072b2"),
    }

    def called(ax: Any) -> None:
        middle = [used[place == k].mean() for k in range(8)]
        observed = test.loc[young, data.TARGET].to_numpy()
        ax.plot(middle, [observed[place == k].mean() for k in range(8)], "k:", label="in distress, observed")
        for name, (text, colour) in shown.items():
            positive = chances[name][young] >= runs[name]["threshold"]
            ax.plot(middle, [positive[place == k].mean() for k in range(8)], "o-", color=colour, label=text)
        ax.axvline(used[in_region(test)[young]].min(), color="#999999", lw=0.8, ls="--")
        ax.set(xlabel="utilisation of credit lines, below 35", ylabel="share called positive")
        ax.legend(loc="upper left")

    def effort(ax: Any) -> None:
        names = [*shown]
        values = [runs[name]["recourse"] for name in names]
        errors = [runs[name]["recourse_se"] or 0.0 for name in names]  # none where nobody is called positive
        ax.bar(
            range(len(names)), values, yerr=errors, color=[shown[name][1] for name in names], ecolor="#333333"
        )
        ax.axhline(runs["truth"]["recourse"], color="#333333", ls=":", label="truth")
        published = expected()[NAME]["published"]["ocbnn"]["recourse"]
        ax.axhline(published, color="#d55e00", ls="--", lw=0.9, label="the paper's OC-BNN")
        ax.set(
            xticks=range(len(names)),
            xticklabels=[shown[name][0] for name in names],
            ylabel="effort of recourse",
        )
        ax.legend(loc="upper right")

    draw(out, NAME, [called, effort], size=(4.6, 3.6))
