"""Table 2: a recidivism score under `always P(high_risk = 1) = two_year_recid`, with and without race."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits  # type: ignore[import-not-found, import-untyped, unused-ignore]

from ocbnn import AmortizedPrior, Constraint, Schema, parse_rule
from reproduce.applications import common
from reproduce.applications.common import Fitted, Labels, Probabilities, Statistic
from reproduce.data import compas
from reproduce.outcome import Outcome
from reproduce.pictures import draw
from reproduce.plans import Plan, plan
from reproduce.runs import learnt_prior, save_all

NAME = "recidivism"
FEATURES = list(compas.FEATURES)
STANDARDISED = ("age", "priors_count", "length_of_stay")
RECID = "two_year_recid"
PARITY = 0.01
NO_FAIRLEARN = "fairlearn is not installed (`pip install fairlearn`), so its reduction was left out."
SHOWN = {
    "logistic_regression": "logistic regression",
    "gradient_boosting": "boosting",
    "demographic_parity": "boosting, parity",
}
"""Names of other methods in the picture."""


def recidivism(setting: str, seed: int, quick: bool, out: Path) -> Outcome:
    """Baseline and OC-BNN, with race among the features and without, on the training rows as in the paper."""
    chosen = plan(NAME, setting, quick=quick)
    table = compas.table()
    if quick:
        table = table.sample(600, random_state=seed).reset_index(drop=True)
    runs: dict[str, Mapping[str, Any]] = {}
    networks: dict[str, Fitted] = {}
    for suffix, features in (("", FEATURES), ("_without_race", FEATURES[:-1])):
        for name in ("bnn", "ocbnn"):
            rows = table[[*features, compas.TARGET]]
            fitted = networks[f"{name}{suffix}"] = fit(setting, chosen, rows, name == "ocbnn", seed)
            runs[f"{name}{suffix}"] = figures(table, common.probability(fitted, table[features]), seed=seed)
    save_all(out / NAME, networks)
    beside = {name: figures(table, chance, seed=seed) for name, chance in others(table, table, seed).items()}
    details: dict[str, Any] = {
        "others": beside,
        **left_out(beside),
        **common.save_table(
            out / NAME, NAME, table[[*FEATURES, compas.TARGET]], compas.TARGET, networks["ocbnn"]
        ),
    }
    if setting == "ours":
        details["cross_validated"] = cross_validated(chosen, table, seed, folds(quick))
    _draw(out, table, runs, details)
    return Outcome(runs, details)


def folds(quick: bool) -> int:
    """How many folds the setting `ours` is cross-validated in."""
    return 2 if quick else 5


def fit(setting: str, chosen: Plan, rows: pd.DataFrame, ruled: bool, seed: int) -> Fitted:
    """One network: of the library's own way in `ours`, with an amortized prior and particles otherwise."""
    if setting == "ours":
        return common.fit_estimator(
            chosen, rows, compas.TARGET, common.rules_path(NAME) if ruled else None, seed
        )
    schema = common.papers_schema(chosen, rows, compas.TARGET, STANDARDISED, kind="binary")
    prior = amortized(chosen, schema, rows, seed) if ruled else None
    return common.posterior_of(chosen, rows, compas.TARGET, (), seed, schema, base=prior)


def amortized(chosen: Plan, schema: Schema, rows: pd.DataFrame, seed: int) -> AmortizedPrior:
    """The rule learnt into a Gaussian over weights, as the paper's appendix says (or its code does)."""
    features = rows[list(schema.names)]
    shrink = "shrink_with_race" if compas.RACE in schema.names else "shrink_without_race"
    rules = papers_rules(chosen, schema, features)
    return learnt_prior(chosen, rules, schema, seed=seed, data=features, concentration=chosen.own[shrink])


def papers_rules(chosen: Plan, schema: Schema, features: pd.DataFrame) -> Sequence[Constraint]:
    """The rule; in the reference setting within a box around the mean of every other column.

    In it two_year_recid is any number from 0 to 1, and so is the probability that is asked for.
    """
    box = common.box_conditions(chosen, features, but=(RECID,))
    if not box:
        return common.read_rules(NAME, schema)
    conditions = " and ".join([f"0 <= {RECID} <= 1", *box])
    text = f"if {conditions} then P({compas.TARGET} = 1) = {RECID}"
    return [parse_rule(text, schema, name="by what people did")]


def figures(table: pd.DataFrame, chance: Probabilities, *, seed: int) -> dict[str, float | None]:
    """What the paper reports, and what its rule is about."""
    return common.with_errors(
        statistics(table, (chance >= 0.5).astype(np.int64), chance), np.arange(len(table)), seed
    )


