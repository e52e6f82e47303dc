"""Table 2: a recidivism score under `always P(high_risk = 1) = two_year_recid`, with and without race."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedKFold

from ocbnn.amortize import AmortizedPrior, Learning
from ocbnn.datasets import compas
from ocbnn.estimators import OCBNNClassifier
from ocbnn.paper import peers
from ocbnn.paper.applications import (
    Labels,
    Probabilities,
    Statistic,
    fit_estimator,
    mean_of,
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
from ocbnn.paper.watching import one_fit
from ocbnn.posterior.draws import Posterior
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.parse import parse_rule
from ocbnn.schema import Schema

NAME = "recidivism"
BOUNDS = (
    Bound("ocbnn", "gap_given_recid_0", "<=", 0.03),
    Bound("ocbnn", "gap_given_recid_1", "<=", 0.03),
    Bound("ocbnn", "tv_to_rule", "<=", 0.10),
)
STANDARDISED = ("age", "priors_count", "length_of_stay")
RECID = "two_year_recid"
Fitted = OCBNNClassifier | Posterior


def recidivism(setting: str, seed: int, quick: bool, out: Path) -> Outcome:
    """Baseline and OC-BNN, with race among the features and without, on the training rows as in the paper."""
    chosen = plan(NAME, setting, quick=quick)
    table = compas.table()
    if quick:
        table = table.sample(600, random_state=seed).reset_index(drop=True)
    runs: dict[str, Mapping[str, Any]] = {}
    networks: dict[str, Fitted] = {}
    for suffix, features in (("", compas.FEATURES), ("_without_race", compas.FEATURES[:-1])):
        for name, ruled in (("bnn", False), ("ocbnn", True)):
            fitted = networks[f"{name}{suffix}"] = fit(setting, chosen, table, list(features), ruled, seed)
            save(out, NAME, f"{name}{suffix}", fitted)
            runs[f"{name}{suffix}"] = figures(table, probability(fitted, table[list(features)]), seed=seed)
    rows = table[[*compas.FEATURES, compas.TARGET]]
    beside = {name: figures(table, chance, seed=seed) for name, chance in others(table, table, seed).items()}
    details: dict[str, Any] = {
        "others": beside,
        **left_out(beside),
        **save_table(out, NAME, rows, compas.TARGET, networks["ocbnn"]),
    }
    if setting == "ours":
        details["cross_validated"] = cross_validated(chosen, table, seed, folds=_folds(quick))
    _draw(out, table, runs, details)
    return Outcome(runs, BOUNDS, details=details)


def fits(setting: str, quick: bool) -> int:
    """How many fits there are: with and without race, each fold twice; or two priors besides."""
    return 4 + 2 * _folds(quick) if setting == "ours" else 6


def _folds(quick: bool) -> int:
    return 2 if quick else 5


def fit(
    setting: str, chosen: Plan, table: pd.DataFrame, features: list[str], ruled: bool, seed: int
) -> Fitted:
    """One network: of the library's own way in `ours`, with an amortized prior and particles otherwise."""
    if setting == "ours":
        with rules_path(NAME) as path:
            return fit_estimator(
                chosen, path if ruled else None, table[features], table[compas.TARGET], seed, {}
            )
    schema = papers_schema(chosen, table, features)
    prior = amortized(chosen, schema, table, seed) if ruled else None
    frame = table[[*features, compas.TARGET]]
    return posterior_of(chosen, frame, compas.TARGET, (), seed, schema, base=prior)


def papers_schema(chosen: Plan, table: pd.DataFrame, features: list[str]) -> Schema:
    """Only age, priors_count and length_of_stay are standardised; the reference's box is of real numbers."""
    boxed = chosen.own["region"] == "box"
    columns: dict[str, dict[str, Any]] = {
        name: {"kind": "binary", "transform": "none"} for name in features if name not in STANDARDISED
    }
    for name in features if boxed else ():  # 0.2 standard deviations may hold no whole number
        columns.setdefault(name, {})["kind"] = "continuous"
    return Schema.infer(table[features], target=table[compas.TARGET], task="classification", columns=columns)


def amortized(chosen: Plan, schema: Schema, table: pd.DataFrame, seed: int) -> AmortizedPrior:
    """The rule learnt into a Gaussian over weights, as the paper's appendix says (or its code does)."""
    own = chosen.own
    rule = read_rules(NAME, schema)[0]
    if own["region"] == "box":  # errata D5
        rule = boxed_rule(schema, table, own["box"])
    with_race = compas.RACE in schema.names
    with one_fit():
        return AmortizedPrior.learn(
            [rule],
            schema,
            hidden=tuple(chosen.model["hidden"]),
            activation=chosen.model["activation"],
            data=table[list(schema.names)],
            objective="linearized",
            divergence="symmetric-kl",
            concentration=own["shrink_with_race"] if with_race else own["shrink_without_race"],
            sampler="uniform" if own["region"] == "box" else "hull",
            learning=Learning.paper(own["epochs"], own.get("initial_scale", 1.0)),
            seed=seed,
        )


def boxed_rule(schema: Schema, table: pd.DataFrame, width: float) -> Constraint:
    """The rule in a box of some standard deviations around the mean of every other column (errata D5).

    In it two_year_recid is any number from 0 to 1, and so is the probability that is asked for.
    """
    conditions = [f"0 <= {RECID} <= 1"]
    for name in schema.names:
        if name != RECID:
            mean, reach = table[name].mean(), width * table[name].std()
            conditions.append(f"{mean - reach} <= {name} <= {mean + reach}")
    text = f"if {' and '.join(conditions)} then P({compas.TARGET} = 1) = {RECID}"
    return parse_rule(text, schema, name="by what people did")


