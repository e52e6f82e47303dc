"""Predictions: of the function Φ and of an observation Y, which are two predictives and named apart.

    prediction = predict(posterior, rows)
    prediction.point                                   # y, or a class; obeys the rules that are enforced
    prediction.function.mean, prediction.function.hdi  # credible bands of Φ, without noise
    prediction.observation.quantiles                   # where a new Y falls, with noise
    prediction.epistemic, prediction.aleatoric         # what more data could remove, and could not

Rows go through in blocks, so tables of any length fit; a row's prediction does not depend on its batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import numpy as np
from arviz_stats.base import array_stats  # type: ignore[attr-defined]
from jaxtyping import Bool, Float
from scipy.special import entr

from ocbnn.checking.draws import is_whole
from ocbnn.errors import OCBNNError
from ocbnn.posterior.allowed import RowError, RulesAt, ruled_blocks
from ocbnn.posterior.draws import Posterior, Table, as_coded, function_blocks, function_draws
from ocbnn.posterior.mixtures import Intervals, Mixture, nearest_allowed, quantiles, shortest_interval
from ocbnn.resources import require_memory
from ocbnn.rules.requirement import RAW, Units

if TYPE_CHECKING:
    from ocbnn.posterior.truncate import Truncated

__all__ = [
    "Prediction",
    "Summary",
    "Table",
    "as_coded",
    "function_blocks",
    "function_draws",
    "predict",
    "sample_function",
    "sample_observation",
]

LEVELS = (0.05, 0.95)
COVERAGE = 0.9


@dataclass(frozen=True, eq=False)
class Summary:
    """One predictive at n rows, in raw units; for classes, of each class's probability `(n, C, …)`.

    Attributes:
        mean, sd: of the predictive.
        levels: of the quantiles.
        quantiles: `(n, L)`, or `(n, C, L)`; None where no levels were asked for.
        median: None where no levels were asked for.
        coverage: of the highest-density interval.
        hdi: the shortest interval of that coverage, `(n, 2)` or `(n, C, 2)`; None where not asked for.
    """

    mean: np.ndarray
    sd: np.ndarray
    levels: tuple[float, ...] = ()
    quantiles: np.ndarray | None = None
    median: np.ndarray | None = None
    coverage: float | None = None
    hdi: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a posterior says at n rows.

    Attributes:
        point: the one prediction: the mean of Φ (on a log scale exp of the mean of log Φ: about the median
            of y), or the most probable class. Under enforcement it obeys: the mean of Φ where that is
            allowed; else, of several allowed intervals, the mean of the draws within the one that holds most;
            else the nearest allowed value. Of classes it is the best allowed one.
        function: the predictive of Φ, what rules speak of: credible bands, without noise. None where
            enforcement was asked for the observation only.
        observation: the predictive of Y, noise included; None for classes, where `probabilities` is it.
        probabilities: of the classes, `(n, C)`; None for regression.
        epistemic: what more data could remove. Regression: Var_s[E[Y | s]], in squared raw units, which
            is Var_s[Φ_s] but on a log scale. Classes: the mutual information between class and draw, in nats.
        aleatoric: what more data could not remove. Regression: E_s[Var[Y | s]], which is E_s[noise_s²] but on
            a log scale. Classes: the expected entropy.

    Under enforcement both are of what is predicted: of the draws that obey at the row, or of the draws
    restricted to what is allowed there, each with its weight Z_s. Where bounds then clip the probabilities,
    which no draw does by itself, `epistemic` is what the expected entropy leaves of theirs.
    """

    point: np.ndarray
    function: Summary | None
    observation: Summary | None
    probabilities: np.ndarray | None
    epistemic: Float[np.ndarray, " n"]
    aleatoric: Float[np.ndarray, " n"]

    @property
    def total(self) -> Float[np.ndarray, " n"]:
        """Both together: the variance of Y, or the entropy of the predicted probabilities."""
        return self.epistemic + self.aleatoric


