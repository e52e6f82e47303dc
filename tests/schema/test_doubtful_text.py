"""Text that is mostly numbers is refused with its cells, not taken as a category of many levels."""

import numpy as np
import pandas as pd
import pytest

from ocbnn.errors import SchemaError
from ocbnn.schema import Schema
from small_estimators import small_regressor

NUMBERS = [f"{value:.1f}" for value in np.linspace(0, 9, 60)]


def column(*first: object) -> pd.DataFrame:
    return pd.DataFrame({"lactate": [*first, *NUMBERS[len(first) :]], "age": range(60)})


@pytest.mark.parametrize("cell", ["<0.1", "3 mg", "n. d.", "1,234.5", "2024-01-01"])
def test_one_text_among_numbers_is_refused_with_its_row(cell):
    frame = column("1.0", cell)
    with pytest.raises(SchemaError, match=f"'lactate' holds numbers, but also text: '{cell}' in row 1"):
        Schema.infer(frame)
    with pytest.raises(SchemaError, match="row 1"):
        small_regressor().fit(frame, np.arange(60.0))


def test_missing_values_are_not_counted_and_rows_are_those_of_the_table():
    frame = column(None, None, "<0.1", "<0.1", "<0.1", "<0.1", "<0.2")
    with pytest.raises(SchemaError, match=r"in row 2, '<0.1' in row 3, '<0.1' in row 4 and 2 more"):
        Schema.infer(frame)


def test_numbers_with_decimal_commas_are_refused_with_the_remedy():
    frame = pd.DataFrame({"x": [text.replace(".", ",") for text in NUMBERS]})
    with pytest.raises(SchemaError, match="--decimal ,"):
        Schema.infer(frame)


def test_a_number_column_that_gets_a_decimal_comma_says_so():
    schema = Schema.infer(pd.DataFrame({"x": np.linspace(0, 1, 60)}))
    with pytest.raises(SchemaError, match="--decimal ,"):
        schema.encode(pd.DataFrame({"x": ["1,5"]}))


def test_a_target_of_numbers_and_text_is_not_a_classification():
    frame = column("<0.1")
    with pytest.raises(SchemaError, match=r"'<0\.1' in row 0"):
        Schema.infer(frame, target="lactate")
    assert Schema.infer(frame, target="lactate", task="classification").target.classes


def test_texts_that_differ_in_most_rows_are_no_category():
    frame = pd.DataFrame({"dose": [f"{i} mg" for i in range(60)]})
    with pytest.raises(SchemaError, match="60 different texts in 60 rows"):
        Schema.infer(frame)


def test_labels_with_few_numbers_among_them_and_declared_ones_are_categories():
    grades = pd.DataFrame({"grade": np.resize(["1", "2a", "2b", "3"], 60)})
    assert Schema.infer(grades).columns[0].levels == ("1", "2a", "2b", "3")
    declared = Schema.infer(column("<0.1"), columns={"lactate": {"kind": "category"}})
    assert len(declared.columns[0].levels) == 60


def test_bounds_that_are_empty_are_not_taken_as_none():
    with pytest.raises(SchemaError, match="bounds"):
        Schema.infer(pd.DataFrame({"x": [1.0, 2.0]}), columns={"x": {"bounds": []}})
