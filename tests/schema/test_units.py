"""Raw ↔ coded ↔ model units, both ways, and what is refused on the way."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocbnn import Schema, SchemaError
from ocbnn.schema import Column, Target

EPSILON = np.finfo(np.float64).eps

FRAME = pd.DataFrame(
    {
        "creatinine": [0.8, 2.5, 1.1, 4.0],
        "urine": [50.0, 0.0, 20.0, 80.0],
        "age": [31, 64, 57, 90],
        "ward": ["ICU", "surgery", "ICU", "emergency"],
        "prior": [True, False, False, True],
        "action": [0, 1, 0, 1],
    }
)


@pytest.fixture
def schema():
    return Schema.infer(FRAME, target="action", columns={"urine": {"transform": "log", "unit": "mL/h"}})


def one_column(values, **declared):
    return Schema.infer(pd.DataFrame({"c": values}), columns={"c": declared})


class TestMaps:
    def test_coded_rows_are_raw_numbers_and_level_indices(self, schema):
        expected = [[0.8, 50, 31, 0, 1], [2.5, 0, 64, 2, 0], [1.1, 20, 57, 0, 0], [4.0, 80, 90, 1, 1]]
        np.testing.assert_array_equal(schema.encode(FRAME), expected)

    def test_decode_inverts_encode(self, schema):
        decoded = schema.decode(schema.encode(FRAME))
        pd.testing.assert_frame_equal(decoded, FRAME[list(schema.names)].astype({"prior": np.int64}))

    def test_model_inputs_are_standardised_logged_and_one_hot(self, schema):
        inputs = schema.to_model(schema.encode(FRAME))
        assert inputs.shape == (4, schema.width) == (4, 7)
        logged = np.log(FRAME["urine"].to_numpy() + 10)
        for position, values in [
            (0, FRAME["creatinine"].to_numpy()),
            (1, logged),
            (2, FRAME["age"].to_numpy()),
        ]:
            np.testing.assert_allclose(
                inputs[:, position], (values - values.mean()) / values.std(), rtol=1e-13
            )
        np.testing.assert_array_equal(inputs[:, 3:6], [[1, 0, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0]])
        np.testing.assert_array_equal(inputs[:, 6], [1, 0, 0, 1])

    def test_order_and_other_columns_do_not_matter(self, schema):
        shuffled = FRAME[["prior", "ward", "action", "age", "urine", "creatinine"]].assign(other="?")
        np.testing.assert_array_equal(schema.encode(shuffled), schema.encode(FRAME))

    def test_values_are_the_coded_columns_by_name(self, schema):
        coded = schema.encode(FRAME)
        values = schema.values(coded)
        assert tuple(values) == schema.names
        np.testing.assert_array_equal(values["ward"], [0, 2, 0, 1])

    def test_no_rows_stay_no_rows(self, schema):
        coded = schema.encode(FRAME[:0])
        assert coded.shape == (0, 5)
        assert schema.to_raw(schema.to_model(coded)).shape == (0, 5)
        assert schema.decode(coded).shape == (0, 5)

    @pytest.mark.parametrize(
        "dtype", ["str", "object", "category", "string", "string[pyarrow]"], ids=lambda dtype: dtype
    )
    def test_the_dtype_of_labels_does_not_matter(self, schema, dtype):
        frame = FRAME.assign(ward=FRAME["ward"].astype(dtype))
        np.testing.assert_array_equal(schema.encode(frame), schema.encode(FRAME))

    @pytest.mark.parametrize("dtype", ["float64", "Int64", "int64[pyarrow]", "object", "str"])
    def test_the_dtype_of_numbers_does_not_matter(self, schema, dtype):
        frame = FRAME.assign(
            age=FRAME["age"].astype(dtype), prior=FRAME["prior"].astype(np.int64).astype(dtype)
        )
        np.testing.assert_array_equal(schema.encode(frame), schema.encode(FRAME))

    def test_inputs_between_integers_and_levels_go_to_the_nearest(self, schema):
        inputs = schema.to_model(schema.encode(FRAME))
        np.testing.assert_array_equal(schema.to_raw(inputs + 0.01)[:, 2:], schema.encode(FRAME)[:, 2:])

    def test_a_binary_stays_within_0_and_1(self):
        schema = one_column([0, 1])
        np.testing.assert_array_equal(schema.to_raw(np.array([[-3.0], [7.0]])), [[0.0], [1.0]])

    def test_a_point_between_integers_decodes_as_it_is(self):
        assert one_column([1, 2]).decode(np.array([[1.5]]))["c"].tolist() == [1.5]


NUMBERS = st.floats(-1e12, 1e12, allow_nan=False).map(lambda value: round(value, 6))


class TestRoundTrips:
    @settings(max_examples=100, deadline=None)
    @given(st.lists(NUMBERS, min_size=1, max_size=12), st.sampled_from(["standardize", "none"]))
    def test_continuous_up_to_rounding(self, values, transform):
        schema = one_column(np.array(values), kind="continuous", transform=transform)
        coded = schema.encode(pd.DataFrame({"c": values}))
        column = schema.column("c")
        back = schema.to_raw(schema.to_model(coded))
        allowed = 4 * EPSILON * (np.abs(coded) + abs(column.center) + column.scale)
        assert (np.abs(back - coded) <= allowed).all()

    @settings(max_examples=100, deadline=None)
    @given(st.lists(st.floats(0, 1e12).map(lambda v: round(v, 6)), min_size=1, max_size=12))
    def test_log_up_to_rounding(self, values):
        schema = one_column(np.array(values), kind="continuous", transform="log")
        coded = schema.encode(pd.DataFrame({"c": values}))
        column = schema.column("c")
        back = schema.to_raw(schema.to_model(coded))
        logs = np.abs(np.log(coded + column.offset)) + abs(column.center) + column.scale
        allowed = 8 * EPSILON * (coded + column.offset) * (1 + logs)
        assert (np.abs(back - coded) <= allowed).all()

    @settings(max_examples=100, deadline=None)
    @given(st.lists(NUMBERS, min_size=1, max_size=12))
    def test_asinh_up_to_rounding_and_near_zero_a_line(self, values):
        schema = one_column(np.array(values), kind="continuous", transform="asinh")
        coded = schema.encode(pd.DataFrame({"c": values}))
        column = schema.column("c")
        logs = np.abs(np.arcsinh(coded / column.offset)) + abs(column.center) + column.scale
        allowed = 8 * EPSILON * (np.abs(coded) + column.offset) * (1 + logs)
        assert (np.abs(schema.to_raw(schema.to_model(coded)) - coded) <= allowed).all()
        small = 1e-4 * column.offset
        assert column.transformed(np.array([small]))[0] == pytest.approx(1e-4, rel=1e-6)

    @settings(max_examples=100, deadline=None)
    @given(
        st.lists(st.integers(-(2**49), 2**49), min_size=1, max_size=12),
        st.sampled_from(["standardize", "none"]),
    )
    def test_integers_exactly(self, values, transform):
        schema = one_column(values, kind="integer", transform=transform)
        coded = schema.encode(pd.DataFrame({"c": values}))
        back = schema.to_raw(schema.to_model(coded))
        assert schema.decode(back)["c"].tolist() == values

    @settings(max_examples=50, deadline=None)
    @given(st.lists(st.integers(0, 10**9), min_size=1, max_size=12))
    def test_logged_integers_exactly(self, values):
        schema = one_column(values, kind="integer", transform="log")
        back = schema.to_raw(schema.to_model(schema.encode(pd.DataFrame({"c": values}))))
        assert schema.decode(back)["c"].tolist() == values

    @settings(max_examples=50, deadline=None)
    @given(st.lists(st.booleans(), min_size=1, max_size=12), st.sampled_from(["standardize", "none"]))
    def test_binaries_exactly(self, values, transform):
        schema = one_column(values, transform=transform)
        back = schema.to_raw(schema.to_model(schema.encode(pd.DataFrame({"c": values}))))
        assert schema.decode(back)["c"].tolist() == values

    @pytest.mark.parametrize("levels", [(2**53 + 1, 1.5), (True, 1.5), (2**70, 2**53 + 1)])
    def test_numeric_levels_of_several_types_exactly(self, levels):
        schema = Schema((Column("c", "category", (0, 1), levels=levels),))
        coded = np.array([[1.0], [0.0]])
        assert schema.encode(schema.decode(coded)).tolist() == coded.tolist()
        target = Target("t", "classification", classes=levels)
        assert target.to_model(target.to_raw([1, 0])).tolist() == [1, 0]

    @settings(max_examples=100, deadline=None)
    @given(
        st.one_of(
            st.lists(
                st.text(st.characters(exclude_categories=["Cc", "Cs", "Cn"]), max_size=5),
                min_size=1,
                max_size=12,
            ),
            st.lists(st.integers(-5, 5), min_size=1, max_size=12),
            st.lists(st.floats(-5, 5).map(lambda value: value + 0.0), min_size=1, max_size=12),
        )
    )
    def test_categories_exactly_and_through_json(self, values):
        schema = one_column(pd.Series(values, dtype=object), kind="category")
        coded = schema.encode(pd.DataFrame({"c": pd.Series(values, dtype=object)}))
        assert schema.decode(schema.to_raw(schema.to_model(coded)))["c"].tolist() == values
        assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema

    @settings(max_examples=50, deadline=None)
    @given(st.lists(NUMBERS, min_size=1, max_size=12))
    def test_regression_targets_up_to_rounding(self, values):
        frame = pd.DataFrame({"x": np.ones(len(values)), "t": np.array(values)})
        target = Schema.infer(frame, target="t", task="regression").target
        back = target.to_raw(target.to_model(frame["t"]))
        allowed = 4 * EPSILON * (np.abs(values) + abs(target.center) + target.scale)
        assert (np.abs(back - np.array(values)) <= allowed).all()


class TestRefusals:
    @pytest.mark.parametrize(
        ("column", "value", "said"),
        [
            ("creatinine", math.nan, "'creatinine' has no value in row 2"),
            ("creatinine", math.inf, "'creatinine' is infinite in row 2"),
            ("creatinine", "high", "'creatinine' holds numbers, but row 2 has 'high'"),
            ("age", 57.5, r"'age' holds integers .* row 2 has 57\.5"),
            ("prior", 2, r"'prior' is binary.* row 2 has 2\.0"),
            ("ward", "sugery", "unseen category 'sugery' in row 2.*Did you mean 'surgery'"),
            ("ward", "ER", r"declare all: columns=\{'ward': \{'levels': \[…\]\}\}"),
            ("ward", None, "'ward' has no value in row 2"),
            ("ward", 3, "mixes kinds of values: 'ICU' in row 0, 3 in row 2"),
        ],
    )
    def test_encode_names_column_and_row(self, schema, column, value, said):
        frame = FRAME.astype({column: object})
        frame.loc[2, column] = value
        if column == "creatinine" and value == "high":
            frame[column] = frame[column].map(str)
        if column == "prior":
            frame[column] = frame[column].map(int)
        with pytest.raises(SchemaError, match=said):
            schema.encode(frame)

    def test_rows_are_named_by_position_and_index_label(self, schema):
        frame = FRAME.set_index(pd.Index(["p7", "p8", "p9", "p10"])).assign(
            creatinine=[1, 2, math.nan, math.nan]
        )
        with pytest.raises(SchemaError, match=r"row 2 \(index 'p9'\) and 1 more"):
            schema.encode(frame)

    def test_a_missing_column_is_named_with_a_suggestion(self, schema):
        with pytest.raises(SchemaError, match=r"no column 'creatinine'.*Did you mean 'Creatinine'"):
            schema.encode(FRAME.rename(columns={"creatinine": "Creatinine"}))

    def test_a_column_given_twice_is_refused(self, schema):
        with pytest.raises(SchemaError, match="several columns named 'age'"):
            schema.encode(pd.concat([FRAME, FRAME["age"]], axis=1))

    def test_encode_takes_frames_only(self, schema):
        with pytest.raises(SchemaError, match="not a ndarray"):
            schema.encode(FRAME.to_numpy())

    def test_values_a_log_cannot_take_are_named(self, schema):
        coded = schema.encode(FRAME)
        coded[3, 1] = -10
        with pytest.raises(SchemaError, match=r"'urine' enters as log\(value \+ 10\).*row 3 has -10\.0"):
            schema.to_model(coded)

    @pytest.mark.parametrize("code", [-1, 3, 0.5])
    def test_codes_that_are_no_level_are_named(self, schema, code):
        coded = schema.encode(FRAME)
        coded[1, 3] = code
        for reader in (schema.to_model, schema.decode):
            with pytest.raises(SchemaError, match=r"'ward' has the codes 0 to 2.*row 1"):
                reader(coded)

    @pytest.mark.parametrize("value", [math.nan, math.inf])
    def test_coded_values_are_finite(self, schema, value):
        coded = schema.encode(FRAME)
        coded[1, 2] = value
        with pytest.raises(SchemaError, match=r"'age' is .* in row 1"):
            schema.to_model(coded)

    def test_shapes_are_checked(self, schema):
        with pytest.raises(SchemaError, match=r"shape \(n, 5\), not \(4, 4\)"):
            schema.to_model(np.zeros((4, 4)))
        with pytest.raises(SchemaError, match=r"shape \(n, 7\), not \(7,\)"):
            schema.to_raw(np.zeros(7))


class TestTarget:
    def test_classes_go_to_indices_and_back(self):
        target = Target("label", "classification", classes=("blue", "green"))
        indices = target.to_model(["green", "blue"])
        assert indices.dtype == np.int64
        assert indices.tolist() == [1, 0]
        assert target.to_raw(indices).tolist() == ["green", "blue"]

    def test_labels_keep_their_type(self, schema):
        assert schema.target.to_raw([0, 1]).dtype == np.int64
        assert Target("t", "classification", classes=(False, True)).to_raw([1]).dtype == np.bool_

    def test_regression_is_affine(self):
        target = Target("t", "regression", center=10.0, scale=2.0)
        assert target.to_model([12.0, 10.0]).tolist() == [1.0, 0.0]
        assert target.to_raw([1.0, 0.0]).tolist() == [12.0, 10.0]

    @pytest.mark.parametrize(
        ("values", "said"), [(["red"], "unseen class 'red' in row 0"), (["blue", None], "no value in row 1")]
    )
    def test_unknown_classes_are_refused(self, values, said):
        with pytest.raises(SchemaError, match=said):
            Target("label", "classification", classes=("blue", "green")).to_model(values)

    @pytest.mark.parametrize("index", [2, -1, 0.5])
    def test_indices_of_no_class_are_refused(self, index):
        with pytest.raises(SchemaError, match="class indices 0 to 1"):
            Target("label", "classification", classes=("blue", "green")).to_raw([index])

    def test_missing_and_infinite_numbers_are_refused(self):
        target = Target("t", "regression")
        with pytest.raises(SchemaError, match="'t' has no value in row 1"):
            target.to_model([1.0, math.nan])
        with pytest.raises(SchemaError, match="'t' is infinite in row 0"):
            target.to_model([math.inf])


class TestSchema:
    def test_columns_are_found_by_name(self, schema):
        assert schema.index("age") == 2
        assert schema.column("age").kind == "integer"
        with pytest.raises(SchemaError, match="Did you mean 'age'"):
            schema.column("aeg")

    def test_y_means_the_target_unless_it_is_a_column(self, schema):
        assert schema.is_target("action")
        assert schema.is_target("y")
        assert not schema.is_target("age")
        named_y = Schema.infer(pd.DataFrame({"y": [1.5, 2], "t": [0, 1]}), target="t")
        assert not named_y.is_target("y")
        assert not Schema.infer(FRAME).is_target("y")

    def test_duplicates_and_a_target_among_the_inputs_are_refused(self):
        column = Column("x", "continuous", (0, 1))
        with pytest.raises(SchemaError, match="several columns named 'x'"):
            Schema((column, column), None)
        with pytest.raises(SchemaError, match="target and also an input"):
            Schema((column,), Target("x", "regression"))

    @pytest.mark.parametrize(
        ("make", "said"),
        [
            (lambda: Column("x", "category", (0, 1)), "has no levels"),
            (lambda: Column("x", "continuous", (0, 1), levels=("a",)), "only a category"),
            (lambda: Column("x", "continuous", (0, 1), scale=0), "scale > 0"),
            (lambda: Column("x", "real", (0, 1)), "cannot be the kind"),
            (lambda: Column(3, "continuous", (0, 1)), "names are text"),
            (lambda: Target("t", "classification"), "needs its classes"),
            (lambda: Target("t", "regression", classes=(0, 1)), "has no classes"),
        ],
    )
    def test_impossible_parts_are_refused(self, make, said):
        with pytest.raises(SchemaError, match=said):
            make()

    def test_json_round_trip_is_exact(self, schema):
        text = json.dumps(schema.to_json(), allow_nan=False)
        back = Schema.from_json(json.loads(text))
        assert back == schema
        assert hash(back) == hash(schema)

    def test_a_guessed_kind_takes_any_number_in_a_new_case_and_survives_json(self):
        column = Column("visits", "integer", (0, 9), guessed=True)
        assert column.encode(pd.Series([64.5])) == [64.5]
        assert Column.from_json(json.loads(json.dumps(column.to_json()))) == column

    def test_json_keeps_the_type_of_labels(self):
        frame = pd.DataFrame({"c": pd.Categorical([1.0, 2.0]), "t": [True, False]})
        back = Schema.from_json(json.loads(json.dumps(Schema.infer(frame, target="t").to_json())))
        assert [type(level) for level in back.column("c").levels] == [float, float]
        assert [type(label) for label in back.target.classes] == [bool, bool]

    @pytest.mark.parametrize(
        ("stored", "said"),
        [
            ({}, "two fields 'columns' and 'target'"),
            ([], "two fields 'columns' and 'target'"),
            ({"columns": 3, "target": None}, "are a list"),
            ({"columns": [3], "target": None}, "mapping of its fields"),
            ({"columns": [{"name": "x"}], "target": None}, "incomplete"),
            ({"columns": [{"naem": "x"}], "target": None}, "Did you mean 'name'"),
            (
                {
                    "columns": [{"name": "x", "kind": "continuous", "observed": [0, 1], "scale": "a"}],
                    "target": None,
                },
                "damaged",
            ),
        ],
    )
    def test_a_damaged_file_is_refused_with_the_reason(self, stored, said):
        with pytest.raises(SchemaError, match=said):
            Schema.from_json(stored)


class TestMissingValues:
    GAPS = pd.DataFrame(
        {
            "age": [31.0, np.nan, 57.0, 90.0],
            "dose": [1.0, 10.0, np.nan, np.nan],
            "prior": [True, None, False, True],
            "ward": ["ICU", None, "ICU", "ER"],
            "weight": [70.0, 80.0, 65.0, 90.0],
        }
    )

    @pytest.fixture
    def gaps(self):
        declared = {"dose": {"transform": "log", "offset": 1.0}, "prior": {"kind": "binary"}}
        return Schema.infer(self.GAPS, columns=declared, missing="indicator")

    def test_model_inputs_are_those_of_the_mean_beside_a_column_that_says_what_was_missing(self, gaps):
        filled = self.GAPS.assign(
            age=self.GAPS["age"].fillna(self.GAPS["age"].mean()),
            dose=self.GAPS["dose"].fillna(self.GAPS["dose"].mean()),
            prior=[1.0, 2 / 3, 0.0, 1.0],
        )
        columns = []
        for name in ("age", "dose", "prior"):
            column = gaps.column(name)
            values = np.log(filled[name] + 1) if name == "dose" else filled[name].astype(float)
            columns += [(values - column.center) / column.scale, self.GAPS[name].isna()]
        columns += [self.GAPS["ward"] == "ER", self.GAPS["ward"] == "ICU", self.GAPS["ward"].isna()]
        weight = self.GAPS["weight"]
        columns.append((weight - weight.mean()) / weight.std(ddof=0))
        inputs = gaps.to_model(gaps.encode(self.GAPS))
        np.testing.assert_allclose(inputs, np.column_stack(columns).astype(float), rtol=1e-13)
        assert gaps.width == inputs.shape[1] == 10

    def test_the_center_is_the_mean_of_what_is_there(self, gaps):
        assert gaps.column("age").center == gaps.column("age").mean == pytest.approx(178 / 3)
        assert [column.missing for column in gaps.columns] == [1, 2, 1, 1, 0]
        assert gaps.with_indicator == ("age", "dose", "prior", "ward")

    def test_model_inputs_go_back_with_their_gaps(self, gaps):
        coded = gaps.encode(self.GAPS)
        np.testing.assert_allclose(gaps.to_raw(gaps.to_model(coded)), coded, rtol=1e-12)
        decoded = gaps.decode(coded)
        assert decoded["ward"].fillna("none").tolist() == ["ICU", "none", "ICU", "ER"]
        assert np.array_equal(decoded["age"].isna(), self.GAPS["age"].isna())
        assert gaps.complete(coded).tolist() == [True, False, False, False]

    def test_a_stored_schema_keeps_its_indicators(self, gaps):
        assert Schema.from_json(json.loads(json.dumps(gaps.to_json()))) == gaps

    def test_a_value_missing_in_a_column_that_was_complete_is_refused_with_its_row(self, gaps):
        with pytest.raises(SchemaError, match=r"'weight' has no value in row 1.*missing='indicator'"):
            gaps.encode(self.GAPS.assign(weight=[1.0, np.nan, 2.0, 3.0]))
        with pytest.raises(SchemaError, match="'weight' is nan in row 0"):
            gaps.to_model(np.array([[1.0, 1.0, 1.0, 0.0, np.nan]]))

    def test_an_unseen_label_beside_a_gap_is_refused_with_its_row(self, gaps):
        with pytest.raises(SchemaError, match="unseen category 'lab' in row 2"):
            gaps.encode(self.GAPS.assign(ward=[None, "ICU", "lab", "ER"]))

    def test_another_way_of_missing_values_is_refused(self):
        with pytest.raises(SchemaError, match=r"'drop' cannot be the way of missing values.*'indicator'"):
            Schema.infer(self.GAPS, missing="drop")


class TestLogTarget:
    Y = pd.Series([1.0, 10.0, 100.0, 3.0], name="cost")

    @pytest.fixture
    def cost(self):
        frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, 5.0]})
        return Schema.infer(frame, target=self.Y, columns={"cost": {"transform": "log"}}).target

    def test_the_model_is_of_the_standardised_log(self, cost):
        logs = np.log(self.Y.to_numpy())
        np.testing.assert_allclose(cost.to_model(self.Y), (logs - logs.mean()) / logs.std(), rtol=1e-13)
        np.testing.assert_allclose(cost.to_raw(cost.to_model(self.Y)), self.Y, rtol=1e-13)
        assert cost.observed == (1.0, 100.0)

    def test_one_unit_of_the_model_is_the_slope_of_the_way_back(self, cost):
        step = 1e-6
        slope = (cost.to_raw(step) - cost.to_raw(-step)) / (2 * step)
        assert cost.raw_scale == pytest.approx(float(slope), rel=1e-8)
        assert Target("y", "regression", scale=3.0).raw_scale == 3.0

    def test_a_value_without_a_log_is_refused_with_its_row_and_the_remedy(self, cost):
        frame = pd.DataFrame({"x": [1.0, 2.0, 3.0]})
        with pytest.raises(SchemaError, match=r"'cost'.*above 0; row 1 has 0\.0\. Correct the value.*log"):
            Schema.infer(
                frame, target=pd.Series([1.0, 0.0, 2.5], name="cost"), columns={"y": {"transform": "log"}}
            )
        with pytest.raises(SchemaError, match=r"row 2 has -1\.5"):
            cost.to_model([1.0, 2.0, -1.5])

    def test_classes_have_no_log_and_other_transforms_are_refused(self):
        frame = pd.DataFrame({"x": [1.0, 2.0]})
        with pytest.raises(SchemaError, match="classes, which have no log"):
            Schema.infer(frame, target=pd.Series(["a", "b"]), columns={"y": {"transform": "log"}})
        with pytest.raises(
            SchemaError, match=r"'asinh' cannot be the transform of column 'y'.*'none', 'log'"
        ):
            Schema.infer(frame, target=pd.Series([1.5, 2.5]), columns={"y": {"transform": "asinh"}})

    def test_it_is_stored(self, cost):
        assert Target.from_json(json.loads(json.dumps(cost.to_json()))) == cost


class TestUnseenLabels:
    FRAME = pd.DataFrame({"ward": ["ICU", "ER", None], "grade": [1, 2, 3], "x": [-1.0, 0.5, 2.0]})

    @pytest.fixture
    def open_levels(self):
        declared = {"grade": {"kind": "category"}}
        return Schema.infer(self.FRAME, columns=declared, missing="indicator", unseen="other")

    def test_they_are_zero_in_every_model_input_of_their_column(self, open_levels):
        new = pd.DataFrame({"ward": ["lab", None, "ER"], "grade": [9, 2, 3], "x": [0.0, -1.0, 1.0]})
        coded = open_levels.encode(new)
        np.testing.assert_array_equal(coded[:, 0], [-1, np.nan, 0])
        inputs = open_levels.to_model(coded)
        np.testing.assert_array_equal(inputs[:, :3], [[0, 0, 0], [0, 0, 1], [1, 0, 0]])
        np.testing.assert_array_equal(inputs[:, 3:6], [[0, 0, 0], [0, 1, 0], [0, 0, 1]])
        np.testing.assert_allclose(open_levels.to_raw(inputs), coded, atol=1e-12)
        assert open_levels.unseen(coded).tolist() == [[True, True, False], [False] * 3, [False] * 3]
        assert open_levels.complete(coded).tolist() == [False, False, True]
        assert open_levels.decode(coded)["grade"].tolist() == ["(other)", 2, 3]

    def test_a_stored_schema_knows_of_them(self, open_levels):
        assert Schema.from_json(json.loads(json.dumps(open_levels.to_json()))) == open_levels

    def test_by_default_they_are_refused_with_the_remedy(self):
        closed = Schema.infer(self.FRAME, missing="indicator")
        with pytest.raises(SchemaError, match=r"unseen category 'lab' in row 0.*fit with unseen='other'"):
            closed.encode(self.FRAME.assign(ward="lab"))
        with pytest.raises(SchemaError, match="'drop' cannot be the way of unseen labels"):
            Schema.infer(self.FRAME, unseen="drop")

    def test_labels_of_the_fit_must_be_among_declared_levels(self):
        with pytest.raises(SchemaError, match="unseen label 'ICU'"):
            Schema.infer(self.FRAME, columns={"ward": {"levels": ["ER"]}}, unseen="other")
