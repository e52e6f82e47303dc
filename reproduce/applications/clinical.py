"""Table 1: whether to act on low blood pressure, under two physiological rules, on MIMIC-III or its demo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.model_selection import GroupKFold

from ocbnn import Constraint, OCBNNClassifier, Schema
from ocbnn.posterior import Posterior
from ocbnn.regions import sample
from reproduce.applications import common
from reproduce.applications.common import Fitted, Labels, Probabilities
from reproduce.data import mimic3
from reproduce.outcome import Outcome, expected
from reproduce.pictures import draw
from reproduce.plans import Plan, plan
from reproduce.runs import save_all

NAME = "clinical"
POINTS = 5000
FEATURES = list(mimic3.FEATURES)
Splits = list[tuple[np.ndarray, np.ndarray]]
"""Rows to learn from and rows to test on, fold by fold."""


class HeldOut(NamedTuple):
    """What a network says of patients that it has not seen, and of fresh points in the rules' regions."""

    chance: Probabilities
    predicted: Labels
    violating: dict[str, float | None]


def clinical(setting: str, seed: int, quick: bool, out: Path) -> Outcome:
    """Baseline and OC-BNN, each trained without the rows in the rules' regions, tested on other patients."""
    chosen = plan(NAME, setting, quick=quick)
    table = mimic3.table()
    if quick:
        table = table.iloc[:: max(1, len(table) // 800)].reset_index(drop=True)
    inside = in_regions(table)
    splits = patient_folds(table, seed, chosen.own["folds"])
    found: dict[str, HeldOut] = {}
    networks: dict[str, Fitted] = {}
    for name in ("bnn", "ocbnn"):
        fitted = [
            fit(setting, chosen, training_rows(table, inside, train), name == "ocbnn", seed)
            for train, _ in splits
        ]
        networks[name] = fitted[0]
        found[name] = held_out(table, inside, splits, fitted, seed)
    save_all(out / NAME, networks)
    tested = np.sort(np.concatenate([test for _, test in splits]))
    runs = {name: figures(table, inside, tested, each, seed) for name, each in found.items()}
    for figure in ("f1_outside", "auc_outside"):
        runs["ocbnn"][f"{figure}_lost"] = runs["bnn"][figure] - runs["ocbnn"][figure]
    rows = training_rows(table, inside, splits[0][0])[[*FEATURES, mimic3.TARGET]]
    details = {
        "cohort": cohort_figures(table, inside),
        "others": others(table, inside, tested, splits, seed),
        **common.save_table(out / NAME, NAME, rows, mimic3.TARGET, networks["ocbnn"]),
    }
    _draw(out, inside, found)
    return Outcome(runs, details)


def schema_of(rows: pd.DataFrame) -> Schema:
    """The features as they are declared."""
    return Schema.infer(rows[FEATURES], target=rows[mimic3.TARGET], columns=dict(mimic3.COLUMNS))


def training_rows(table: pd.DataFrame, inside: np.ndarray, train: np.ndarray) -> pd.DataFrame:
    """Rows to learn from, without those in the rules' regions."""
    return table.iloc[train[~inside[train]]]


def in_regions(table: pd.DataFrame) -> np.ndarray:
    """Which rows at least one rule speaks of."""
    schema = schema_of(table)
    coded = schema.encode(table[FEATURES])
    return np.any([rule.region.contains(coded, schema) for rule in common.read_rules(NAME, schema)], axis=0)


def patient_folds(table: pd.DataFrame, seed: int, folds: int) -> Splits:
    """No patient is on both sides of a fold; of five folds, as many as are asked for."""
    five = GroupKFold(5, shuffle=True, random_state=seed)
    return list(five.split(table, groups=table[mimic3.PATIENT]))[:folds]


def held_out(
    table: pd.DataFrame, inside: np.ndarray, splits: Splits, networks: Sequence[Fitted], seed: int
) -> HeldOut:
    """What the network of each fold says of the fold's other patients."""
    chance, predicted = np.full(len(table), np.nan), np.zeros(len(table), dtype=np.int64)
    violating = []
    for (train, test), fitted in zip(splits, networks, strict=True):
        features = table.iloc[test][FEATURES]
        chance[test] = common.probability(fitted, features)
        predicted[test] = chance[test] >= 0.5 if isinstance(fitted, Posterior) else fitted.predict(features)
        violating.append(points_violating(fitted, training_rows(table, inside, train), seed))
    return HeldOut(chance, predicted, over_folds(violating))


def over_folds(shares: Sequence[Mapping[str, float]]) -> dict[str, float | None]:
    """The mean of shares of points over folds, and its standard error: between folds, or of the points."""
    found: dict[str, float | None] = {}
    for name in shares[0]:
        values = np.array([each[name] for each in shares])
        mean = float(values.mean())
        within = np.sqrt(mean * (1.0 - mean) / POINTS)
        between = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
        found |= {name: mean, f"{name}_se": float(max(within, between))}
    return found


def fit(setting: str, chosen: Plan, rows: pd.DataFrame, ruled: bool, seed: int) -> Fitted:
    """One network."""
    frame = rows[[*FEATURES, mimic3.TARGET]]
    if setting == "ours":
        rules_file = common.rules_path(NAME) if ruled else None
        return common.fit_estimator(chosen, frame, mimic3.TARGET, rules_file, seed, mimic3.COLUMNS)
    schema = schema_of(rows)
    rules = [rule.text(schema) for rule in common.read_rules(NAME, schema)] if ruled else []
    return common.posterior_of(chosen, evenly_upsampled(frame, seed), mimic3.TARGET, rules, seed, schema)


def evenly_upsampled(rows: pd.DataFrame, seed: int) -> pd.DataFrame:
    """The rows with those of the rarer class drawn again until both are as many."""
    counts = rows[mimic3.TARGET].value_counts()
    rare = rows[rows[mimic3.TARGET] == counts.idxmin()]
    again = rare.sample(int(counts.max() - counts.min()), replace=True, random_state=seed)
    return pd.concat([rows, again], ignore_index=True)


def points_violating(fitted: Fitted, rows: pd.DataFrame, seed: int) -> dict[str, float]:
    """The share of fresh points in the regions at which the more probable class is no action: P < 0.5.

    Of 5,000 that look like patients in the columns no rule names (`rows`), and of 5,000 that need not. A rule
    speaks of the more probable class. What an estimator with balanced classes predicts is another matter: it
    acts from about the share of actions on, 0.26, as accuracy and F1 do; `…_predicted` counts that.
    """
    schema = fitted.schema if isinstance(fitted, Posterior) else fitted.schema_
    posterior = fitted if isinstance(fitted, Posterior) else fitted.posterior_
    coded = schema.encode(rows[FEATURES])
    rules = common.read_rules(NAME, schema)
    found = {}
    for sampler, key in (("rows", "points_violating"), ("uniform", "points_violating_uniform")):
        fresh = np.concatenate([points(rule, schema, coded, sampler, seed, len(rules)) for rule in rules])
        frame = schema.decode(fresh)
        found[key] = float(np.mean(common.probability(posterior, frame) < 0.5))
        if isinstance(fitted, OCBNNClassifier):
            found[f"{key}_predicted"] = float(np.mean(fitted.predict(frame) == 0))
    return found


def points(
    rule: Constraint, schema: Schema, coded: np.ndarray, sampler: str, seed: int, rules: int
) -> np.ndarray:
    """A rule's share of the fresh points; no point of a fit comes from this seed."""
    return sample((seed, 86), rule.region, schema, coded, POINTS // rules, sampler)


def figures(
    table: pd.DataFrame, inside: np.ndarray, tested: np.ndarray, found: HeldOut, seed: int
) -> dict[str, Any]:
    """Of all tested rows, and of those outside and inside the regions; standard errors are over patients."""
    labels = table[mimic3.TARGET].to_numpy()
    patients = table[mimic3.PATIENT].to_numpy()
    result: dict[str, Any] = dict(found.violating)
    for suffix, rows in (
        ("", tested),
        ("_outside", tested[~inside[tested]]),
        ("_inside", tested[inside[tested]]),
    ):
        statistics = {
            **common.scores(labels[rows], found.predicted[rows]),
            "auc": common.area(labels[rows], found.chance[rows]),
        }
        each = common.with_errors(
            {f"{name}{suffix}": s for name, s in statistics.items()}, patients[rows], seed
        )
        result.update(each)
    return result


def cohort_figures(table: pd.DataFrame, inside: np.ndarray) -> dict[str, Any]:
    """How many there are of what."""
    return {
        "rows": len(table),
        "stays": int(table["icustay_id"].nunique()),
        "patients": int(table[mimic3.PATIENT].nunique()),
        "action": float(table[mimic3.TARGET].mean()),
        "rows_inside": int(inside.sum()),
        "action_inside": float(table.loc[inside, mimic3.TARGET].mean()),
        "patients_inside": int(table.loc[inside, mimic3.PATIENT].nunique()),
    }


def others(
    table: pd.DataFrame, inside: np.ndarray, tested: np.ndarray, splits: Splits, seed: int
) -> dict[str, Any]:
    """Logistic regression and boosting on the same folds, classes balanced."""
    result = {}
    for name, model in (
        ("logistic_regression", common.logistic_regression(class_weight="balanced")),
        ("gradient_boosting", common.gradient_boosting(seed, class_weight="balanced")),
    ):
        chance = np.full(len(table), np.nan)
        for train, test in splits:
            rows = training_rows(table, inside, train)
            model.fit(rows[FEATURES], rows[mimic3.TARGET])
            chance[test] = model.predict_proba(table.iloc[test][FEATURES])[:, 1]
        found = HeldOut(chance, (chance >= 0.5).astype(np.int64), {})
        result[name] = figures(table, inside, tested, found, seed)
    return result


def _draw(out: Path, inside: np.ndarray, found: Mapping[str, HeldOut]) -> None:
    """What the rules changed: each held-out hour's probability without and with them, and the violations."""
    bnn, ocbnn = found["bnn"], found["ocbnn"]

    def changed(ax: Any) -> None:
        for rows, colour, size, text in (
            (~inside, "#999999", 2.0, "outside the rules' regions"),
            (inside, "#009e73", 6.0, "inside"),
        ):
            ax.scatter(
                bnn.chance[rows], ocbnn.chance[rows], s=size, color=colour, lw=0, alpha=0.5, label=text
            )
        ax.plot([0, 1], [0, 1], color="#555555", lw=0.8)
        ax.set(xlabel="P(action) without rules", ylabel="P(action) with rules", xlim=(0, 1), ylim=(0, 1))
        ax.legend(loc="lower right", markerscale=2)

    def violations(ax: Any) -> None:
        kinds = {"points_violating": "points like patients", "points_violating_uniform": "uniform points"}
        for shift, name, colour, text in (
            (-0.2, bnn, "#999999", "without rules"),
            (0.2, ocbnn, "#0072b2", "with rules"),
        ):
            shares = [name.violating[kind] for kind in kinds]
            bars = ax.bar(np.arange(len(kinds)) + shift, shares, 0.38, color=colour, label=text)
            ax.bar_label(bars, fmt="%.2f")
        published = expected()[NAME]["published"]["ocbnn"]["points_violating"]
        ax.axhline(published, color="#555555", lw=0.8, ls=":", label="the paper's OC-BNN")
        ax.set(
            xticks=np.arange(len(kinds)), xticklabels=list(kinds.values()), ylabel="violating", ylim=(0, 1)
        )
        ax.legend(loc="upper left")

    draw(out, NAME, [changed, violations], size=(4.2, 3.6))
