import itertools

import numpy as np
import pytest

from lint_cases import CLINIC, COLOURS, LINE, applies, kinds, linted, row_of, rules_of
from ocbnn.linting import lint
from ocbnn.linting.comparisons import MOST_FINDINGS
from ocbnn.regions import Box, Everywhere, Interval
from ocbnn.rules.constraint import Constraint
from ocbnn.schema import Column, Schema, Target

CONTRADICTING = [
    ("if x > 0 then y >= 1", "if x < 1 then y <= 0"),
    ("if x > 0 then y >= x", "if x > 0 then y <= x - 0.001"),
    ("always y >= x + z", "if x > 0 and z > 0 then y <= 0"),
    ("if x + z > 1 then 1 <= y <= 2", "if x - z > 1 then 2.5 <= y <= 3"),
    ("if x > 0 then not 0 <= y <= 2", "if x > 1 then 0.5 <= y <= 1.5"),
    ("if x > 0 then 2 * y >= 6", "if x > 0 then -y >= -2.9"),
    ("if x > 0 then y = 1 within 0.1", "if x > 0 then y = 1.3 within 0.1"),
    ("if x > 0 then y = x within 0.1", "if x > 0 then y <= -0.2"),
    ("if x > 0 then y = 1 (0.5) or y = 3 (0.5)", "if x > 0 then 1.5 <= y <= 2.5"),
    ("if x = 1 then y >= 1", "if x = 1 then y <= 0"),
    ("if x + z = 1 then y >= 1", "if x + z = 1 then y <= 0"),
    ("if 0.1 * x + 0.3 * z = 0.7 then y >= 1", "if x + 3 * z = 7 then y <= 0"),
]
AGREEING = [
    ("if x > 0 then y >= 1", "if x <= 0 then y <= 0"),
    ("if x > 0 then y >= 1", "if x > 0 then y <= 1"),
    ("if x > 0 then y >= x", "if x > 0 then y <= x"),
    ("if x + z > 1 then y >= 1", "if x + z < 1 then y <= 0"),
    ("if x > 0 and z > 0 then y >= 1", "if x + z < 0 then y <= 0"),
    ("if x > 0 then not 0 <= y <= 2", "if x > 1 then 0.5 <= y <= 2.5"),
    ("if x > 0 then y = 1 within 0.1", "if x > 0 then y = 1.2 within 0.1"),
    ("if 0 <= x <= 1 then y >= x", "if 0 <= x <= 1 then y <= 1"),
    ("if x = 1 then y >= 1", "if x = 2 then y <= 0"),
]


@pytest.mark.parametrize("texts", CONTRADICTING)
def test_rules_that_leave_no_output_contradict_each_other_with_a_witness(texts):
    found = [finding for finding in linted(*texts) if finding.kind == "contradiction"]
    assert [finding.severity for finding in found] == ["error"]
    rules = rules_of(texts, LINE)
    row = row_of(found[0].witness, LINE)
    if "0.1 * x" not in texts[0]:  # there no float lies on both lines
        assert applies(found[0], texts, LINE)
    outputs = np.linspace(-50, 50, 100_001)[:, None]
    broken = [rule.requirement.margin(rule.demand(row, LINE), outputs) > 0 for rule in rules]
    assert np.all(broken[0] | broken[1])


@pytest.mark.parametrize("texts", AGREEING)
def test_rules_that_leave_an_output_do_not(texts):
    assert [kind for kind, _ in kinds(*texts) if kind == "contradiction"] == []


def test_rules_that_only_touch_are_a_warning():
    (finding,) = linted("if x <= 0 then y >= 1", "if x >= 0 then y <= 0")
    assert (finding.kind, finding.severity, finding.witness["x"]) == ("contradiction", "warning", 0.0)
    assert "boundary" in finding.text
    assert kinds("if x + z <= 1 then y >= 1", "if x + z >= 1 then y <= 0") == [("contradiction", "warning")]