class Wanted(NamedTuple):
    """The levels of the quantiles, and the coverage of the highest-density interval, that were asked for."""

    levels: tuple[float, ...]
    coverage: float | None

    @classmethod
    def of(cls, levels: Sequence[float], coverage: float | None) -> Wanted:
        """Both of them; an error where one is not a probability."""
        for value in (*levels, *(() if coverage is None else (coverage,))):
            if not 0.0 < value < 1.0:
                raise OCBNNError(f"Levels and coverage lie between 0 and 1, such as 0.9; got {value}.")
        return cls(tuple(float(level) for level in levels), coverage)


Block = TypeVar("Block", Prediction, Summary)


def predict(
    posterior: Posterior,
    table: Table,
    *,
    levels: Sequence[float] = LEVELS,
    coverage: float | None = COVERAGE,
) -> Prediction:
    """The predictives of Φ and of Y at every row.

    Args:
        posterior: any draws, of a posterior or a prior; where rules were enforced on it, points obey them.
            Where predictions are truncated, this is `Truncated.predict`, without the function's predictive.
        table: a DataFrame, or coded rows.
        levels: of the quantiles; `()` for none, and no median.
        coverage: of the highest-density intervals; None for none.
    """
    if posterior.truncated:
        return restricted(posterior).predict(table, levels=levels, coverage=coverage)
    wanted = Wanted.of(levels, coverage)
    coded = as_coded(posterior, table)
    require_rows(coded)
    summarise = _class_block if posterior.classes else _number_block
    return joined(
        [summarise(posterior, at, values, wanted) for _, at, values in ruled_blocks(posterior, coded)]
    )


def restricted(posterior: Posterior) -> Truncated:
    """What a truncated posterior predicts, by all rules in force."""
    from ocbnn.posterior.truncate import Truncated  # which is made of what is here

    return Truncated(posterior, posterior.rules_in_force)


def point_values(posterior: Posterior, coded: Float[np.ndarray, "b Q"], values: np.ndarray) -> np.ndarray:
    """The point prediction as rules judge it, y or class probabilities, where the kept draws say `values`.

    Where enforcement finds nothing to predict it is the mean of the draws, so that what is wrong is seen.
    """
    result = posterior.middle(values)
    rows = np.arange(len(coded) if posterior.rules_in_force else 0)
    while rows.size:
        try:
            found = predict(posterior, coded[rows], levels=(), coverage=None)
        except RowError as error:
            rows = np.delete(rows, error.rows)
            continue
        result[rows] = found.point if found.probabilities is None else found.probabilities
        break
    return result


def sample_function(
    posterior: Posterior, table: Table, count: int | None = None, *, key: Any = 0
) -> np.ndarray:
    """Φ of `count` draws taken by lot (default: all draws): `(count, n)` raw, or `(count, n, C)`."""
    coded = as_coded(posterior, table)
    chosen = _chosen(posterior, count, len(coded), np.random.default_rng(key))
    blocks = [values for _, values in function_blocks(posterior, coded, posterior.flat[chosen])]
    return np.concatenate(blocks, axis=1) if blocks else function_draws(posterior, coded)[chosen]


def sample_observation(
    posterior: Posterior, table: Table, count: int | None = None, *, key: Any = 0
) -> np.ndarray:
    """Samples of Y, noise included: raw y `(count, n)`, or labels `(count, n)`, one for each draw taken.

    Where predictions are truncated, samples of the restricted predictive.
    """
    if posterior.truncated:
        total = len(posterior.flat) if count is None else count
        return restricted(posterior).sample_observation(table, total, key=key)
    generator = np.random.default_rng(key)
    coded = as_coded(posterior, table)
    chosen = _chosen(posterior, count, len(coded), generator)
    blocks, draws = [], posterior.flat[chosen]
    for block, values in function_blocks(posterior, coded, draws):
        drawn = noisy(posterior, coded[block], draws, values, generator)
        blocks.append(labels(posterior, drawn) if posterior.classes else drawn)
    return np.concatenate(blocks, axis=1) if blocks else samples_of_no_rows(posterior, len(chosen))


