import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta

from lint_cases import CLINIC, COLOURS, LINE, linted
from ocbnn.errors import SchemaError
from ocbnn.linting import lint
from ocbnn.regions import Box, Interval
from ocbnn.rules.constraint import Constraint


def line(x, y, index=None):
    return pd.DataFrame({"x": np.asarray(x, float), "z": 0.0, "y": np.asarray(y, float)}, index=index)


def conflicts(*texts, schema=LINE, data):
    return [
        finding for finding in linted(*texts, schema=schema, data=data) if finding.kind == "data-conflict"
    ]


def test_rows_outside_an_interval_are_counted_over_the_rows_in_the_region():
    data = line([-1, 1, 1, 1, 2], [0, 0, 1, 2, 0.5], index=list("abcde"))
    (finding,) = conflicts("if x > 0 then y >= 1", data=data)
    assert (finding.severity, finding.count, finding.share, finding.rows) == ("warning", 2, 0.5, ("b", "e"))
    assert finding.witness == {"x": 1.0, "z": 0.0}
    assert conflicts("if x > 0 then y >= 0", data=data) == []
    assert conflicts("if x > 5 then y >= 100", data=data) == []


def test_only_the_first_ten_rows_are_named():
    (finding,) = conflicts(
        "if x > 0 then y >= 1", data=line(np.ones(25), np.zeros(25), index=range(100, 125))
    )
    assert (finding.count, finding.rows) == (25, tuple(range(100, 110)))


def test_the_index_may_hold_anything_and_repeat():
    data = line([1, 1], [0, 0], index=pd.MultiIndex.from_tuples([("p", 1), ("p", 1)]))
    (finding,) = conflicts("if x > 0 then y >= 1", data=data)
    assert finding.rows == (("p", 1), ("p", 1))


def test_ends_of_intervals_and_margins_are_obeyed():
    assert conflicts("if x > 0 then 1 < y < 2", data=line([1, 1], [1, 2])) == []
    assert conflicts("if x > 0 then y = x within 0.5", data=line([1, 1], [0.5, 1.5])) == []
    (finding,) = conflicts("if x > 0 then y = x within 0.5", data=line([1, 1, 1], [0.49, 1.2, 1.51]))
    assert finding.rows == (0, 2)
    (finding,) = conflicts("if x > 0 then y = 1 or y = 3", data=line([1, 1, 1], [1.05, 2, 2.95]))
    assert finding.rows == (1,)


def test_labels_that_are_not_allowed_break_class_rules():
    data = pd.DataFrame({"x": [1.0, 1.0, -1.0], "z": 0.0, "label": ["red", "blue", "blue"]})
    (finding,) = conflicts("if x > 0 then label = red", schema=COLOURS, data=data)
    assert (finding.count, finding.share, finding.rows) == (1, 0.5, (1,))
    assert conflicts("if x > 0 then label in {blue, red}", schema=COLOURS, data=data) == []


def test_rules_given_as_functions_are_held_against_rows():
    rule = Constraint.from_functions(Box({"x": Interval(0, 9)}), lambda x, y: y - x["x"], name="below")
    (finding,) = lint([rule], LINE, line([1, 2, -1], [2, 1, 9]))
    assert (finding.kind, finding.rows) == ("data-conflict", (0,))


def test_rows_at_which_the_output_is_not_defined_are_left_out():
    data = line([0.5, 1.5, 2.5, 2.5], [0, 0, 0, 1])
    found = conflicts("if x > 0 then y >= log(x - 1)", data=data)
    assert [finding.rows for finding in found] == [(2,)]


def coins(hits, rows):
    return pd.DataFrame({"x": 1.0, "z": 0.0, "label": ["red"] * hits + ["blue"] * (rows - hits)})