def test_rules_on_a_whole_number_they_share_are_an_error():
    schema = Schema(CLINIC.columns, LINE.target)
    (finding,) = linted("if age <= 40 then y >= 1", "if age >= 40 then y <= 0", schema=schema)
    assert (finding.severity, finding.witness["age"]) == ("error", 40)
    assert linted("if age < 40 then y >= 1", "if age >= 40 then y <= 0", schema=schema) == ()
    assert linted("if age < 41 then y >= 1", "if age > 40 then y <= 0", schema=schema) == ()


def test_strict_ends_that_meet_leave_nothing():
    assert kinds("if x > 0 then y > 1", "if x > 0 then y < 1") == [("contradiction", "error")]
    assert kinds("if x > 0 then y > 1", "if x > 0 then y <= 1") == [("contradiction", "error")]
    assert kinds("if x > 0 then y >= 1", "if x > 0 then y <= 1") == []
    assert kinds("if x > 0 then P(label = red) < 1 / 3", "if x > 0 then label = red", schema=COLOURS) == [
        ("contradiction", "error")
    ]


@pytest.mark.parametrize("width", [1e-3, 1e-6, 1e-8])
def test_a_sliver_that_random_points_would_miss_is_found(width):
    texts = (f"if x + z > 1 and x + z < {1 + width!r} then y >= 1", "if x > 0 then y <= 0")
    (finding,) = linted(*texts)
    assert (finding.kind, finding.severity) == ("contradiction", "error")
    assert applies(finding, texts, LINE)
    assert 1 < finding.witness["x"] + finding.witness["z"] < 1 + width


def test_a_sliver_of_a_box_in_which_affine_ends_cross_is_found():
    texts = (
        "if 0 <= x <= 1 and 0 <= z <= 1 then y >= x + z",
        "if 0 <= x <= 1 and 0 <= z <= 1 then y <= 1.999",
    )
    (finding,) = linted(*texts)
    assert finding.witness["x"] + finding.witness["z"] > 1.999
    assert applies(finding, texts, LINE)
    assert linted(texts[0], "if 0 <= x <= 1 and 0 <= z <= 1 then y <= 2") == ()


def test_witnesses_respect_kinds_and_bounds_of_a_mixed_table():
    texts = (
        "if 2 * age - 3 * visits > 150.5 and ward in {medicine, surgery} then action = 1",
        "if lactate + creatinine > 3 and ventilated = 1 and not ward = medicine then action = 0",
    )
    found = [finding for finding in linted(*texts, schema=CLINIC) if finding.kind == "contradiction"]
    (finding,) = found
    assert finding.severity == "error"
    assert isinstance(finding.witness["age"], int)
    assert isinstance(finding.witness["visits"], int)
    assert finding.witness["ward"] == "surgery"
    assert finding.witness["ventilated"] == 1
    assert finding.witness["visits"] >= 0
    assert finding.witness["age"] <= 120
    assert applies(finding, texts, CLINIC)