def samples_of_no_rows(posterior: Posterior, count: int) -> np.ndarray:
    """What there is to sample of an empty table, in the type that samples have."""
    none = np.zeros((count, 0), dtype=int)
    return labels(posterior, none) if posterior.classes else none.astype(float)


def require_count(count: int, each: int) -> None:
    """Refuse a number of samples below 1, or beyond memory; each sample takes `each` numbers."""
    if not is_whole(count) or count < 1:
        raise OCBNNError(f"A number of samples is a whole number, at least 1; got {count!r}.")
    require_memory(8.0 * count * each, f"{count:,} samples", "Ask for fewer samples.")


def noisy(
    posterior: Posterior,
    coded: Float[np.ndarray, "b Q"],
    draws: Float[np.ndarray, "S size"],
    values: np.ndarray,
    generator: np.random.Generator,
) -> np.ndarray:
    """One Y for every draw at every row, where the draws say `values` of Φ: raw y, or a class index."""
    if not posterior.classes:
        units, noise = Units.of_noise(posterior.target), posterior.noise(coded, draws)
        moved = units.of(values) + noise * generator.standard_normal(values.shape)
        return np.asarray(units.raw(moved))
    exceeded = np.cumsum(values, axis=-1) < generator.random((*values.shape[:-1], 1))
    return np.minimum(exceeded.sum(axis=-1), values.shape[-1] - 1)


def labels(posterior: Posterior, index: np.ndarray) -> np.ndarray:
    """Class labels of class indices of any shape, of the labels' own type."""
    return np.asarray(posterior.target.to_raw(index.ravel())).reshape(index.shape)


def draws_summary(
    values: np.ndarray, wanted: Wanted, obeying: Bool[np.ndarray, "S b"] | None = None
) -> Summary:
    """Summary of Φ over draws, `(S, b)` or `(S, b, C)`; of the obeying ones where that is given.

    Quantiles of obeying draws are draws themselves, since between two of them may lie a forbidden value.
    """
    if obeying is not None and not obeying.all():
        rows = enumerate(obeying.T)
        parts = [(values[keep, row : row + 1], keep[keep][:, None]) for row, keep in rows]
        return joined([draws_summary(some, wanted, all_obey) for some, all_obey in parts])
    method: Literal["linear", "inverted_cdf"] = "linear" if obeying is None else "inverted_cdf"

    def quantiles_at(levels: tuple[float, ...]) -> np.ndarray:
        return np.moveaxis(np.quantile(values, levels, axis=0, method=method), 0, -1)

    return _summary(values.mean(axis=0), values.std(axis=0), wanted, quantiles_at, partial(shortest, values))


def mixture_summary(
    mixture: Mixture,
    mean: np.ndarray,
    sd: np.ndarray,
    wanted: Wanted,
    allowed: Intervals | None = None,
    units: Units = RAW,
) -> Summary:
    """The summary in raw units of a mixture, whole or restricted, whose mean and spread are known.

    Args:
        mixture: in `units`.
        mean: of what it is a mixture of, raw.
        sd: of that, raw.
        wanted: quantiles and intervals.
        allowed: what it is restricted to, raw; default: nothing.
        units: in which noise is added; default: raw.
    """
    within = None if allowed is None else Intervals(*units.ends(*allowed))

    def raw(values: np.ndarray) -> np.ndarray:
        found = np.asarray(units.raw(values))
        if allowed is None or not units.log:
            return found
        # The log of an end and back may lie beside it.
        return np.stack([nearest_allowed(each, allowed) for each in found.T], axis=1)

    def quantiles_at(levels: tuple[float, ...]) -> np.ndarray:
        return raw(quantiles(mixture, levels, within))

    def interval(coverage: float) -> np.ndarray:
        return raw(shortest_interval(mixture, coverage, within, units.raw if units.log else None))

    return _summary(mean, sd, wanted, quantiles_at, interval)


