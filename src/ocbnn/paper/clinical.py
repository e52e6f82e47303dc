"""Table 1: whether to act on low blood pressure, under two physiological rules, on MIMIC-III or its demo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.model_selection import GroupKFold

from ocbnn import regions
from ocbnn.datasets import mimic3
from ocbnn.estimators import OCBNNClassifier
from ocbnn.paper import peers
from ocbnn.paper.applications import (
    Labels,
    Probabilities,
    Statistic,
    area,
    fit_estimator,
    positive_probability,
    posterior_of,
    read_rules,
    rules_path,
    save,
    save_table,
    scores,
    with_errors,
)
from ocbnn.paper.outcome import Bound, Outcome
from ocbnn.paper.plans import Plan, plan
from ocbnn.posterior.draws import Posterior
from ocbnn.rules.constraint import Constraint
from ocbnn.schema import Schema

NAME = "clinical"
POINTS = 5000
CLOSE = 0.02
BOUNDS = (
    Bound("ocbnn", "points_violating", "<=", 0.05),
    Bound("ocbnn", "f1_outside_lost", "<=", CLOSE),
    Bound("ocbnn", "auc_outside_lost", "<=", CLOSE),
)
Fitted = OCBNNClassifier | Posterior


class HeldOut(NamedTuple):
    """What a network says of patients that it has not seen, and of fresh points in the rules' regions."""

    chance: Probabilities
    predicted: Labels
    violating: dict[str, float | None]
    first: Fitted | None = None