def test_only_possible_inputs_count():
    assert kinds("if age > 119 then action = 1", "if age >= 120 then action = 0", schema=CLINIC) == [
        ("contradiction", "error"),
        ("unobserved", "warning"),
        ("unobserved", "warning"),
    ]
    # Beyond 120 the two would contradict each other.
    kinds_found = kinds(
        "if age > 100 then P(action = 1) >= age / 121",
        "if age > 100 then P(action = 0) >= 1 / 121",
        schema=CLINIC,
    )
    assert all(kind != "contradiction" for kind, _ in kinds_found)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("label = red", "label = blue"), True),
        (("label = red", "not label = red"), True),
        (("label in {red, blue}", "label in {green, blue}"), False),
        (("P(label = red) >= 0.9", "P(label = red) <= 0.5"), True),
        (("P(label = red) >= 0.9", "P(label in {blue, green}) >= 0.2"), True),
        (("P(label = red) >= 0.7", "P(label = blue) >= 0.4"), True),
        (("P(label = red) >= 0.6", "P(label = blue) >= 0.4"), False),
        (("P(label = red) >= 0.7", "P(label in {red, blue}) <= 0.6"), True),
        (("P(label in {red, green}) <= 0.4", "P(label in {red, blue}) <= 0.5"), True),
        (("P(label in {red, green}) <= 0.5", "P(label in {red, blue}) <= 0.5"), False),
        (("label = red", "P(label = red) <= 0.3"), True),
        (("label = red", "P(label = red) <= 0.34"), False),
        (("label in {red, blue}", "P(label = green) >= 0.6"), True),
        (("label in {red, blue}", "P(label = green) >= 0.45"), False),
        (("label in {red, green}", "P(label = green) >= 0.9"), False),
        (("P(label = red) = 0.2", "P(label = red) = 0.8"), True),
        (("P(label = red) = 0.5", "P(label = red) = 0.58"), False),
        (("P(label = red) = 0.2", "label = red"), True),
        (("label ~ Categorical(red: 0.5, blue: 0.3, green: 0.2)", "P(label = green) >= 0.5"), True),
        (("label ~ Categorical(red: 0.5, blue: 0.3, green: 0.2)", "label = red"), False),
    ],
)
def test_what_classes_and_probabilities_permit_each_other(texts, expected):
    whole = tuple(f"if x > 0 then {text}" for text in texts)
    found = [finding for finding in linted(*whole, schema=COLOURS) if finding.kind == "contradiction"]
    assert bool(found) is expected
    assert all(applies(finding, whole, COLOURS) for finding in found)


def test_probability_rules_permit_each_other_exactly_when_a_grid_of_the_simplex_says_so():
    steps = 20
    grid = np.array([p for p in itertools.product(range(steps + 1), repeat=3) if sum(p) == steps]) / steps
    sets = ["= red", "= blue", "= green", "in {red, blue}", "in {blue, green}", "in {red, green}"]
    rng = np.random.default_rng(2)
    seen = []
    for _ in range(60):
        texts = []
        for _ in range(2):
            chosen, sign = sets[rng.integers(6)], ("<=", ">=")[rng.integers(2)]
            texts.append(f"if x > 0 then P(label {chosen}) {sign} {rng.integers(1, steps) / steps}")
        rules = rules_of(tuple(texts), COLOURS)
        row = np.array([[1.0, 0.0]])
        fine = [rule.requirement.margin(rule.demand(row, COLOURS), grid[:, None]) <= 1e-9 for rule in rules]
        possible = bool(np.any(fine[0] & fine[1]))
        found = any(finding.kind == "contradiction" for finding in linted(*texts, schema=COLOURS))
        seen.append(possible)
        assert found is not possible, texts
    assert {True, False} <= set(seen)


def test_targets_that_differ_somewhere_contradict_each_other_there():
    texts = ("always P(action = 1) = creatinine / 4", "if creatinine < 4 then P(action = 1) = 0.5")
    (finding,) = linted(*texts, schema=CLINIC)
    assert finding.kind == "contradiction"
    assert abs(finding.witness["creatinine"] / 4 - 0.5) > 0.1
    assert linted(texts[0], "if 1.8 < creatinine < 2.2 then P(action = 1) = 0.5", schema=CLINIC) == ()