def probability(fitted: Fitted, frame: pd.DataFrame) -> Probabilities:
    """P(high_risk = 1) of each row."""
    if isinstance(fitted, Posterior):
        return positive_probability(fitted, frame)
    return np.asarray(fitted.predict_proba(frame)[:, 1])


def figures(table: pd.DataFrame, chance: Probabilities, *, seed: int) -> dict[str, float | None]:
    """What the paper reports, and what its rule is about."""
    return with_errors(
        statistics(table, (chance >= 0.5).astype(np.int64), chance), np.arange(len(table)), seed
    )


def statistics(table: pd.DataFrame, predicted: Labels, chance: Probabilities) -> dict[str, Statistic]:
    """Figures of rows: the groups are African-American and others, as in the paper."""
    labels, recid = table[compas.TARGET].to_numpy(), table[RECID].to_numpy()
    group = table[compas.RACE].to_numpy() == 1

    def gap(within: np.ndarray) -> Statistic:
        ones, others = mean_of(predicted, group & within), mean_of(predicted, ~group & within)
        return lambda rows: abs(ones(rows) - others(rows))

    return {
        **scores(labels, predicted),
        "high_risk_african_american": mean_of(predicted, group),
        "high_risk_others": mean_of(predicted, ~group),
        "gap": gap(np.ones(len(group), dtype=bool)),
        "gap_given_recid_0": gap(recid == 0),
        "gap_given_recid_1": gap(recid == 1),
        "tv_to_rule": mean_of(np.abs(chance - recid), np.ones(len(group), dtype=bool)),
    }


def others(train: pd.DataFrame, test: pd.DataFrame, seed: int) -> dict[str, Probabilities]:
    """P(high_risk = 1), or the label, by logistic regression, boosting and fairlearn's demographic parity."""
    frame, labels, asked = train[list(compas.FEATURES)], train[compas.TARGET], test[list(compas.FEATURES)]
    models = {
        "logistic_regression": peers.logistic_regression(),
        "gradient_boosting": peers.gradient_boosting(seed),
    }
    chances = {name: model.fit(frame, labels).predict_proba(asked)[:, 1] for name, model in models.items()}
    fair = peers.demographic_parity(frame, labels, train[compas.RACE], seed)
    return chances if fair is None else {**chances, "demographic_parity": fair(asked).astype(float)}


def left_out(beside: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Why a method is not among the others, for the outcome's details; nothing where all are."""
    if "demographic_parity" in beside:
        return {}
    return {"left_out": {"demographic_parity": peers.NO_FAIRLEARN}}


def cross_validated(chosen: Plan, table: pd.DataFrame, seed: int, folds: int) -> dict[str, dict[str, Any]]:
    """The same figures for rows that were not in the fit, with race among the features."""
    frame, labels = table[list(compas.FEATURES)], table[compas.TARGET]
    chances: dict[str, Probabilities] = {}
    splits = StratifiedKFold(folds, shuffle=True, random_state=seed)
    for train, test in splits.split(frame, labels):
        with rules_path(NAME) as path:
            rows = (frame.iloc[train], labels.iloc[train])
            networks = {
                "bnn": fit_estimator(chosen, None, *rows, seed, {}),
                "ocbnn": fit_estimator(chosen, path, *rows, seed, {}),
            }
        held_out = {name: probability(network, frame.iloc[test]) for name, network in networks.items()}
        held_out |= others(table.iloc[train], table.iloc[test], seed)
        for name, chance in held_out.items():
            chances.setdefault(name, np.zeros(len(table)))[test] = chance
    return {name: figures(table, chance, seed=seed) for name, chance in chances.items()}


def _draw(out: Path, table: pd.DataFrame, runs: Mapping[str, Any], details: Mapping[str, Any]) -> None:
    """Who is called high-risk, by group; and the gap that is left among people who did the same."""
    from ocbnn.paper.pictures import draw

    shown = {"BNN": runs["bnn"], "OC-BNN": runs["ocbnn"], **_named(details["others"])}
    group, label = table[compas.RACE] == 1, table[compas.TARGET]
    rates = {
        "COMPAS itself": (float(label[group].mean()), float(label[~group].mean())),
        **{
            name: (each["high_risk_african_american"], each["high_risk_others"])
            for name, each in shown.items()
        },
    }

    def by_group(ax: Any) -> None:
        places = np.arange(len(rates))
        for shift, part, colour, text in (
            (-0.2, 0, "#0072b2", "African-American"),
            (0.2, 1, "#999999", "others"),
        ):
            ax.barh(places + shift, [each[part] for each in rates.values()], 0.38, color=colour, label=text)
        ax.set(yticks=places, yticklabels=list(rates), xlabel="called high-risk", xlim=(0, 0.7))
        ax.invert_yaxis()
        ax.legend(loc="lower right")

    def within(ax: Any) -> None:
        places = np.arange(len(shown))
        for shift, key, colour, text in (
            (-0.27, "gap", "#d55e00", "of all"),
            (0.0, "gap_given_recid_1", "#e69f00", "who did reoffend"),
            (0.27, "gap_given_recid_0", "#56b4e9", "who did not"),
        ):
            ax.barh(places + shift, [each[key] for each in shown.values()], 0.25, color=colour, label=text)
        ax.axvline(0.03, color="#555555", lw=0.8, ls=":")
        ax.set(yticks=places, yticklabels=list(shown), xlabel="gap between the groups")
        ax.invert_yaxis()
        ax.legend(loc="lower right")

    draw(out, NAME, [by_group, within], size=(5.0, 3.4))


def _named(others: Mapping[str, Any]) -> dict[str, Any]:
    names = {
        "logistic_regression": "logistic regression",
        "gradient_boosting": "boosting",
        "demographic_parity": "boosting, parity",
    }
    return {names[key]: each for key, each in others.items()}