def clinical(setting: str, seed: int, quick: bool, out: Path) -> Outcome:
    """Baseline and OC-BNN, each trained without the rows in the rules' regions, tested on other patients."""
    chosen = plan(NAME, setting, quick=quick)
    table = mimic3.table()
    if quick:
        table = table.iloc[:: max(1, len(table) // 800)].reset_index(drop=True)
    inside = in_regions(table)
    splits = patient_folds(table, seed, chosen.own["folds"])
    found = {
        name: held_out(setting, chosen, table, inside, splits, ruled, seed, out, name)
        for name, ruled in (("bnn", False), ("ocbnn", True))
    }
    tested = np.sort(np.concatenate([test for _, test in splits]))
    runs = {name: figures(table, inside, tested, each, seed) for name, each in found.items()}
    for figure in ("f1_outside", "auc_outside"):
        runs["ocbnn"][f"{figure}_lost"] = runs["bnn"][figure] - runs["ocbnn"][figure]
    first = splits[0][0][~inside[splits[0][0]]]
    rows, model = table.iloc[first][[*mimic3.FEATURES, mimic3.TARGET]], found["ocbnn"].first
    assert model is not None
    details = {
        "cohort": cohort_figures(table, inside),
        "others": others(table, inside, tested, splits, seed),
        **save_table(out, NAME, rows, mimic3.TARGET, model),
    }
    _draw(out, table, inside, found)
    return Outcome(runs, BOUNDS, details=details)


def fits(setting: str, quick: bool) -> int:
    """How many fits there are: two in each fold."""
    return 2 * int(plan(NAME, setting, quick=quick).own["folds"])


def in_regions(table: pd.DataFrame) -> np.ndarray:
    """Which rows at least one rule speaks of."""
    schema = Schema.infer(
        table[list(mimic3.FEATURES)], target=table[mimic3.TARGET], columns=dict(mimic3.COLUMNS)
    )
    coded = schema.encode(table[list(mimic3.FEATURES)])
    return np.any([rule.region.contains(coded, schema) for rule in read_rules(NAME, schema)], axis=0)


def patient_folds(table: pd.DataFrame, seed: int, folds: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows to learn from and rows to test on, no patient in both; of five folds, as many as are asked for."""
    splits = GroupKFold(5, shuffle=True, random_state=seed)
    return list(splits.split(table, groups=table[mimic3.PATIENT]))[:folds]


def held_out(
    setting: str,
    chosen: Plan,
    table: pd.DataFrame,
    inside: np.ndarray,
    splits: list[tuple[np.ndarray, np.ndarray]],
    ruled: bool,
    seed: int,
    out: Path,
    name: str,
) -> HeldOut:
    """Fit on each fold's training patients, without their rows in the regions, and predict the others."""
    chance, predicted = np.full(len(table), np.nan), np.zeros(len(table), dtype=np.int64)
    violating: list[dict[str, float]] = []
    first = None
    for train, test in splits:
        rows = table.iloc[train[~inside[train]]]
        fitted = fit(setting, chosen, rows, ruled, seed)
        if first is None:
            first = fitted
            save(out, NAME, name, fitted)
        chance[test], predicted[test] = predictions(fitted, table.iloc[test])
        violating.append(points_violating(fitted, rows, seed))
    return HeldOut(chance, predicted, over_folds(violating), first)


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
    features = list(mimic3.FEATURES)
    if setting == "ours":
        with rules_path(NAME) as path:
            rules_file = path if ruled else None
            target = rows[mimic3.TARGET]
            return fit_estimator(chosen, rules_file, rows[features], target, seed, mimic3.COLUMNS)
    schema = Schema.infer(rows[features], target=rows[mimic3.TARGET], columns=dict(mimic3.COLUMNS))
    rules = [rule.text(schema) for rule in read_rules(NAME, schema)] if ruled else []
    frame = evenly_upsampled(rows[[*features, mimic3.TARGET]], seed)
    return posterior_of(chosen, frame, mimic3.TARGET, rules, seed, schema)


def evenly_upsampled(rows: pd.DataFrame, seed: int) -> pd.DataFrame:
    """The rows with those of the rarer class drawn again until both are as many."""
    counts = rows[mimic3.TARGET].value_counts()
    rare = rows[rows[mimic3.TARGET] == counts.idxmin()]
    again = rare.sample(int(counts.max() - counts.min()), replace=True, random_state=seed)
    return pd.concat([rows, again], ignore_index=True)


def predictions(fitted: Fitted, rows: pd.DataFrame) -> tuple[Probabilities, Labels]:
    """P(action = 1), and the action predicted."""
    features = rows[list(mimic3.FEATURES)]
    if isinstance(fitted, Posterior):
        chance = positive_probability(fitted, features)
        return chance, (chance >= 0.5).astype(np.int64)
    return np.asarray(fitted.predict_proba(features)[:, 1]), np.asarray(fitted.predict(features))


def points_violating(fitted: Fitted, rows: pd.DataFrame, seed: int) -> dict[str, float]:
    """The share of fresh points in the regions at which the more probable class is no action: P < 0.5.

    Of 5,000 that look like patients in the columns no rule names (`rows`), and of 5,000 that need not. A rule
    speaks of the more probable class. What an estimator with balanced classes predicts is another matter: it
    acts from about the share of actions on, 0.26, as accuracy and F1 do; `…_predicted` counts that.
    """
    schema = fitted.schema if isinstance(fitted, Posterior) else fitted.schema_
    posterior = fitted if isinstance(fitted, Posterior) else fitted.posterior_
    coded = schema.encode(rows[list(mimic3.FEATURES)])
    rules = read_rules(NAME, schema)
    found = {}
    for sampler, key in (("rows", "points_violating"), ("uniform", "points_violating_uniform")):
        fresh = np.concatenate([points(rule, schema, coded, sampler, seed, len(rules)) for rule in rules])
        frame = schema.decode(fresh)
        found[key] = float(np.mean(positive_probability(posterior, frame) < 0.5))
        if isinstance(fitted, OCBNNClassifier):
            found[f"{key}_predicted"] = float(np.mean(fitted.predict(frame) == 0))
    return found


def points(
    rule: Constraint, schema: Schema, coded: np.ndarray, sampler: str, seed: int, rules: int
) -> np.ndarray:
    """A rule's share of the fresh points; no point of a fit comes from this seed."""
    return regions.sample((seed, 86), rule.region, schema, coded, POINTS // rules, sampler)


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
        statistics: Mapping[str, Statistic] = {
            **scores(labels[rows], found.predicted[rows]),
            "auc": area(labels[rows], found.chance[rows]),
        }
        each = with_errors({f"{name}{suffix}": s for name, s in statistics.items()}, patients[rows], seed)
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
    table: pd.DataFrame,
    inside: np.ndarray,
    tested: np.ndarray,
    splits: list[tuple[np.ndarray, np.ndarray]],
    seed: int,
) -> dict[str, Any]:
    """Logistic regression and boosting on the same folds, classes balanced."""
    frame, labels = table[list(mimic3.FEATURES)], table[mimic3.TARGET]
    result = {}
    for name, model in (
        ("logistic_regression", peers.logistic_regression(class_weight="balanced")),
        ("gradient_boosting", peers.gradient_boosting(seed, class_weight="balanced")),
    ):
        chance = np.full(len(table), np.nan)
        for train, test in splits:
            rows = train[~inside[train]]
            chance[test] = model.fit(frame.iloc[rows], labels.iloc[rows]).predict_proba(frame.iloc[test])[
                :, 1
            ]
        result[name] = figures(
            table, inside, tested, HeldOut(chance, (chance >= 0.5).astype(np.int64), {}), seed
        )
    return result


def _draw(out: Path, table: pd.DataFrame, inside: np.ndarray, found: Mapping[str, HeldOut]) -> None:
    """What the rules changed: each held-out hour's probability without and with them, and the violations."""
    from ocbnn.paper.pictures import draw

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
        ax.axhline(0.136, color="#555555", lw=0.8, ls=":", label="the paper's OC-BNN")
        ax.set(
            xticks=np.arange(len(kinds)), xticklabels=list(kinds.values()), ylabel="violating", ylim=(0, 1)
        )
        ax.legend(loc="upper left")

    draw(out, NAME, [changed, violations], size=(4.2, 3.6))
