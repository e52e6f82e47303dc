"""What rules allow: against a fine grid."""

from __future__ import annotations

import numpy as np

from ocbnn.posterior.allowed import RulesAt
from ocbnn.rules.parse import parse_rule
from posterior_cases import CLASS_RULES, NUMBER_RULES, class_schema, number_schema


def test_clipping_to_several_bounds_moves_probabilities_no_further_than_the_best_of_a_fine_grid():
    schema = class_schema()
    rules = [parse_rule(text, schema) for text in CLASS_RULES["overlapping bounds"]]
    coded = np.array([[1.0, 0.0]])
    steps = np.linspace(0, 1, 101)
    grid = np.array([(a, b, 1 - a - b) for a in steps for b in steps if a + b <= 1 + 1e-12])
    everywhere = np.repeat(coded, len(grid), axis=0)
    feasible = grid[~RulesAt(rules, schema, everywhere).broken(np.clip(grid, 0, 1))]
    assert len(feasible)
    start = np.array([[0.05, 0.05, 0.9]])
    found = RulesAt(rules, schema, coded).probabilities(start, np.ones((1, 3), bool))
    assert not RulesAt(rules, schema, coded).broken(found).any()
    best = np.abs(feasible - start).sum(axis=1).min()
    # The grid misses the best by at most twice its step in two coordinates; bounds are kept with a margin.
    assert best - 0.04 < np.abs(found - start).sum() <= best + 1e-8


def test_what_all_rules_allow_is_the_intersection_on_a_fine_grid():
    schema = number_schema()
    rules = [parse_rule(text, schema) for text in NUMBER_RULES["overlapping"]]
    coded = np.linspace(-2, 2, 9)[:, None]
    allowed = RulesAt(rules, schema, coded).intervals()
    y = np.linspace(-1, 5, 2003)
    inside = ((y[:, None, None] >= allowed.lower) & (y[:, None, None] <= allowed.upper)).any(axis=-1)
    expected = np.ones_like(inside)
    for rule in rules:
        applies = rule.region.contains(coded, schema)
        values = np.broadcast_to(y[:, None], inside.shape)
        expected &= ~applies | ~(np.asarray(rule.requirement.margin(rule.demand(coded, schema), values)) > 0)
    np.testing.assert_array_equal(inside, expected)