def _summary(
    mean: np.ndarray,
    sd: np.ndarray,
    wanted: Wanted,
    quantiles_at: Callable[[tuple[float, ...]], np.ndarray],
    interval: Callable[[float], np.ndarray],
) -> Summary:
    """What was asked for of quantiles, with the median, and of the highest-density interval."""
    quantile = median = None
    if wanted.levels:
        both = quantiles_at((*wanted.levels, 0.5))
        quantile, median = both[..., :-1], both[..., -1]
    hdi = None if wanted.coverage is None else interval(wanted.coverage)
    return Summary(mean, sd, wanted.levels, quantile, median, wanted.coverage, hdi)


def shortest(values: np.ndarray, coverage: float) -> np.ndarray:
    """The highest-density interval over the first axis, ends last; one draw alone is its own interval."""
    if len(values) < 3:
        return np.stack([values.min(axis=0), values.max(axis=0)], axis=-1)
    return np.asarray(array_stats.hdi(values, coverage, axis=0))  # type: ignore[no-untyped-call]


def joined(blocks: Sequence[Block]) -> Block:
    """Predictions, or summaries, of successive rows as one."""
    parts: dict[str, Any] = {}
    for each in fields(blocks[0]):
        values = [getattr(block, each.name) for block in blocks]
        if isinstance(values[0], np.ndarray):
            parts[each.name] = np.concatenate(values)
        elif isinstance(values[0], Summary):
            parts[each.name] = joined(values)
    return replace(blocks[0], **parts)  # levels and coverage are the same in all of them


def require_rows(coded: Float[np.ndarray, "n Q"]) -> None:
    """Refuse a table without rows."""
    if not len(coded):
        raise OCBNNError("There are no rows to predict; give a table with at least one.")


def _number_block(
    posterior: Posterior, at: RulesAt, values: Float[np.ndarray, "S b"], wanted: Wanted
) -> Prediction:
    noise, units = posterior.noise(at.coded), Units.of_noise(posterior.target)
    obeying = at.obeying(values)
    function = draws_summary(values, wanted, obeying if at.rules else None)
    mean, epistemic, variance = function.mean, function.sd**2, noise**2
    if units.log:
        # The mean and the variance of each draw's lognormal.
        means = values * np.exp(0.5 * variance)
        variance = means**2 * np.expm1(variance)
        mean = np.where(obeying, means, 0.0).sum(axis=0) / obeying.sum(axis=0)
        epistemic = np.where(obeying, (means - mean) ** 2, 0.0).sum(axis=0) / obeying.sum(axis=0)
    aleatoric = np.where(obeying, variance, 0.0).sum(axis=0) / obeying.sum(axis=0)
    sd = np.sqrt(epistemic + aleatoric)
    there = units.of(values)
    mixture = Mixture(there, noise)
    observation = mixture_summary(mixture, mean, sd, wanted, units=units)
    for row in np.flatnonzero(~obeying.all(axis=0)):  # few: rejection has tried many points
        keep, one = obeying[:, row], slice(row, row + 1)
        some = Mixture(*(each[keep] for each in mixture.at(np.array([row]))))
        _put(observation, int(row), mixture_summary(some, mean[one], sd[one], wanted, units=units))
    point = point_within(at, values, obeying, units) if at.rules else posterior.middle(values)
    return Prediction(point, function, observation, None, epistemic, aleatoric)


def _put(summary: Summary, row: int, other: Summary) -> None:
    """One row's quantiles and interval, taken from a summary of that row alone."""
    for name in ("quantiles", "median", "hdi"):
        values = getattr(summary, name)
        if values is not None:
            values[row] = getattr(other, name)[0]