def test_a_clipped_target_is_not_taken_beyond_one():
    assert (
        linted("always P(action = 1) = lactate", "if lactate > 1 then P(action = 1) >= 0.95", schema=CLINIC)
        == ()
    )
    assert kinds(
        "always P(action = 1) = lactate", "if lactate > 1 then P(action = 1) <= 0.9", schema=CLINIC
    ) == [("contradiction", "error")]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("label in {red, blue}", "label in {blue, green}", "label in {red, green}"), True),
        (("label in {red, blue}", "label in {blue, green}", "not label = red"), False),
        (("P(label = red) >= 0.5", "P(label = blue) >= 0.4", "P(label = green) >= 0.2"), True),
        (("P(label = red) >= 0.5", "P(label = blue) >= 0.3", "P(label = green) >= 0.2"), False),
        (("P(label = red) <= 0.3", "P(label = blue) <= 0.3", "P(label = green) <= 0.3"), True),
        (("P(label = red) <= 0.4", "P(label = blue) <= 0.3", "P(label = green) <= 0.3"), False),
    ],
)
def test_three_rules_can_contradict_each_other_though_no_two_do(texts, expected):
    whole = tuple(f"if x > {-index} then {text}" for index, text in enumerate(texts))
    found = [finding for finding in linted(*whole, schema=COLOURS) if finding.kind == "contradiction"]
    assert bool(found) is expected
    assert all(len(finding.rules) == 3 and applies(finding, whole, COLOURS) for finding in found)


def test_three_rules_on_y_can_contradict_each_other_where_one_is_a_union():
    texts = ("if x > 0 then y <= 2", "if x > 0 then y >= 1", "if x > 0 then not 0.5 <= y <= 2.5")
    (finding,) = linted(*texts)
    assert finding.rules == texts
    assert linted("if x > 0 then y <= 2", "if x > 0 then y >= 1", "if x > 0 then not 1.5 <= y <= 2.5") == ()


def test_curved_rules_are_compared_at_points():
    texts = ("if 0 < x < 3 then y = sin(x) within 0.1", "if 0 < x < 3 then y >= 1")
    (finding,) = linted(*texts)
    assert np.sin(finding.witness["x"]) < 0.9
    assert applies(finding, texts, LINE)
    assert linted(texts[0], "if 0 < x < 3 then y >= -0.5") == ()
    assert kinds("always x * y >= 0", "if x > 1 then y <= -1") == [("contradiction", "error")]
    assert linted("always x * y >= 0", "if x > 1 then y >= 1") == ()


def test_predicate_regions_are_compared_at_points_they_share():
    texts = ("if x * z > 0.5 and x > 0 then y >= 1", "if x ^ 2 + z ^ 2 < 2 then y <= 0")
    (finding,) = linted(*texts)
    assert (finding.kind, finding.severity) == ("contradiction", "error")
    assert applies(finding, texts, LINE)
    assert linted("if x * z > 0.5 and x > 0 then y >= 1", "if x ^ 2 + z ^ 2 < 0.99 then y <= 0") == ()


def test_functions_from_python_are_searched_and_the_finding_says_so():
    above = Constraint.from_functions(Everywhere(), lambda x, y: 1 - y, name="above")
    below = Constraint.from_functions(Box({"x": Interval(0, 1)}), lambda x, y: y - x["x"] + 0.5, name="below")
    (finding,) = lint([above, below], LINE)
    assert (finding.kind, finding.severity, finding.rules) == ("contradiction", "warning", ("above", "below"))
    assert "not a proof" in finding.text
    (text_rule,) = rules_of(("if x > 0 then y <= 0.5",), LINE)
    assert [f.kind for f in lint([above, text_rule], LINE)] == ["contradiction"]
    (fine,) = rules_of(("if x > 0 then y = 1 within 0.001",), LINE)
    assert lint([above, fine], LINE) == ()


def test_distributions_that_differ_and_values_they_hardly_reach_are_warnings():
    assert kinds("if x > 0 then y ~ Normal(3, 0.5)", "if x > 1 then y ~ Normal(2, 0.5)") == [
        ("contradiction", "warning")
    ]
    assert kinds("if x > 0 then y ~ Normal(3, 0.5)", "if x > 1 then y <= 1") == [("contradiction", "warning")]
    assert linted("if x > 0 then y ~ Normal(3, 0.5)", "if x > 1 then y ~ Normal(3.02, 0.5)") == ()
    assert linted("if x > 0 then y ~ Normal(3, 0.5)", "if x > 1 then y >= 2") == ()


