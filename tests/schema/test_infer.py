"""What a table is taken for: kinds, ranges, tasks, and what the user may declare."""

import datetime
import decimal
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ocbnn import Schema, SchemaError


def infer(values, **declared):
    """The one column of a table of one column."""
    columns = {"c": declared} if declared else {}
    return Schema.infer(pd.DataFrame({"c": values}), columns=columns).column("c")


def objects(*values):
    return np.array(values, dtype=object)


KINDS = {
    "floats": ([1.5, 2.0, 3.0], "continuous"),
    "whole floats": ([1.0, 2.0, 3.0], "continuous"),
    "whole floats with gaps, as pandas stores integers": ([1.0, math.nan, 3.0], "integer"),
    "float32": (np.array([1.5, 2.5], dtype=np.float32), "continuous"),
    "integers": ([1, 2, 3], "integer"),
    "uint8": (np.array([1, 2, 3], dtype=np.uint8), "integer"),
    "0 and 1": ([0, 1, 1], "binary"),
    "0.0, 1.0 and missing": ([0.0, 1.0, math.nan], "binary"),
    "only 0": ([0, 0], "integer"),
    "bool": ([True, False], "binary"),
    "only False": ([False, False], "binary"),
    "text": (["ICU", "ward"], "category"),
    "empty text": (["", ""], "category"),
    "Int64": (pd.array([1, None, 3], dtype="Int64"), "integer"),
    "Int64 of 0 and 1": (pd.array([1, None, 0], dtype="Int64"), "binary"),
    "Float64": (pd.array([1.5, None, 3], dtype="Float64"), "continuous"),
    "boolean": (pd.array([True, None, False], dtype="boolean"), "binary"),
    "string": (pd.array(["a", None, "b"], dtype="string"), "category"),
    "Arrow int64": (pd.array([1, None, 3], dtype="int64[pyarrow]"), "integer"),
    "Arrow double": (pd.array([1.5, None, 3], dtype="double[pyarrow]"), "continuous"),
    "Arrow bool": (pd.array([True, None, False], dtype="bool[pyarrow]"), "binary"),
    "Arrow string": (pd.array(["a", None, "b"], dtype="string[pyarrow]"), "category"),
    "object numbers": (objects(1, 2.5, None), "continuous"),
    "object integers": (objects(1, 2, None), "integer"),
    "object bools": (objects(True, False, None), "binary"),
    "object text": (objects("a", "b", None), "category"),
    "decimals": (objects(decimal.Decimal("1.5"), decimal.Decimal(2)), "continuous"),
    "category of text": (pd.Categorical(["b", "a", None]), "category"),
    "category of integers": (pd.Categorical([3, 1]), "category"),
    "category of bools": (pd.Categorical([True, False]), "category"),
    "sparse": (pd.arrays.SparseArray([0, 0, 5.5]), "continuous"),
}


@pytest.mark.parametrize(("values", "kind"), KINDS.values(), ids=KINDS)
def test_kind_follows_values_whatever_the_dtype(values, kind):
    assert infer(values).kind == kind


@pytest.mark.parametrize(("values", "kind"), KINDS.values(), ids=KINDS)
def test_missing_values_are_counted(values, kind):
    assert infer(values).missing == pd.Series(values).isna().sum()


def test_arrow_nan_counts_as_missing_like_na():
    import pyarrow

    values = pd.Series(pd.arrays.ArrowExtensionArray(pyarrow.array([1.5, math.nan, None])))
    assert infer(values).missing == 2


