"""How much the data and each rule disagree, as numbers people can read.

Three questions, each of a posterior with the rules beside one without:

- Would the data alone have kept the rule? The violation mass under the posterior without any rule.
- Does the rule cost anything? The log score of rows that neither posterior has seen, with and without it.
- What does it change? The difference between the two point predictions, how large and where.

And one of the posterior with the rules alone:

- Does the answer depend on the rule, on the data, or on both? Power-scaling sensitivity.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from arviz_stats.base import array_stats  # type: ignore[attr-defined]
from jaxtyping import Array, Float
from scipy.special import softmax

from ocbnn.checking.check import check_rules
from ocbnn.checking.draws import evenly
from ocbnn.checking.figures import Figure, Number
from ocbnn.checking.results import RuleCheck
from ocbnn.errors import OCBNNError
from ocbnn.model import Model
from ocbnn.model.conditional import RuleTerm
from ocbnn.model.outputs import CHUNK, padded, precision
from ocbnn.posterior.allowed import ruled_blocks
from ocbnn.posterior.draws import Posterior, Table, as_coded, function_blocks
from ocbnn.posterior.mixtures import Mixture, log_density
from ocbnn.posterior.predict import point_values, predict, restricted
from ocbnn.seeds import seed_for

POINTS = 500
WHERE = 5
PLACES, DRAWS, SHUFFLES = 30, 2000, 20
"""Cases of a region, draws (at most) and random orders that sensitivity is measured with."""
POWERS = (0.99, 1.01)
SENSITIVE = 0.05
"""Sensitivity from which an answer depends on what is scaled (Kallioinen et al. 2024)."""
DISAGREE = "the data strongly disagree with this rule"


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


class Sensitivity(NamedTuple):
    """How much the answer in a rule's region depends on the rule, and on the data.

    Power-scaling sensitivity (Kallioinen et al. 2024): how fast the distribution of Φ(x) moves when the
    log-density of the rule's term, or of all rows, is multiplied by a number near 1. `rule` is the largest
    value over cases of the region, and `data` is the value at that case. From 0.05 on the answer depends on
    what is scaled.

    Scaling changes how steep a rule's wall is, not where it stands. A thin wall that cuts off half of the
    posterior therefore has no sensitivity. That is why a rule is said to matter little only if a model without
    rules would keep it too. What so many independent draws show by chance is subtracted; draws that follow
    one another slowly show more.

    Attributes:
        rule: sensitivity to the rule's term.
        data: sensitivity to the likelihood; None where the model does not hold its rows.
        verdict: what both say together, in words.
    """

    rule: float
    data: float | None
    verdict: str

    def __str__(self) -> str:
        data = "" if self.data is None else f", {self.data:.2g} to the data"
        return f"{self.verdict} (sensitivity {self.rule:.2g} to the rule{data})"


@dataclass(frozen=True, eq=False)
class Conflict:
    """One rule against the data.

    Attributes:
        name: the rule's name, or its text.
        text: the rule in words.
        measure: what the two violations are: "violation", or for a probabilistic rule "total variation".
        violation_without: under the posterior without any rule, on fresh points of the rule's region.
        violation_with: the same under the posterior with all rules.
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
    log_score: LogScore | None
    change_inside: float
    change_outside: float | None
    where: pd.DataFrame
    sensitivity: Sensitivity | None

    def __str__(self) -> str:
        words = (
            f"{self.name}: {self.measure} {self.violation_without} without rules, {self.violation_with} with "
            f"them; predictions change by {self.change_inside:.3g} in its region"
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
        check_rules(each, rules, points=points, key=key, ascent=False) for each in (with_rules, without_rules)
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
        measured = (after.measure, before.violation, after.violation)
        results.append(Conflict(after.name, after.text, *measured, score, *changes, sensitivity))
    return tuple(results)


def sensitivities(
    posterior: Posterior,
    without: Iterable[RuleCheck | None],
    *,
    points: int = PLACES,
    key: int = 0,
) -> tuple[Sensitivity | None, ...]:
    """The sensitivity of the answer to every rule of the posterior.

    It is None for a rule that the base prior has learnt, and where a draw has no finite value or density.

    Args:
        posterior: under all rules.
        without: checks of the same rules under a posterior without them; None where there is none.
        points: cases of each region that are looked at.
        key: seed of the cases.
    """
    draws, model = posterior.flat[evenly(len(posterior.flat), DRAWS)], posterior.model
    if not model.terms:
        return (None,) * len(posterior.rules)
    rules, rows = log_densities(model, draws)
    found: list[Sensitivity | None] = []
    for index, (term, check) in enumerate(zip(posterior.rules, without, strict=True)):
        if index >= len(model.terms):
            found.append(None)
            continue
        cases = term.fresh_inputs(points, key)
        values = posterior.values(cases[evenly(len(cases), points)], draws)
        if len(posterior.classes) == 2:
            values = values[..., 1]
        values = values.reshape(len(draws), -1)
        if not (np.isfinite(values).all() and np.isfinite(rules[:, index]).all()):
            found.append(None)
            continue
        there = values[:, int(np.argmax(power_scaling(values, rules[:, index])))]
        of_rule = beyond_chance(there, rules[:, index], key)
        of_data = None if rows is None else beyond_chance(there, rows, key)
        kept = None if check is None else bool(check.violation.value <= check.tolerance)
        found.append(Sensitivity(of_rule, of_data, _verdict(of_rule, of_data, kept)))
    return tuple(found)


def power_scaling(
    values: Float[np.ndarray, "S n"], log_density: Float[np.ndarray, " S"]
) -> Float[np.ndarray, " n"]:
    """The sensitivity of n quantities to a factor p(w) of the density that S draws are of.

    The mean over α = 0.99 and 1.01 of |d / log2 α|, where d is the cumulative Jensen-Shannon distance between
    the draws and the draws with weights ∝ p(w)^(α − 1). These weights are near 1, so they need no smoothing,
    which would refuse the many draws at which a rule's term is exactly 0.
    """
    found = np.zeros(values.shape[1])
    moving = np.ptp(values, axis=0) > 0.0
    if np.ptp(log_density) == 0.0 or not moving.any():
        return found
    some = values.T[moving]
    lower, upper = (np.broadcast_to(softmax((power - 1.0) * log_density), some.shape) for power in POWERS)
    scaled: Any = array_stats.power_scale_sense  # ArviZ has no types
    found[moving] = scaled(some, lower, upper, *POWERS, chain_axis=None)
    return found


def beyond_chance(
    values: Float[np.ndarray, " S"], log_density: Float[np.ndarray, " S"], key: int = 0
) -> float:
    """The sensitivity of one quantity, less what the same draws in random order show: √(d² − mean d²_random).

    With many weights log p(D | w) varies much, and 1,000 draws can show 0.05 by chance alone.
    """
    generator = np.random.default_rng(seed_for(key, "sensitivity by chance"))
    shuffled = [generator.permutation(values) for _ in range(SHUFFLES)]
    found, *chance = power_scaling(np.stack([values, *shuffled], axis=1), log_density)
    return float(np.sqrt(max(found**2 - np.mean(np.square(chance)), 0.0)))


def log_densities(
    model: Model, draws: Float[np.ndarray, "S size"]
) -> tuple[Float[np.ndarray, "S rules"], Float[np.ndarray, " S"] | None]:
    """The log-density of each rule of `terms` and of all rows at every draw.

    The second is None where the model does not hold its rows, or a draw cannot be scored by them.
    """

    def both(w: Array) -> tuple[Array, Array]:
        return model.rule_log_densities(model.split(w)[0]), model.log_likelihood(w)

    rows = 0 if model.data is None else len(model.data.inputs)
    inputs = rows + sum(len(each.inputs) for each in model.points)
    size = min(max(CHUNK // max(inputs, 1), 1), len(draws))
    parts: list[list[np.ndarray]] = []
    for first in range(0, len(draws), size):
        some = draws[first : first + size].astype(float)
        with precision("float64"):
            block = jax.vmap(both)(jnp.asarray(padded(some, size)))
            parts.append([np.asarray(each)[: len(some)] for each in block])
    rules, likelihood = (np.concatenate(each) for each in zip(*parts, strict=True))
    return rules, likelihood if model.data is not None and np.isfinite(likelihood).all() else None


def _verdict(rule: float, data: float | None, kept_without: bool | None) -> str:
    """Sensitivities in words; `kept_without` says whether a model without rules keeps the rule."""
    if rule < SENSITIVE and kept_without is None:
        return "this rule's strength hardly matters"
    if rule < SENSITIVE:
        return (
            "this rule hardly matters" if kept_without else "this rule cuts off what data alone would allow"
        )
    if data is not None and data < SENSITIVE:
        return "this rule decides the answer here"
    if data is None or kept_without:
        return "this rule shapes the answer here"
    return DISAGREE


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
    scores = np.empty(len(coded))
    for block, at, values in ruled_blocks(posterior, coded):
        scores[block] = log_density(Mixture(values, posterior.noise), raw[block], at.obeying(values))
    return scores


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
        outside = rows[~rule.rule.region.contains(rows, schema)]
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
