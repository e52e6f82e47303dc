"""The interval of a rule about groups counts that their rows are a sample: simulated, and by a naive twin."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from language_schemas import number
from ocbnn.checking.check import as_rule_terms, check_rules
from ocbnn.checking.draws import margins_at
from ocbnn.checking.explain import not_shown_reason
from ocbnn.checking.figures import Figure, share_figure, with_row_errors
from ocbnn.model import Model
from ocbnn.posterior.draws import Posterior
from ocbnn.rules.kinds.parity import RESAMPLES, Parity
from ocbnn.rules.requirement import RAW
from ocbnn.schema import Column, Schema, Target
from posterior_cases import random_posterior

LETTERS = ("a", "b", "c", "d")
SCHEMA = Schema(
    (Column("group", "category", (0.0, 3.0), levels=LETTERS), number("x")),
    Target("y", "regression", center=1.0, scale=2.0, observed=(-3.0, 5.0)),
)
CLASSES = replace(SCHEMA, target=Target("label", "classification", ("no", "yes")))


def cases_of(groups: np.ndarray) -> np.ndarray:
    return np.column_stack([groups, np.zeros(len(groups))])[None]


def naive_errors(groups: np.ndarray, answers: np.ndarray, count: int) -> np.ndarray:
    """One bootstrap sample after the other, one draw after the other, one pair of groups after the other."""
    generator, found = np.random.default_rng(99), np.zeros((count, len(answers)))
    for sample in range(count):
        errors = []
        for group in np.unique(groups):
            members = np.flatnonzero(groups == group)
            chosen = generator.choice(members, size=max(len(members) - 1, 1), replace=True)
            errors.append([answer[chosen].mean() - answer[members].mean() for answer in answers])
        for one, other in combinations(errors, 2):
            found[sample] = np.maximum(found[sample], np.abs(np.subtract(one, other)))
    return found


def test_errors_of_rows_are_those_of_a_naive_twin() -> None:
    generator = np.random.default_rng(0)
    groups = np.repeat([0.0, 1.0, 3.0], [60, 12, 4])
    answers = generator.normal(size=(3, len(groups))) + groups * np.array([[0.0], [0.3], [1.0]])
    kind = Parity((), "group", 0.5)
    demand = kind.demand(cases_of(groups), SCHEMA, RAW)
    samples = [kind.row_errors(demand, answers[:, None], np.random.default_rng(seed)) for seed in range(10)]
    fast, naive = np.concatenate(samples)[..., 0], naive_errors(groups, answers, 10 * RESAMPLES)
    assert fast.shape == naive.shape
    error = naive.std(axis=0) * math.sqrt(2 / len(naive))
    assert (np.abs(fast.mean(axis=0) - naive.mean(axis=0)) < 4 * error).all()
    for quantile in (0.5, 0.95):
        assert np.allclose(*(np.quantile(each, quantile, axis=0) for each in (fast, naive)), rtol=0.1)
    # Draws see the same rows: their errors move together as those of the naive twin do.
    assert np.allclose(np.corrcoef(fast.T), np.corrcoef(naive.T), atol=0.1)


def test_errors_of_two_groups_vary_as_much_as_the_closed_form_says() -> None:
    generator = np.random.default_rng(1)
    groups, answers = np.repeat([0.0, 1.0], [7, 30]), generator.normal(size=(1, 37))
    kind = Parity((), "group", 1.0)
    found = kind.row_errors(kind.demand(cases_of(groups), SCHEMA, RAW), answers[:, None], generator)
    variance = answers[0, :7].var(ddof=1) / 7 + answers[0, 7:].var(ddof=1) / 30
    assert (found**2).mean() == pytest.approx(variance, rel=4 * math.sqrt(2 / RESAMPLES))


def test_one_row_shows_no_error() -> None:
    kind, answers = Parity((), "group", 1.0), np.array([[[3.0, 9.0]]])
    demand = kind.demand(cases_of(np.array([0.0, 1.0])), SCHEMA, RAW)
    assert (kind.row_errors(demand, answers, np.random.default_rng(0)) == 0).all()


def interval_of_rows(kind: Parity, groups: np.ndarray, answers: np.ndarray, seed: int) -> Figure:
    """What rows alone leave open of the share of draws that violate."""
    demand = kind.demand(cases_of(groups), SCHEMA, RAW)
    margins = kind.margin(demand, answers[:, None])
    errors = kind.row_errors(demand, answers[:, None], np.random.default_rng(seed))
    value = float((margins > 0).mean())
    shares = np.stack([(margins + sign * errors > 0)[..., 0].mean(axis=1) for sign in (-1.0, 1.0)])
    return with_row_errors(Figure(value, value, value, np.nan), shares)


SETTINGS = {
    "two groups apart": ((0.0, 0.5), 0.5, 0.2),
    "two equal groups, hardly a difference accepted": ((0.0, 0.0), 0.02, 0.02),
    "two equal groups, draws that disagree": ((0.0, 0.0), 0.2, 0.2),
    "four equal groups": ((0.0, 0.0, 0.0, 0.0), 0.2, 0.05),
    "four groups, two of them apart": ((0.0, 0.0, 0.3, 0.3), 0.3, 0.2),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_intervals_hold_the_share_of_the_population_in_95_of_100_samples_of_rows(name: str) -> None:
    """Draw s says effect[g] + shift[s, g] + noise of the row: its difference in the population is known."""
    effects, accepted, spread = SETTINGS[name]
    kind, samples, each = Parity((), "group", accepted), 400, 40
    generator = np.random.default_rng(3)
    means = np.asarray(effects) + spread * generator.normal(size=(60, len(effects)))
    true = float((np.ptp(means, axis=1) > accepted).mean())
    groups = np.repeat(np.arange(len(effects), dtype=float), each)
    held = 0
    for sample in range(samples):
        answers = np.repeat(means, each, axis=1) + generator.normal(size=len(groups))
        figure = interval_of_rows(kind, groups, answers, sample)
        held += figure.low <= true <= figure.high
    assert held / samples >= 0.95 - norm.ppf(0.999) * math.sqrt(0.95 * 0.05 / samples)


def posterior_and_rows(schema: Schema, each: int) -> Posterior:
    """Draws of lines, with a table in which the groups have a mean of x of their own."""
    generator = np.random.default_rng(7)
    groups = np.repeat(np.arange(4), each)
    x = np.clip(generator.normal(size=4 * each), -3, 3)
    frame = pd.DataFrame({"group": np.array(LETTERS)[groups], "x": x})
    target = schema.target
    frame[target.name] = generator.choice(target.classes, len(x)) if target.classes else x
    model = Model.build(frame=frame, schema=schema, hidden=())
    return random_posterior(model, (2, 100), seed=1, spread=0.3)


@pytest.mark.parametrize(
    ("schema", "rule"),
    [
        (SCHEMA, "always mean y is equal over group within 1"),
        (CLASSES, "always mean P(label = yes) is equal over group within 0.1"),
        (CLASSES, "always share P(label = yes) > 0.5 is equal over group within 0.25"),
    ],
)
def test_a_check_counts_rows_and_more_of_them_narrow_its_interval(schema: Schema, rule: str) -> None:
    widths = []
    for each in (10, 100, 400):
        drawn = posterior_and_rows(schema, each)
        checks = check_rules(drawn, [rule])
        check = checks[0]
        figure = check.violation
        (term,) = as_rule_terms(drawn, [rule])
        share = (margins_at(drawn, drawn.flat, term, term.fresh(1, 0)) > 0).mean()
        assert check.points == 4 * each
        assert figure.value == share  # the estimate is that of the rows as they are
        of_draws = share_figure(
            (margins_at(drawn, drawn.flat, term, term.fresh(1, 0)) > 0).reshape(2, 100).astype(float),
            drawn.mask,
            has_chains=True,
        )
        assert figure.low <= of_draws.low <= figure.value <= of_draws.high <= figure.high
        assert check.counts_rows
        assert "the rows are a sample" in str(check)
        assert "and the rows of the groups: draw more, give more rows, or raise" in not_shown_reason(
            term, check
        )
        assert checks.overall.epsilon_mean == figure  # one rule alone is all rules
        assert checks.overall.draws_violating == check.draws_violating
        assert check_rules(drawn, [rule])[0].violation == figure
        widths.append(figure.high - figure.low)
    assert widths[0] > widths[1] > widths[2]


def test_other_rules_count_no_rows() -> None:
    drawn = posterior_and_rows(SCHEMA, 10)
    both = check_rules(drawn, ["always y <= 3", "always mean y is equal over group within 1"])
    assert [each.counts_rows for each in (*both, both.overall)] == [False, True, True]
    alone = check_rules(drawn, ["always y <= 3"])
    assert not alone.overall.counts_rows
    assert "sample" not in str(alone)