def statistics(table: pd.DataFrame, predicted: Labels, chance: Probabilities) -> dict[str, Statistic]:
    """Figures of rows: the groups are African-American and others, as in the paper."""
    labels, recid = table[compas.TARGET].to_numpy(), table[RECID].to_numpy()
    group = table[compas.RACE].to_numpy() == 1

    def gap(within: np.ndarray) -> Statistic:
        ones, others = common.mean_of(predicted, group & within), common.mean_of(predicted, ~group & within)
        return lambda rows: abs(ones(rows) - others(rows))

    return {
        **common.scores(labels, predicted),
        "high_risk_african_american": common.mean_of(predicted, group),
        "high_risk_others": common.mean_of(predicted, ~group),
        "gap": gap(np.ones(len(group), dtype=bool)),
        "gap_given_recid_0": gap(recid == 0),
        "gap_given_recid_1": gap(recid == 1),
        "tv_to_rule": common.mean_of(np.abs(chance - recid), np.ones(len(group), dtype=bool)),
    }


def others(train: pd.DataFrame, test: pd.DataFrame, seed: int) -> dict[str, Probabilities]:
    """P(high_risk = 1), or the label, by logistic regression, boosting and fairlearn's demographic parity."""
    frame, labels, asked = train[FEATURES], train[compas.TARGET], test[FEATURES]
    models = {
        "logistic_regression": common.logistic_regression(),
        "gradient_boosting": common.gradient_boosting(seed),
    }
    chances = {name: model.fit(frame, labels).predict_proba(asked)[:, 1] for name, model in models.items()}
    fair = demographic_parity(frame, labels, asked, seed)
    return chances if fair is None else {**chances, "demographic_parity": fair}


def demographic_parity(
    frame: pd.DataFrame, labels: pd.Series, asked: pd.DataFrame, seed: int
) -> Probabilities | None:
    """The labels of fairlearn's ExponentiatedGradient for some rows; None where it is not installed.

    It constrains the rates of the groups to differ by at most 0.01, whatever the reasons, and predicts by
    chance among a few boosted models.
    """
    try:
        from fairlearn.reductions import DemographicParity, ExponentiatedGradient
    except ImportError:
        return None
    parity = DemographicParity(difference_bound=PARITY)
    mitigated = ExponentiatedGradient(common.gradient_boosting(seed), parity, eps=PARITY)
    # Dozens of small fits: their threads cost more than they save.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of pandas, about how fairlearn uses it
        mitigated.fit(frame, labels, sensitive_features=frame[compas.RACE])
    return np.asarray(mitigated.predict(asked, random_state=seed), dtype=float)


def left_out(beside: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Why a method is not among the others, for the outcome's details; nothing where all are."""
    if "demographic_parity" in beside:
        return {}
    return {"left_out": {"demographic_parity": NO_FAIRLEARN}}


def cross_validated(chosen: Plan, table: pd.DataFrame, seed: int, folds: int) -> dict[str, dict[str, Any]]:
    """The same figures for rows that were not in the fit, with race among the features."""
    rows = table[[*FEATURES, compas.TARGET]]
    chances: dict[str, Probabilities] = {}
    splits = StratifiedKFold(folds, shuffle=True, random_state=seed)
    for train, test in splits.split(rows, rows[compas.TARGET]):
        held_out = {
            name: common.probability(
                fit("ours", chosen, rows.iloc[train], ruled, seed), table.iloc[test][FEATURES]
            )
            for name, ruled in (("bnn", False), ("ocbnn", True))
        }
        held_out |= others(table.iloc[train], table.iloc[test], seed)
        for name, chance in held_out.items():
            chances.setdefault(name, np.zeros(len(table)))[test] = chance
    return {name: figures(table, chance, seed=seed) for name, chance in chances.items()}


def _draw(out: Path, table: pd.DataFrame, runs: Mapping[str, Any], details: Mapping[str, Any]) -> None:
    """Who is called high-risk, by group; and the gap that is left among people who did the same."""
    others = {SHOWN[name]: each for name, each in details["others"].items()}
    shown = {"BNN": runs["bnn"], "OC-BNN": runs["ocbnn"], **others}
    group, label = table[compas.RACE] == 1, table[compas.TARGET]
    rates = {
        "COMPAS itself": (float(label[group].mean()), float(label[~group].mean())),
        **{
            name: (each["high_risk_african_american"], each["high_risk_others"])
            for name, each in shown.items()
        },
    }

    def bars(ax: Any, names: Mapping[str, Any], height: float, label: str, parts: Sequence[Any]) -> None:
        places = np.arange(len(names))
        for shift, key, colour, text in parts:
            values = [each[key] for each in names.values()]
            ax.barh(places + shift, values, height, color=colour, label=text)
        ax.set(yticks=places, yticklabels=list(names), xlabel=label)
        ax.invert_yaxis()
        ax.legend(loc="lower right")

    def by_group(ax: Any) -> None:
        parts = ((-0.2, 0, "#0072b2", "African-American"), (0.2, 1, "#999999", "others"))
        bars(ax, rates, 0.38, "called high-risk", parts)
        ax.set_xlim(0, 0.7)

    def within(ax: Any) -> None:
        parts = (
            (-0.27, "gap", "#d55e00", "of all"),
            (0.0, "gap_given_recid_1", "#e69f00", "who did reoffend"),
            (0.27, "gap_given_recid_0", "#56b4e9", "who did not"),
        )
        bars(ax, shown, 0.25, "gap between the groups", parts)
        ax.axvline(0.03, color="#555555", lw=0.8, ls=":")

    draw(out, NAME, [by_group, within], size=(5.0, 3.4))