def test_values_that_overlap_have_no_more_mass_than_their_union():
    # At x = 0 it is 0.034, less than the tolerance of 0.05; counted twice it would be more.
    (finding,) = linted("always y ~ Normal(1, 0.5)", "if 0 <= x <= 0.05 then y = x within 0.15 or y = -x")
    assert "hardly any distribution satisfies them all" in finding.text
    assert linted("always y ~ Normal(1, 0.5)", "if 0.7 <= x <= 1 then y = x within 0.15 or y = -x") == ()


@pytest.mark.parametrize("other", ["y >= 1.1", "y = 1.2 within 0.1", "y <= 0.9"])
def test_ends_that_meet_but_for_rounding_agree_where_rules_are_compared_at_points(other):
    assert linted("if sin(x) > 0 then y = 1 within 0.1", f"if x > 0 then {other}") == ()


def test_whole_number_tables_agree_with_enumeration():
    schema = Schema(
        (
            Column("a", "integer", (0.0, 5.0), bounds=(0.0, 5.0)),
            Column("b", "integer", (0.0, 5.0), bounds=(0.0, 5.0)),
            Column("c", "category", (0.0, 1.0), levels=("u", "v")),
        ),
        Target("y", "regression", observed=(-5.0, 5.0)),
    )
    points = np.array(list(itertools.product(range(6), range(6), range(2))), dtype=float)
    rng = np.random.default_rng(3)
    seen = []

    def random_rule():
        p, q, r, s, t = rng.integers(-3, 4, size=5)
        where = f"{p} * a + {q} * b > {r}" + ("" if rng.integers(2) else f" and c = {'uv'[rng.integers(2)]}")
        sign = ("<=", ">=")[rng.integers(2)]
        return f"if {where} then y {sign} {s} * a + {t} * b + {rng.integers(-9, 10)}"

    for _ in range(70):
        texts = (random_rule(), random_rule())
        one, other = rules_of(texts, schema)
        both = points[one.region.contains(points, schema) & other.region.contains(points, schema)]
        demands = one.demand(both, schema), other.demand(both, schema)
        lower = np.maximum(demands[0].lower, demands[1].lower)
        upper = np.minimum(demands[0].upper, demands[1].upper)
        expected = bool(np.any(lower > upper))
        found = any(finding.kind == "contradiction" for finding in lint((one, other), schema))
        seen.append(expected)
        assert found is expected, texts
    assert 7 < sum(seen) < 63


def test_a_flood_of_contradictions_is_cut_and_the_last_finding_says_so():
    texts = [f"if x > {k / 100} then y {'>= 1' if k % 2 else '<= 0'}" for k in range(30)]
    found = [finding for finding in linted(*texts) if finding.kind == "contradiction"]
    assert len(found) == MOST_FINDINGS + 1
    assert "not looked at" in found[-1].text
    few = [finding for finding in linted(*texts[:10]) if finding.kind == "contradiction"]
    assert len(few) == 25


def test_outputs_with_very_many_alternatives_are_judged_at_points():
    gaps = " and ".join(f"not {k} <= y <= {k + 0.5} + x / 100" for k in range(20))
    texts = (f"if 0 < x < 1 then {gaps}", "if 0 < x < 1 then 3.1 <= y <= 3.4")
    (finding,) = linted(*texts)
    assert finding.kind == "contradiction"
    assert applies(finding, texts, LINE)
    assert linted(texts[0], "if 0 < x < 1 then 3.1 <= y <= 3.9") == ()


def test_many_constant_gaps_stay_exact():
    gaps = " and ".join(f"not {k} <= y <= {k + 0.5}" for k in range(20))
    sliver = "x + z > 1 and x + z < 1.000001"
    assert kinds(f"if {sliver} then {gaps}", "if x > 0 then 3.1 <= y <= 3.4") == [("contradiction", "error")]
    assert kinds(f"if {sliver} then {gaps}", "if x > 0 then 3.1 <= y <= 3.6") == []