REFUSED = {
    "dates": (pd.date_range("2020", periods=2), "dt.days"),
    "zoned dates": (pd.date_range("2020", periods=2, tz="UTC"), "dt.days"),
    "date objects": (objects(datetime.date(2020, 1, 1), None), "dt.days"),
    "Arrow dates": (pd.array([datetime.date(2020, 1, 1)], dtype="date32[pyarrow]"), "dt.days"),
    "dates as categories": (pd.Categorical(pd.date_range("2020", periods=2)), "dt.days"),
    "durations": (pd.to_timedelta([1, 2], unit="D"), "dt.days"),
    "periods": (pd.period_range("2020", periods=2, freq="M"), "dt.days"),
    "clock times": (objects(datetime.time(1), datetime.time(2)), "Dates and durations"),
    "complex": ([1j, 2j], "real and imaginary"),
    "lists": (pd.Series([[1], [2]]), r"row 0, a list"),
    "bytes": (pd.Series([b"a", b"b"]), "bytes"),
    "intervals": (pd.cut([1, 2, 3], 2), "Interval"),
    "numbers as text": (["1", "2.5"], "pandas.to_numeric"),
    "text and numbers": (objects(1, "a"), r"1 in row 0, 'a' in row 1"),
    "bools and numbers": (objects(True, 2), r"True in row 0, 2 in row 1"),
    "categories of text and numbers": (pd.Categorical(objects(1, "a")), "mixes"),
    "identifiers": ([f"patient-{i}" for i in range(101)], "101 different texts"),
    "nothing": ([None, None], "no value in any row"),
    "NaN only": ([math.nan, math.nan], "no value in any row"),
    "infinity": ([1.0, math.inf], "infinite in row 1"),
    "integers float64 cannot hold": ([1, 2**53 + 2], "2\\^53"),
    "integers beyond all floats": (objects(1, 10**400), "infinite in row 1"),
}


@pytest.mark.parametrize(("values", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_column_is_refused_with_the_reason(values, said):
    with pytest.raises(SchemaError, match=said) as refusal:
        infer(values)
    assert "'c'" in str(refusal.value)


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (pd.DataFrame(), "no rows"),
        (pd.DataFrame({"c": []}), "no rows"),
        (pd.DataFrame(index=[0, 1]), "at least one input column"),
        (pd.DataFrame([[1, 2]], columns=["c", "c"]), "several columns named 'c'"),
        (pd.DataFrame([[1, 2]]), r"columns.map\(str\)"),
        (pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")])), r"columns.map\(str\)"),
        ([[1, 2]], "not a list"),
    ],
    ids=["empty", "no rows", "no columns", "duplicates", "integer names", "tuple names", "no frame"],
)
def test_what_is_no_table_is_refused_with_the_reason(frame, said):
    with pytest.raises(SchemaError, match=said):
        Schema.infer(frame)


def test_one_outlier_does_not_stretch_the_observed_range():
    values = np.append(np.linspace(0, 1, 999), 50_708.0)
    low, high = infer(values).observed
    assert 0 <= low < 0.01
    assert 0.99 < high <= 1


@pytest.mark.parametrize("rows", [1, 2, 6, 200])
def test_observed_range_of_a_small_table_is_all_of_it(rows):
    values = np.random.default_rng(rows).normal(size=rows)
    assert infer(values).observed == (values.min(), values.max())


def test_observed_range_of_integers_is_integers_that_occur():
    values = 10 * np.random.default_rng(0).integers(0, 100, 1000)
    low, high = infer(values).observed
    assert low in values
    assert high in values
    assert (values < low).sum() <= 5
    assert (values > high).sum() <= 5


def test_a_rare_one_is_within_the_observed_range_of_a_binary():
    assert infer([0] * 9_999 + [1]).observed == (0, 1)
    assert infer([False] * 5).observed == (0, 0)


def test_a_category_dtype_keeps_its_order_and_unused_levels():
    values = pd.Categorical(["high", "low"], categories=["low", "middle", "high"], ordered=True)
    assert infer(values).levels == ("low", "middle", "high")


def test_levels_are_sorted_python_labels():
    levels = infer(np.array([3, 1, 2]), kind="category").levels
    assert levels == (1, 2, 3)
    assert all(type(level) is int for level in levels)
    assert infer([2.0, 1.0, math.nan], kind="category").levels == (1, 2)
    assert infer(["b", "a"]).levels == ("a", "b")


def test_defaults_of_transforms():
    assert infer([1.5, 2.0]).transform == "standardize"
    assert infer([1, 2]).transform == "standardize"
    assert infer([0, 1]).transform == "none"
    assert infer(["a", "b"]).transform == "none"


def test_scaling_is_mean_and_standard_deviation():
    values = np.random.default_rng(1).normal(3, 7, 100)
    column = infer(values)
    assert column.center == pytest.approx(values.mean(), rel=1e-14)
    assert column.scale == pytest.approx(values.std(), rel=1e-14)


@pytest.mark.parametrize("constant", [0.0, 0.1, -1e300, 1e-320])
def test_a_constant_column_has_scale_one(constant):
    column = infer([constant] * 7)
    assert (column.center, column.scale) == (constant, 1.0)


def test_scaling_does_not_overflow():
    column = infer([1e308, -1e308, 1.5e308])
    assert math.isfinite(column.center)
    assert math.isfinite(column.scale)


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.sampled_from(
        ["1", "0", "2.5", "nan", "inf", "yes", b"x", 1j, pd.NA, pd.NaT, math.nan, 10**400, (1,), [1]]
    ),
    st.dates(),
)
SORTS = st.one_of(
    st.lists(ANYTHING, min_size=1, max_size=6),
    st.lists(st.one_of(st.none(), st.floats()), min_size=1, max_size=6),
    st.lists(st.one_of(st.none(), st.integers()), min_size=1, max_size=6),
    st.lists(st.one_of(st.none(), st.text(max_size=2)), min_size=1, max_size=6),
)