def _class_block(
    posterior: Posterior, at: RulesAt, values: Float[np.ndarray, "S b C"], wanted: Wanted
) -> Prediction:
    obeying = at.obeying(values)
    function = draws_summary(values, wanted, obeying if at.rules else None)
    allowed = at.classes(all_of_them=False)
    probabilities = function.mean
    if at.rules:
        clipped = at.probabilities(probabilities, allowed, np.ones_like(allowed))
        probabilities = _or_nearest_draw(at, values, obeying, clipped)
    best = np.argmax(np.where(allowed, probabilities, -1.0), axis=1)
    epistemic, aleatoric = entropy_split(values, obeying.astype(float), probabilities)
    return Prediction(labels(posterior, best), function, None, probabilities, epistemic, aleatoric)


def _or_nearest_draw(
    at: RulesAt, values: np.ndarray, some: Bool[np.ndarray, "S b"], predicted: np.ndarray
) -> np.ndarray:
    """What is predicted; where that violates a rule, the nearest of some draws."""
    wrong = at.broken(predicted)
    distance = np.abs(values - predicted)
    if predicted.ndim > 1:
        wrong, distance = wrong[:, None], distance.sum(axis=-1)
    nearest = np.argmin(np.where(some, distance, np.inf), axis=0)
    return np.where(wrong, values[nearest, np.arange(len(predicted))], predicted)


def entropy_split(
    values: Float[np.ndarray, "S b C"],
    weights: Float[np.ndarray, "S b"],
    predicted: Float[np.ndarray, "b C"],
) -> tuple[np.ndarray, np.ndarray]:
    """Mutual information between class and draw, and expected entropy, in nats, of draws with weights.

    Their sum is the entropy of what is predicted: the draws' mean, or that clipped to bounds.
    """
    total = entropy(predicted)
    expected = np.minimum((weights * entropy(values)).sum(axis=0) / weights.sum(axis=0), total)
    return total - expected, expected


def entropy(probabilities: np.ndarray) -> np.ndarray:
    """−Σ_c p_c log p_c over the last axis, in nats."""
    return np.asarray(entr(probabilities).sum(axis=-1))


def point_within(
    at: RulesAt, values: Float[np.ndarray, "S b"], obeying: Bool[np.ndarray, "S b"], units: Units = RAW
) -> Float[np.ndarray, " b"]:
    """The mean, in these units, of the draws that obey; where that violates a rule, of those within the
    allowed component that holds most of them.

    Some rules cannot list the outputs they allow: where the mean of what obeys violates one, the draw nearest
    to that mean is taken.
    """
    allowed = at.intervals(all_of_them=False)
    within = (values[..., None] >= allowed.lower) & (values[..., None] <= allowed.upper) & obeying[..., None]
    largest = np.argmax(within.sum(axis=0), axis=1)
    chosen = np.take_along_axis(within, largest[None, :, None], axis=2)[..., 0]
    chosen = np.where(chosen.any(axis=0), chosen, obeying)
    overall = _mean_of(values, obeying, units)
    mean = np.where(at.broken(overall), _mean_of(values, chosen, units), overall)
    return _or_nearest_draw(at, values, chosen, mean)


def _mean_of(values: Float[np.ndarray, "S b"], some: Bool[np.ndarray, "S b"], units: Units) -> np.ndarray:
    """The mean, in these units, of some draws at each row."""
    return np.asarray(units.raw(np.where(some, units.of(values), 0.0).sum(axis=0) / some.sum(axis=0)))


def _chosen(posterior: Posterior, count: int | None, rows: int, generator: np.random.Generator) -> np.ndarray:
    """Indices of draws: without repetition as long as there are enough."""
    total = len(posterior.flat)
    if count is None:
        return np.arange(total)
    require_count(count, rows + posterior.model.size)
    return generator.choice(total, size=count, replace=count > total)
