"""Slices: what a posterior says along a column, as numbers that are known for lines and constants."""

from dataclasses import replace

import numpy as np
import pytest

from ocbnn.errors import OCBNNError
from ocbnn.model import Model
from ocbnn.plots.slices import PRIOR_DRAWS, Slice, prior_sliced, reference_row, sliced, value_text
from ocbnn.posterior.draws import Posterior, base_prior_draws
from ocbnn.schema import Column, Schema, Target
from posterior_cases import CENTER, SCALE, class_constants, lines

GENERATOR = np.random.default_rng(0)
SLOPE, INTERCEPT = GENERATOR.normal(1.0, 0.3, (2, 2, 20))
RULES = [
    "if x > 1 then y <= 3",
    "if -1 <= x <= 0 then not 1 <= y <= 1.2",
    "if x < -1.5 then y ~ Normal(0, 1)",
]


@pytest.fixture(scope="module")
def line_slice() -> Slice:
    return sliced(lines(SLOPE, INTERCEPT, RULES), "x")


@pytest.fixture(scope="module")
def binary() -> Posterior:
    probabilities = np.full((2, 20, 2), 0.5)
    return class_constants(probabilities, ["if x > 1 then label = yes"], ("no", "yes"))


def test_mean_and_bands_are_those_of_the_draws(line_slice: Slice) -> None:
    x = np.array(line_slice.positions)
    functions = SLOPE.reshape(-1, 1) * x + INTERCEPT.reshape(-1, 1)
    (curve,) = line_slice.curves
    np.testing.assert_allclose(curve.mean, functions.mean(axis=0), rtol=1e-9)
    for coverage, (low, high) in zip((0.5, 0.9), curve.bands, strict=True):
        ends = np.quantile(functions, [0.5 - coverage / 2, 0.5 + coverage / 2], axis=0)
        np.testing.assert_allclose([low, high], ends, rtol=1e-9)


def test_a_coverage_alone_is_that_of_one_band_and_what_is_none_is_refused() -> None:
    posterior = lines(SLOPE, INTERCEPT)
    assert sliced(posterior, "x", coverage=0.5).coverage == (0.5,)
    for coverage in ("wide", 2, (0.5, None)):
        with pytest.raises(OCBNNError, match="coverage"):
            sliced(posterior, "x", coverage=coverage)


def test_noise_widens_the_band_of_an_observation() -> None:
    posterior = lines(SLOPE, INTERCEPT)
    function, observation = (sliced(posterior, "x", kind=kind) for kind in ("function", "observation"))

    def width(shown: Slice) -> np.ndarray:
        low, high = shown.curves[0].bands[1]
        return np.subtract(high, low)

    assert (width(observation) > width(function)).all()


def test_zones_are_where_rules_apply(line_slice: Slice) -> None:
    x = np.array(line_slice.positions)
    first, second, third = line_slice.zones
    assert np.array_equal(first.inside, x > 1)
    assert np.array_equal(second.inside, (x >= -1) & (x <= 0))
    assert np.array_equal(third.inside, x < -1.5)


def test_zones_forbid_what_rules_forbid(line_slice: Slice) -> None:
    bound, gap, distribution = line_slice.zones
    ((low, high),) = bound.forbidden
    inside = np.array(bound.inside)
    assert set(np.array(low)[inside]) == {3.0}
    assert set(np.array(high)[inside]) == {line_slice.extent[1]}
    assert np.array_equal(np.array(low)[~inside], np.array(high)[~inside])
    ((low, high),) = gap.forbidden
    inside = np.array(gap.inside)
    np.testing.assert_allclose(np.array(low)[inside], 1.0)
    np.testing.assert_allclose(np.array(high)[inside], 1.2)
    assert distribution.forbidden == ()


def test_a_slice_goes_as_far_as_a_region_beyond_the_data() -> None:
    shown = sliced(lines(SLOPE, INTERCEPT, ["if x > 2.5 then y <= 3"]), "x")
    assert shown.observed == (-2.0, 2.0)
    assert shown.positions[-1] > 2.5
    assert any(shown.zones[0].inside)


@pytest.mark.parametrize(
    ("rule", "forbidden"),
    [
        ("if x > 1 then label = yes", (0.0, 0.5)),
        ("if x > 1 then label = no", (0.5, 1.0)),
        ("if x > 1 then P(label = yes) >= 0.9", (0.0, 0.9)),
        ("if x > 1 then P(label = no) >= 0.9", (0.1, 1.0)),
    ],
)
def test_of_two_classes_the_second_ones_probability_is_shown(
    binary: Posterior, rule: str, forbidden: tuple[float, float]
) -> None:
    shown = sliced(binary, "x", rules=[rule])
    assert [curve.label for curve in shown.curves] == ["P(label = yes)"]
    np.testing.assert_allclose(shown.curves[0].mean, 0.5)
    (zone,) = shown.zones
    ((low, high),) = zone.forbidden
    place = zone.inside.index(True)
    assert (low[place], high[place]) == pytest.approx(forbidden)


def test_more_classes_have_a_curve_each_and_no_forbidden_band() -> None:
    posterior = class_constants(np.full((1, 20, 3), 1 / 3), ["if x > 1 then label = red"])
    shown = sliced(posterior, "x")
    assert [curve.label for curve in shown.curves] == [f"P(label = {c})" for c in ("blue", "green", "red")]
    assert shown.zones[0].forbidden == ()


