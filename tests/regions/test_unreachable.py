"""A region that cannot be hit is an error that names the condition, in bounded time."""

from __future__ import annotations

import time

import pytest

from ocbnn.errors import RegionError
from ocbnn.regions import SAMPLERS, Union, sample
from ocbnn.schema import Column, Schema, Target
from region_cases import MIXED, SQUARE, mixed_rows, region

DATA = mixed_rows()

UNHITTABLE = {
    "age > 130 and creatinine > 2": r"`age > 130` is outside the declared bounds `0 <= age <= 120`",
    "2 < visits < 3": r"visits holds whole numbers, and `2 < visits < 3` leaves none",
    "lactate > 3 and age > 20 and lactate < 2": r"`lactate > 3 and lactate < 2` contradict each other",
    "smoker = 2": r"smoker is 0 or 1, and `smoker = 2` holds for neither",
    "ward = ICU and ward = surgery": r"no level of ward is allowed",
    "lactate - lactate > 1": r"false for every input",
    "urine + creatinine < 0 and sex = f": r"`creatinine \+ urine < 0` is to blame",
    "creatinine < 1 and age < 20 and age - 10 * creatinine > 30 and lactate > 1": (
        r"`age < 20` is to blame \(or one of `age - 10 \* creatinine > 30`\)"
    ),
    "sqrt(lactate) < -1 and age > 20": r"`sqrt\(lactate\) < -1` is to blame",
    "sin(lactate) > 2": r"`sin\(lactate\) > 2` holds nowhere that was tried",
    "urine < 10 and urine * smoker > 20": r"`urine \* smoker > 20` is to blame \(or one of `urine < 10`\)",
    "creatinine < lactate and lactate < creatinine": r"`creatinine - lactate < 0` is to blame",
    "creatinine = lactate and creatinine > lactate + 1": r"to blame",
    "age = 2 * visits + 1 and age = 2 * lactate and 0.4 < lactate < 0.45": r"to blame",
}


@pytest.mark.parametrize(("condition", "message"), UNHITTABLE.items())
def test_the_condition_to_blame_is_named(condition: str, message: str) -> None:
    start = time.process_time()
    with pytest.raises(RegionError, match=message):
        sample(0, region(condition), MIXED, DATA, 100)
    assert time.process_time() - start < 5


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_gives_up_on_what_cannot_be_hit(sampler: str) -> None:
    for condition in ("creatinine < lactate and lactate < creatinine", "sin(lactate) > 2"):
        with pytest.raises(RegionError, match="No input was found where"):
            sample(0, region(condition), MIXED, DATA, 100, sampler)


def test_the_empty_set_is_an_error() -> None:
    with pytest.raises(RegionError, match="false for every input"):
        sample(0, Union(()), MIXED, None, 5)


def test_a_union_is_only_unhittable_when_all_of_it_is() -> None:
    assert len(sample(0, region("age > 130 or age < 20"), MIXED, DATA, 5)) == 5
    with pytest.raises(RegionError, match="age > 130"):
        sample(0, region("age > 130 or age < -5"), MIXED, DATA, 5)


def test_a_predicate_too_thin_to_hit_says_how_thin_it_is() -> None:
    where = region("(x1 - 0.5) ^ 2 + (x2 - 0.5) ^ 2 < 0.00001", SQUARE)
    with pytest.raises(
        RegionError, match=r"Only [\d,]+ of 1,\d\d\d,\d\d\d points tried .* widen its condition"
    ):
        sample(0, where, SQUARE, None, 500)


def test_below_the_offset_of_a_log_column_there_is_nothing() -> None:
    schema = Schema(
        (Column("dose", "continuous", (1.0, 10.0), transform="log", offset=1.0),), Target("y", "regression")
    )
    with pytest.raises(RegionError, match=r"enters as log\(dose \+ 1\)"):
        sample(0, region("dose < -2", schema), schema, None, 5)
