"""What one rule costs: against draws of the posterior without it, and where weighted draws cannot say."""

import numpy as np
import pytest

from ocbnn.checking.check import check_rules
from ocbnn.posterior.conflict import compared, log_scores
from ocbnn.posterior.price import RELIABLE, Price, near_rows, prices
from posterior_cases import straight

ROWS = np.linspace(-1.5, 1.5, 40)[:, None]
Y = np.sin(3 * ROWS[:, 0]) - 1.0


def priced(rule: str, **options) -> Price:
    posterior, without = straight(rule, 1.0, **options)
    (found,) = prices(posterior, check_rules(without, posterior.rules), ROWS, Y)
    return found


def test_the_price_is_that_of_draws_of_the_posterior_without_the_rule():
    posterior, without = straight("always y ~ Normal(0.5, 0.3)", 1.0)
    (found,) = prices(posterior, [None], ROWS, Y)
    expected = compared(*(log_scores(each, ROWS, Y) for each in (posterior, without)))
    assert found.pareto <= RELIABLE
    assert found.everywhere.rows == len(ROWS)
    assert found.everywhere.with_rule == pytest.approx(expected.with_rule)
    assert found.everywhere.difference == pytest.approx(expected.difference, abs=0.003)
    assert abs(expected.difference) > 0.01


@pytest.mark.parametrize(("rule", "strength"), [("always y ~ Normal(5, 0.1)", None), ("always y <= 0", 1e6)])
def test_no_price_is_given_where_draws_do_not_reach_what_the_rule_cuts_off(rule, strength):
    found = priced(rule, strength=strength)
    assert found.everywhere is None
    assert found.near is None
    assert found.reason


def test_a_rule_that_is_kept_anyway_costs_exactly_nothing():
    found = priced("always y <= 50")
    assert found.everywhere.difference == 0.0
    assert found.pareto == -np.inf


def test_rows_near_a_rule_are_those_in_its_region_or_a_tenth_of_a_range_away():
    posterior, _ = straight("if x > 0.5 then y <= 50", 1.0)
    near = near_rows(posterior.rules[0], ROWS)
    np.testing.assert_array_equal(near, ROWS[:, 0] >= 0.5 - 0.2)
    (found,) = prices(posterior, [None], ROWS, Y)
    assert found.near.rows == near.sum()
    (few,) = prices(posterior, [None], ROWS[-3:], Y[-3:])
    assert few.near is None
    assert few.everywhere is not None