def test_a_category_is_shown_level_by_level(binary: Posterior) -> None:
    shown = sliced(binary, "site", rules=["if site = south then label = yes"])
    assert shown.discrete
    assert shown.labels == ("north", "south")
    assert shown.zones[0].inside == (False, True)


def test_other_columns_are_held_where_asked(binary: Posterior) -> None:
    assert sliced(binary, "x", at={"site": "south"}).held == {"site": "south"}
    assert sliced(binary, "site", at={"x": 1.25}).held == {"x": "1.25"}


def test_few_integers_are_shown_one_by_one() -> None:
    columns = (
        Column("children", "integer", (0.0, 4.0), bounds=(0.0, 9.0)),
        Column("sex", "binary", (0.0, 1.0)),
    )
    schema = Schema(columns, Target("y", "regression", observed=(0.0, 1.0)))
    model = Model.build(schema=schema, hidden=(), noise=1.0)
    posterior = Posterior(np.zeros((1, 5, model.size)), model)
    assert sliced(posterior, "children").positions == (0.0, 1.0, 2.0, 3.0, 4.0)
    assert sliced(posterior, "sex").positions == (0.0, 1.0)


def test_the_reference_row_lies_in_the_data_also_in_raw_units() -> None:
    column = Column("x", "continuous", (50.0, 90.0), transform="none")
    schema = Schema((column,), Target("y", "regression", observed=(0.0, 1.0)))
    assert reference_row(schema) == 70.0


def test_functions_of_the_prior_are_those_of_its_draws_and_see_no_rows() -> None:
    model = lines(SLOPE, INTERCEPT, RULES).model
    found = prior_sliced(model, "x", functions=7, key=3)
    draws = base_prior_draws(model, PRIOR_DRAWS, 3).flat
    x = np.array(found.shown.positions)
    functions = CENTER + SCALE * (draws[:, :1] * x + draws[:, 1:])  # a line's weights, in model units
    np.testing.assert_allclose(found.functions, functions[:7], rtol=1e-9)
    np.testing.assert_allclose(found.shown.curves[0].mean, functions.mean(axis=0), rtol=1e-9)
    low, high = found.shown.curves[0].bands[1]
    np.testing.assert_allclose([low, high], np.quantile(functions, [0.05, 0.95], axis=0), rtol=1e-9)
    # Slope and intercept are standard normal, so Φ has the standard deviation 2 √(1 + x²).
    spread = SCALE * np.sqrt(1 + x**2)
    assert np.all(np.abs(functions.mean(axis=0) - CENTER) < 4 * spread / np.sqrt(PRIOR_DRAWS))
    assert np.all(np.abs(functions.std(axis=0) / spread - 1) < 4 / np.sqrt(2 * PRIOR_DRAWS))
    assert [zone.rule for zone in found.shown.zones] == RULES
    assert found == prior_sliced(replace(model, data=None), "x", functions=7, key=3)
    assert found != prior_sliced(model, "x", functions=7, key=4)


@pytest.mark.parametrize("names", [("no", "yes"), ("blue", "green", "red")])
def test_functions_of_a_prior_over_classes_are_of_one_class(names: tuple[str, ...]) -> None:
    posterior = class_constants(np.full((1, 2, len(names)), 1 / len(names)), classes=names)
    found = prior_sliced(posterior.model, "x", functions=5)
    index = 1 if len(names) == 2 else 0
    assert [curve.label for curve in found.shown.curves] == [f"P(label = {names[index]})"]
    draws = base_prior_draws(posterior.model, PRIOR_DRAWS).flat[:5]
    coded = np.column_stack([found.shown.positions, np.zeros(len(found.shown.positions))])
    np.testing.assert_allclose(found.functions, posterior.values(coded, draws)[..., index])


def test_wrong_names_and_kinds_are_errors() -> None:
    posterior = lines(SLOPE, INTERCEPT)
    with pytest.raises(OCBNNError, match="z"):
        sliced(posterior, "z")
    for wrong in (-1, 401, 2.5, True):
        with pytest.raises(OCBNNError, match="whole number up to 400"):
            prior_sliced(posterior.model, "x", functions=wrong)  # type: ignore[arg-type]
    with pytest.raises(OCBNNError, match="function"):
        sliced(posterior, "x", kind="wrong")  # type: ignore[arg-type]


def test_values_are_written_with_their_unit() -> None:
    assert value_text(1.23456, "mg/dL") == "1.235 mg/dL"
    assert value_text(-0.5) == "−0.5"
    assert value_text("a-b") == "a-b"
    assert value_text(3) == "3"
    assert value_text(-1e-16, "mg") == "0 mg"


@pytest.mark.parametrize(("limit", "shown"), [(9.0, True), (-4.0, True), (500.0, False)])
def test_the_axis_reaches_to_the_limits_of_rules_unless_they_are_far_away(limit: float, shown: bool) -> None:
    found = sliced(lines(SLOPE, INTERCEPT, [f"if x > 1 then y <= {limit:g}"]), "x")
    plain = sliced(lines(SLOPE, INTERCEPT), "x", span=(found.positions[0], found.positions[-1]))
    assert (found.extent[0] < limit < found.extent[1]) is shown
    if not shown:
        assert found.extent == plain.extent