@settings(max_examples=200, deadline=None)
@example([None, 8.9e307, 9e307], None)  # their sum overflows
@given(SORTS, st.sampled_from([None, "continuous", "integer", "binary", "category"]))
def test_any_values_give_a_schema_that_reads_them_or_a_schema_error(values, kind):
    frame = pd.DataFrame({"c": pd.Series(values, dtype=object), "t": pd.Series(values, dtype=object)})
    try:
        schema = Schema.infer(frame, target="t", columns={} if kind is None else {"c": {"kind": kind}})
    except SchemaError:
        return
    present = frame[frame["c"].notna()]
    coded = schema.encode(present)
    assert schema.encode(schema.decode(coded)).tolist() == coded.tolist()
    assert np.isfinite(schema.to_model(coded)).all()
    assert len(schema.target.to_model(present["t"])) == len(present)


class TestDeclarations:
    def test_all_options_are_taken_over(self):
        column = infer([1, 2, 3], kind="continuous", unit="mg/dL", bounds=(0, None), transform="none")
        assert (column.kind, column.unit, column.bounds) == ("continuous", "mg/dL", (0, math.inf))
        assert (column.transform, column.center, column.scale) == ("none", 0, 1)

    def test_numbers_as_text_can_be_declared_either_way(self):
        assert infer(["1", "2"], kind="category").levels == ("1", "2")
        assert infer(["1", "2"], kind="integer").observed == (1, 2)
        assert infer(pd.Categorical(["1.5", "2"]), kind="continuous").observed == (1.5, 2)

    def test_declared_levels_make_a_category_and_keep_their_order(self):
        assert infer(["b", "a"], levels=["b", "a", "c"]).levels == ("b", "a", "c")
        assert infer([1, 2], levels=[2, 1]).kind == "category"

    def test_a_log_gives_zeros_a_place_and_a_lower_bound(self):
        column = infer([0.0, 2.0, 8.0], transform="log")
        assert column.offset == 1.0
        assert column.bounds == (0.0, math.inf)
        assert infer([0.0, 0.0], transform="log").offset == 1.0

    def test_asinh_turns_at_the_least_size_observed(self):
        assert infer([0.0, -2.0, 0.5, 100.0], transform="asinh").offset == 0.5
        assert infer([0.0, 0.0], transform="asinh").offset == 1.0
        assert infer([0.0, 3.0], transform="asinh", offset=2).offset == 2.0
        assert infer([0.0, 3.0], transform="asinh").bounds == (-math.inf, math.inf)

    def test_a_declared_offset_lets_a_log_take_negative_values(self):
        column = infer([-1.0, 1.0], transform="log", offset=2)
        assert column.offset == 2.0
        assert -2 < column.bounds[0] < -1.999
        assert np.isfinite(column.to_model(np.array([column.bounds[0]]))).all()

    @pytest.mark.parametrize(
        ("values", "declared", "said"),
        [
            ([1.5], {"trnasform": "log"}, "Did you mean 'transform'"),
            ([1.5], {"transform": "standardise"}, "Did you mean 'standardize'"),
            ([1.5], {"kind": "catgory"}, "Did you mean 'category'"),
            ([1.5], {"kind": ["category"]}, "cannot be the kind"),
            ([1.5], {"unit": 3}, "unit of column 'c' is text"),
            ([1.5], {"bounds": (3, 1)}, "must not exceed"),
            ([1.5], {"bounds": (math.nan, 1)}, "must not exceed"),
            ([1.5], {"bounds": 5}, "give two numbers"),
            ([1.5, 4.0], {"bounds": (0, 3)}, r"row 1 has 4\.0"),
            ([0, 1], {"bounds": (0, 10)}, "is binary"),
            ([1, 2], {"levels": [1, 2], "kind": "integer"}, "only a category has levels"),
            (["a"], {"levels": "a"}, "give a list"),
            (["a"], {"levels": ["a", "a"]}, "'a' occurs twice"),
            (["a"], {"levels": ["a", 1]}, "mix text and numbers"),
            (["a"], {"levels": ["a", None]}, "None cannot be among"),
            (["a", "b"], {"levels": ["b"]}, "unseen label 'a' in row 0"),
            (["a"], {"transform": "log"}, "takes no transform"),
            (["a"], {"bounds": (0, 1)}, "takes no bounds"),
            ([0, 1], {"transform": "log"}, "is binary"),
            ([1, 1.5], {"kind": "integer"}, r"row 1 has 1\.5"),
            ([1, 2], {"kind": "binary"}, r"row 1 has 2\.0"),
            (["1", "x"], {"kind": "continuous"}, "row 1 has 'x'"),
            ([1.0, None, -1.0], {"transform": "log"}, "negative in row 2.*above 1"),
            ([1.0, None, -1.0], {"transform": "log", "offset": 1}, r"row 2 has -1\.0"),
            ([1.0], {"transform": "log", "bounds": (-5, 5)}, "needs values above -0.5"),
            ([1.0], {"transform": "log", "offset": "much"}, "finite number, not 'much'"),
            ([1.0], {"offset": 1}, "only the transforms 'log' and 'asinh'"),
            ([1.0], {"transform": "asinh", "offset": -1}, "its offset is a positive number, not -1"),
            ([True, False], {"transform": "asinh"}, "is binary"),
        ],
    )
    def test_what_does_not_fit_is_refused_with_the_reason(self, values, declared, said):
        with pytest.raises(SchemaError, match=said):
            infer(values, **declared)

    def test_unknown_columns_are_refused_with_a_suggestion(self):
        frame = pd.DataFrame({"creatinine": [1.5, 2.0]})
        with pytest.raises(SchemaError, match="Did you mean 'creatinine'"):
            Schema.infer(frame, columns={"creatinin": {"unit": "mg/dL"}})
        with pytest.raises(SchemaError, match="give a mapping"):
            Schema.infer(frame, columns={"creatinine": "log"})