def test_frequencies_are_compared_with_a_clopper_pearson_interval():
    hits, rows = 30, 60
    low = float(beta.ppf(0.005, hits, rows - hits + 1))
    high = float(beta.ppf(0.995, hits + 1, rows - hits))
    for bound, expected in ((high - 1e-6, 0), (high + 1e-6, 1)):
        found = conflicts(
            f"if x > 0 then P(label = red) >= {bound!r}", schema=COLOURS, data=coins(hits, rows)
        )
        assert len(found) == expected
    for bound, expected in ((low + 1e-6, 0), (low - 1e-6, 1)):
        found = conflicts(
            f"if x > 0 then P(label = red) <= {bound!r}", schema=COLOURS, data=coins(hits, rows)
        )
        assert len(found) == expected
    assert conflicts("if x > 0 then P(label = red) = 0.6", schema=COLOURS, data=coins(hits, rows)) == []
    (finding,) = conflicts("if x > 0 then P(label = red) = 0.9", schema=COLOURS, data=coins(hits, rows))
    assert (finding.count, finding.share, finding.rows) == (30, 0.5, ())


def test_probabilities_say_nothing_about_few_rows():
    assert conflicts("if x > 0 then P(label = red) >= 0.9", schema=COLOURS, data=coins(0, 29)) == []
    assert len(conflicts("if x > 0 then P(label = red) >= 0.9", schema=COLOURS, data=coins(0, 30))) == 1


def test_bounds_that_depend_on_x_are_averaged_over_the_rows():
    data = coins(50, 100).assign(x=np.r_[np.full(50, 0.1), np.full(50, 0.9)])
    assert conflicts("if x > 0 then P(label = red) = x", schema=COLOURS, data=data) == []
    assert len(conflicts("if x > 0 then P(label = red) = x / 10", schema=COLOURS, data=data)) == 1


def test_each_class_of_a_categorical_distribution_is_compared():
    rule = "if x > 0 then label ~ Categorical(red: 0.5, blue: 0.1, green: 0.4)"
    found = conflicts(rule, schema=COLOURS, data=coins(50, 100))
    assert [finding.text.split("asks for ")[1].split(" of ")[0] for finding in found] == [
        "P(label = blue)",
        "P(label = green)",
    ]


def test_rows_that_are_not_distributed_as_said_are_a_conflict():
    y = np.random.default_rng(0).normal(3, 0.5, size=200)
    assert conflicts("if x > 0 then y ~ Normal(3, 0.5)", data=line(np.ones(200), y)) == []
    assert len(conflicts("if x > 0 then y ~ Normal(2, 0.5)", data=line(np.ones(200), y))) == 1
    assert len(conflicts("if x > 0 then y ~ Normal(3, 2)", data=line(np.ones(200), y))) == 1
    assert conflicts("if x > 0 then y ~ Normal(2, 0.5)", data=line(np.ones(20), y[:20])) == []


@pytest.mark.parametrize("missing", ["x", "y"])
def test_a_table_without_a_column_or_the_target_is_a_schema_error(missing):
    with pytest.raises(SchemaError, match=missing):
        linted("if x > 0 then y >= 1", data=line([1], [1]).drop(columns=missing))


def test_an_unknown_label_and_a_missing_target_are_schema_errors():
    with pytest.raises(SchemaError, match="purple"):
        linted("if x > 0 then label = red", schema=COLOURS, data=coins(1, 2).assign(label="purple"))
    with pytest.raises(SchemaError):
        linted("if x > 0 then y >= 1", data=line([1], [np.nan]))


def test_a_table_without_rows_conflicts_with_nothing():
    assert linted("if x > 0 then y >= 1", data=line([], [])) == ()


def test_a_mixed_table_is_read_in_raw_units():
    data = pd.DataFrame(
        {
            "age": [70, 71, 30],
            "lactate": [5.0, 6.0, 1.0],
            "creatinine": 1.0,
            "urine": 20.0,
            "visits": 1,
            "ventilated": [True, True, False],
            "ward": ["ICU", "surgery", "ICU"],
            "sex": "female",
            "action": [0, 1, 0],
        }
    )
    (finding,) = conflicts(
        "if lactate > 4 and ventilated = 1 and ward in {ICU, surgery} then action = 1",
        schema=CLINIC,
        data=data,
    )
    assert (finding.count, finding.share, finding.rows) == (1, 0.5, (0,))
    assert finding.witness["ward"] == "ICU"
    assert finding.witness["age"] == 70
