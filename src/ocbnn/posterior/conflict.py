"""How much the data and each rule disagree, as numbers people can read.

Three questions, each of a posterior with the rules beside one without:

- Would the data alone have kept the rule? The violation mass under the posterior without any rule.
- Does the rule cost anything? The log score of rows that neither posterior has seen, with and without it.
- What does it change? The difference between the two point predictions, how large and where.

And one of the posterior with the rules alone:

- Does the answer depend on the rule, on the data, or on both? `sensitivity.py` measures it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from ocbnn.checking.check import check_rules
from ocbnn.checking.figures import Figure, Number
from ocbnn.checking.results import Attempt, Level
from ocbnn.errors import OCBNNError
from ocbnn.model.conditional import RuleTerm
from ocbnn.posterior.allowed import ruled_blocks
from ocbnn.posterior.draws import Posterior, Table, as_coded, function_blocks
from ocbnn.posterior.mixtures import Mixture, log_density
from ocbnn.posterior.predict import point_values, predict, restricted
from ocbnn.posterior.sensitivity import Sensitivity, sensitivities
from ocbnn.rules.requirement import Units

POINTS = 500
WHERE = 5


class LogScore(NamedTuple):
    """Mean log predictive density (nats per row) of held-out rows, with and without a rule.

    `difference` is with − without, below 0 where the rule costs; `error` is its standard error over rows,
    which are the same for both.
    """

    with_rule: float
    without_rule: float
    difference: float
    error: Number
    rows: int


@dataclass(frozen=True, eq=False)
class Conflict:
    """One rule against the data.

    Attributes:
        name: the rule's name, or its text.
        text: the rule in words.
        measure: what the two violations are: "violation", or for a probabilistic rule "total variation".
        violation_without: under the posterior without any rule, on fresh points of the rule's region.
        violation_with: the same under the posterior with all rules.
        worst_without, worst_with: both at the worst case that a search finds for each posterior.
        levels: the verdict on the posterior with all rules: on average, in the worst case found, by proof.
        log_score: of held-out rows with and without this rule; None where there were none.
        change_inside: mean absolute change of the point prediction at fresh points of the region that this
            rule causes: in units of y, or as total variation between class probabilities.
        change_outside: the same at rows of the table outside of the region; None where there are none.
        where: the rows and points with the largest change, in raw units, with the predictions with and
            without the rule.
        sensitivity: of the answer to this rule and to the data; None for a rule that the prior has learnt.
    """

    name: str
    text: str
    measure: str
    violation_without: Figure
    violation_with: Figure
    worst_without: Figure
    worst_with: Figure
    levels: Mapping[Level, Attempt]
    log_score: LogScore | None
    change_inside: float
    change_outside: float | None
    where: pd.DataFrame
    sensitivity: Sensitivity | None

    def __str__(self) -> str:
        levels = "; ".join(f"{level}: {verdict}" for level, verdict in self.levels.items())
        words = (
            f"{self.name}: {self.measure} on average {self.violation_without} without rules, "
            f"{self.violation_with} with them; in the worst case found {self.worst_without.value:.3g} and "
            f"{self.worst_with.value:.3g} ({levels}); predictions change by "
            f"{self.change_inside:.3g} in its region"
        )
        if self.change_outside is not None:
            words += f" and {self.change_outside:.3g} elsewhere"
        if self.log_score is not None:
            score = self.log_score
            words += (
                f"; log score of {score.rows} held-out rows {score.difference:+.3g} ± {score.error:.2g} "
                "through the rule"
            )
        return words if self.sensitivity is None else f"{words}; {self.sensitivity}"


def conflict(
    with_rules: Posterior,
    without_rules: Posterior,
    without_each: Sequence[Posterior] | None = None,
    *,
    held_out: Table | None = None,
    y: Any = None,
    points: int = POINTS,
    where: int = WHERE,
    key: int = 0,
) -> tuple[Conflict, ...]:
    """The conflict of every rule of `with_rules` with the data.

    Args:
        with_rules: the posterior under all rules.
        without_rules: of the same data, under none.
        without_each: for each rule, the posterior under all rules but this one: then log scores and changes
            are those of this rule alone. Default: `without_rules` for each.
        held_out: rows that no posterior has seen, for the log score.
        y: their target, raw.
        points: fresh points of each region.
        where: how many places of the largest change are named.
        key: seed of the points.
    """
    rules = with_rules.rules
    if not rules:
        raise OCBNNError("The posterior has no rules, so nothing can conflict with the data.")
    others = [without_rules] * len(rules) if without_each is None else list(without_each)
    if len(others) != len(rules):
        raise OCBNNError(f"There are {len(rules)} rules, but posteriors without {len(others)} of them.")
    if (held_out is None) != (y is None):
        raise OCBNNError("A log score needs held-out rows and their target: give both, or neither.")
    scores = None if held_out is None else log_scores(with_rules, held_out, y)
    checked, compared_to = (
        check_rules(each, rules, points=points, key=key) for each in (with_rules, without_rules)
    )
    sensed = sensitivities(with_rules, compared_to, key=key)
    results = []
    for rule, other, after, before, sensitivity in zip(
        rules, others, checked, compared_to, sensed, strict=True
    ):
        score = None
        if scores is not None:
            assert held_out is not None
            score = compared(scores, log_scores(other, held_out, y))
        changes = _changes(with_rules, other, rule, points, where, key)
        measured = (after.measure, before.average, after.average, before.worst, after.worst, after.levels)
        results.append(Conflict(after.name, after.text, *measured, score, *changes, sensitivity))
    return tuple(results)


def log_scores(posterior: Posterior, table: Table, y: Any) -> Float[np.ndarray, " n"]:
    """Log predictive density of every row: log (1/S) Σ_s p(y | Φ_s(x)), y in raw units.

    Under enforcement it is that of what is predicted, and an error where that is nothing. An outcome that
    cannot be then scores the logarithm of the smallest number, −708, and not −∞.
    """
    coded = as_coded(posterior, table)
    target = posterior.target
    model_y = target.to_model(pd.Series(np.asarray(y), name=target.name))
    if len(model_y) != len(coded):
        raise OCBNNError(f"There are {len(coded)} rows, but {len(model_y)} values of the target.")
    least = np.finfo(float).tiny
    if posterior.classes:
        probabilities = predict(posterior, coded, levels=(), coverage=None).probabilities
        assert probabilities is not None
        return np.log(np.maximum(probabilities[np.arange(len(coded)), model_y], least))
    raw = target.to_raw(model_y)
    if posterior.truncated:
        scores = restricted(posterior).log_density(coded, raw)
        return np.where(np.isneginf(scores), np.log(least), scores)
    scores, units = np.empty(len(coded)), Units.of_noise(target)
    for block, at, values in ruled_blocks(posterior, coded):
        mixture = Mixture(units.of(values), posterior.noise(coded[block]))
        scores[block] = log_density(mixture, units.of(raw[block]), at.obeying(values))
    return scores + units.log_slope(raw)


def point_predictions(posterior: Posterior, table: Table) -> np.ndarray:
    """The mean of Φ over draws: y raw `(n,)`, or class probabilities `(n, C)`.

    Under enforcement it is what is predicted, and the mean only where nothing can be.
    """
    coded = as_coded(posterior, table)
    blocks = function_blocks(posterior, coded)
    return np.concatenate([point_values(posterior, coded[block], values) for block, values in blocks])


def change_sizes(here: np.ndarray, there: np.ndarray) -> Float[np.ndarray, " n"]:
    """How far point predictions differ: |Δy| in raw units, or total variation between class probabilities."""
    return np.abs(here - there) if here.ndim == 1 else 0.5 * np.abs(here - there).sum(axis=1)


def compared(with_rule: Float[np.ndarray, " n"], without_rule: Float[np.ndarray, " n"]) -> LogScore:
    """The mean log scores of the same rows with and without a rule, and their difference."""
    difference = with_rule - without_rule
    count = len(difference)
    error = float(difference.std(ddof=1) / np.sqrt(count)) if count > 1 else float("nan")
    return LogScore(
        float(with_rule.mean()), float(without_rule.mean()), float(difference.mean()), error, count
    )


def _changes(
    with_rule: Posterior, without_rule: Posterior, rule: RuleTerm, points: int, where: int, key: int
) -> tuple[float, float | None, pd.DataFrame]:
    """Mean change inside the region, outside of it, and the places of the largest."""
    schema, data = with_rule.schema, with_rule.model.data
    inside = rule.fresh_inputs(points, key)
    outside = np.zeros((0, inside.shape[1]))
    if data is not None:
        rows = schema.to_raw(np.asarray(data.inputs, dtype=float))
        outside = rows[~rule.rule.applies(rows, schema)]
    coded = np.concatenate([inside, outside])
    here, there = point_predictions(with_rule, coded), point_predictions(without_rule, coded)
    change = change_sizes(here, there)
    largest = np.argsort(-change, kind="stable")[:where]
    places = schema.decode(coded[largest])
    for label, values in (("with the rule", here), ("without it", there)):
        for name, column in _named(with_rule, values[largest], label):
            places[name] = column
    places["change"] = change[largest]
    after = float(change[len(inside) :].mean()) if len(outside) else None
    return float(change[: len(inside)].mean()), after, places


def _named(posterior: Posterior, values: np.ndarray, label: str) -> list[tuple[str, np.ndarray]]:
    target = posterior.target.name
    if values.ndim == 1:
        return [(f"{target} {label}", values)]
    classes = posterior.classes
    shown = range(1, 2) if len(classes) == 2 else range(len(classes))
    return [(f"P({target} = {classes[index]}) {label}", values[:, index]) for index in shown]