class TestTarget:
    FRAME = pd.DataFrame({"x": [0.5, 1.5, 2.5, 3.5], "label": ["b", "a", "b", None], "n": [3, 1, 2, 3]})

    @pytest.mark.parametrize(
        ("values", "task", "classes"),
        [
            (["b", "a", "b"], "classification", ("a", "b")),
            (["1", "0", "1"], "classification", ("0", "1")),
            ([True, False, True], "classification", (False, True)),
            (pd.Categorical(["b", "a", "b"], categories=["b", "a"]), "classification", ("b", "a")),
            ([0.0, 1.0, math.nan], "classification", (0, 1)),
            ([3, 1, 2], "classification", (1, 2, 3)),
            (pd.array([3, None, 2], dtype="Int64"), "classification", (2, 3)),
            ([1, 1, 1], "classification", (1,)),
            ([0.5, 1.0, 2.0], "regression", ()),
            ([1.0, 2.0, 3.0], "regression", ()),
        ],
    )
    def test_task_follows_values(self, values, task, classes):
        target = Schema.infer(pd.DataFrame({"x": [1.5, 2, 3], "t": values}), target="t").target
        assert (target.task, target.classes) == (task, classes)
        assert [type(found) for found in target.classes] == [type(wanted) for wanted in classes]

    def test_many_integers_are_regressed_on(self):
        frame = pd.DataFrame({"x": np.arange(11) + 0.5, "t": np.arange(11)})
        assert Schema.infer(frame, target="t").target.task == "regression"
        assert Schema.infer(frame[:10], target="t").target.task == "classification"

    def test_task_can_be_declared(self):
        target = Schema.infer(self.FRAME, target="n", task="regression").target
        assert (target.task, target.center, target.observed) == ("regression", 2.25, (1, 3))
        assert Schema.infer(self.FRAME, target="x", task="classification").target.classes == (
            0.5,
            1.5,
            2.5,
            3.5,
        )

    def test_a_constant_target_has_scale_one(self):
        target = Schema.infer(pd.DataFrame({"x": [1.5, 2], "t": [2.5, 2.5]}), target="t").target
        assert (target.center, target.scale) == (2.5, 1.0)

    def test_classes_and_unit_can_be_declared(self):
        declared = {"label": {"levels": ["a", "b", "c"], "unit": "grade"}}
        target = Schema.infer(self.FRAME, target="label", columns=declared).target
        assert (target.classes, target.unit) == (("a", "b", "c"), "grade")

    def test_y_declares_the_target_whatever_its_name_unless_a_column_is_called_so(self):
        target = Schema.infer(self.FRAME, target="label", columns={"y": {"unit": "grade"}}).target
        assert (target.name, target.unit) == ("label", "grade")
        with_y = Schema.infer(self.FRAME.assign(y=0.5), target="label", columns={"y": {"unit": "mm"}})
        assert (with_y.target.unit, with_y.column("y").unit) == (None, "mm")

    def test_it_is_not_among_the_columns(self):
        schema = Schema.infer(self.FRAME[["n", "x"]], target="n")
        assert schema.names == ("x",)

    def test_it_can_come_as_a_series(self):
        assert Schema.infer(self.FRAME[["x"]], target=self.FRAME["label"]).target.name == "label"
        assert Schema.infer(self.FRAME[["x"]], target=pd.Series([1, 2, 1, 2])).target.name == "y"

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"target": "lable"}, "Did you mean 'label'"),
            ({"target": "n", "task": "rank"}, "cannot be the task"),
            ({"task": "regression"}, "needs a target"),
            ({"target": "label", "task": "regression"}, "row 0 has 'b'"),
            ({"target": "n", "columns": {"n": {"kind": "integer"}}}, "not an option of column 'n'"),
            ({"target": "n", "task": "regression", "columns": {"n": {"levels": [1]}}}, "has no levels"),
            ({"target": "n", "columns": {"n": {}, "y": {}}}, "declares the target twice, as 'y' and as 'n'"),
            ({"columns": ["n"]}, "a mapping from names to what is declared"),
            ({"columns": "n"}, "a mapping from names to what is declared"),
            ({"target": pd.Series([1, 2], name="x")}, "target and also an input column"),
            ({"target": pd.Series([None, None], name="t")}, "no value in any row"),
        ],
    )
    def test_what_does_not_fit_is_refused_with_the_reason(self, options, said):
        with pytest.raises(SchemaError, match=said):
            Schema.infer(self.FRAME, **options)
