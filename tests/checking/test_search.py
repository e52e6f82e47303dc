"""Finding violations by ascent: corners are found, the region is never left, and outputs are exact."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from ocbnn import regions
from ocbnn.checking.draws import DrawSet
from ocbnn.checking.search import BATCH, CHECK_ROUNDS, CHECK_STARTS, farthest, scored, worst_points
from ocbnn.errors import ModelError
from ocbnn.model import Model
from ocbnn.model.conditional import RuleTerm, Scoring
from ocbnn.model.networks import MLP
from ocbnn.model.outputs import model_outputs, output_blocks
from ocbnn.regions.limits import possible_ends
from ocbnn.rules import parse_rule
from ocbnn.schema import Column, Schema, Target
from region_cases import MIXED, ROOMY, THIN, mixed_rows

CUBE = Schema(tuple(Column(f"x{i}", "continuous", (0.0, 1.0)) for i in range(8)), Target("y", "regression"))
IN_CUBE = "if " + " and ".join(f"0 <= x{i} <= 1" for i in range(8)) + " then y <= 0"
CORNER = np.array([1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0])


def term(text: str, schema: Schema, data: np.ndarray | None = None, **options: Any) -> RuleTerm:
    scoring = Scoring(points=8, **options)
    return RuleTerm.build(parse_rule(text, schema), schema, scoring, bounded=True, data=data)


def bump(corner: np.ndarray, reach: float) -> Callable[[np.ndarray], np.ndarray]:
    """One draw that is above 0 only within `reach` of the corner, and flat far from it."""
    return lambda x: (np.exp(-2.0 * ((x - corner) ** 2).sum(-1)) - np.exp(-2.0 * reach**2))[None]


class TestCornersInManyDimensions:
    def test_ascent_finds_the_one_corner_that_sampling_never_sees(self) -> None:
        function = bump(CORNER, 0.1)
        rule = term(IN_CUBE, CUBE)
        sampled = regions.sample(1, rule.rule.region, CUBE, None, 20_000)
        assert not (function(sampled) > 0).any()
        worst = worst_points(0, rule, function)
        assert worst.margin[0] > 0
        np.testing.assert_allclose(worst.coded[0], CORNER, atol=0.02)

    def test_the_corner_of_columns_that_no_rule_names_is_found_too(self) -> None:
        rule = term("if x0 >= 0.5 then y <= 0", CUBE)
        worst = worst_points(0, rule, bump(CORNER, 0.1))
        np.testing.assert_allclose(worst.coded[0, 1:], CORNER[1:], atol=0.02)
        assert worst.margin[0] > 0

    def test_the_tip_of_a_half_space_is_found(self) -> None:
        rule = term("if x0 + x1 <= 0.5 and x0 >= 0 and x1 >= 0 then y <= 1.499", CUBE)
        worst = worst_points(0, rule, lambda x: (x[:, 0] + 3 * x[:, 1])[None])
        assert worst.margin[0] > 0
        np.testing.assert_allclose(worst.coded[0, :2], [0.0, 0.5], atol=1e-3)

    def test_several_hills_are_all_given_back(self) -> None:
        other = 1.0 - CORNER

        def two(x: np.ndarray) -> np.ndarray:
            return np.concatenate([bump(CORNER, 0.3)(x), bump(other, 0.3)(x)])

        worst = worst_points(0, term(IN_CUBE, CUBE), two, count=32)
        for corner in (CORNER, other):
            assert np.abs(worst.coded - corner).max(axis=1).min() < 0.1


class TestMixedTables:
    ROWS = mixed_rows()

    def test_the_worst_case_over_every_kind_of_column_is_found(self) -> None:
        rule = term("if creatinine > 2 and ward in {ICU, surgery} then y <= 5.9", MIXED, self.ROWS)
        # creatinine at its threshold, urine at its bound, age 37, visits 12, smoker, ward surgery, female

        def function(x: np.ndarray) -> np.ndarray:
            surgery, female = x[:, 7], x[:, 9]
            value = -np.abs(x[:, 0] - 2) + x[:, 2] / 500 - np.abs(x[:, 3] - 37) / 50 + x[:, 4] / 12
            return (value + x[:, 5] + surgery + 2 * female)[None]

        worst = worst_points(0, rule, function)
        best = MIXED.decode(worst.coded[:1]).iloc[0]
        assert worst.margin[0] > 0
        assert best["ward"] == "surgery"
        assert best["sex"] == "f"
        assert best["smoker"] == 1
        assert best["age"] == 37
        assert 2.0 < best["creatinine"] < 2.02

    @pytest.mark.parametrize("condition", [*ROOMY.values(), *THIN.values()], ids=[*ROOMY, *THIN])
    @pytest.mark.parametrize("with_rows", [False, True])
    def test_no_point_that_is_tried_leaves_region_bounds_or_kinds(
        self, condition: str, with_rows: bool
    ) -> None:
        text = "always y <= 0" if condition == "always" else f"if {condition} then y <= 0"
        rule = term(text, MIXED, self.ROWS if with_rows else None)
        tried = []

        def function(x: np.ndarray) -> np.ndarray:
            assert x.shape == (BATCH, MIXED.width)
            tried.append(MIXED.to_raw(x))
            return np.sin(x @ np.linspace(-1, 1, MIXED.width))[None]

        worst = worst_points(3, rule, function, starts=200, rounds=6)
        points = np.concatenate(tried)
        low, high = np.array([possible_ends(column) for column in MIXED.columns]).T
        assert ((points >= low) & (points <= high)).all()
        MIXED.decode(points)
        for index, column in enumerate(MIXED.columns):
            if column.kind != "continuous":
                np.testing.assert_array_equal(points[:, index], np.round(points[:, index]))
        assert rule.rule.region.contains(points, MIXED).all()
        assert rule.rule.region.contains(worst.coded, MIXED).all()

    @pytest.mark.parametrize("condition", [*ROOMY.values()], ids=[*ROOMY])
    def test_over_rows_other_columns_than_the_conditions_are_always_those_of_one_row(
        self, condition: str
    ) -> None:
        text = "always y <= 0" if condition == "always" else f"if {condition} then y <= 0"
        parsed = parse_rule(text, MIXED, holds="over rows")
        rule = RuleTerm.build(parsed, MIXED, Scoring(points=8), bounded=True, data=self.ROWS)
        tried = []

        def function(x: np.ndarray) -> np.ndarray:
            tried.append(MIXED.to_raw(x))
            return np.sin(x @ np.linspace(-1, 1, MIXED.width))[None]

        worst = worst_points(3, rule, function, starts=200, rounds=6)
        points = np.concatenate([*tried, worst.coded])
        others = [i for i, name in enumerate(MIXED.names) if name not in parsed.region.columns()]
        for point in points[::7, others]:
            assert np.isclose(self.ROWS[:, others], point, rtol=1e-9).all(axis=1).any()
        assert parsed.region.contains(worst.coded, MIXED).all()

    def test_a_rule_over_rows_needs_rows(self) -> None:
        parsed = parse_rule("if creatinine > 2 then y <= 0", MIXED, holds="over rows")
        with pytest.raises(ModelError, match="over rows of the table, and there are none"):
            RuleTerm.build(parsed, MIXED, Scoring(points=8), bounded=True)

    def test_a_log_column_is_searched_on_its_own_scale(self) -> None:
        schema = Schema(
            (Column("urine", "continuous", (0.01, 1000.0), (0.0, np.inf), transform="log", offset=0.005),),
            Target("y", "regression"),
        )
        rule = term("if urine >= 0 then y <= 0", schema)
        worst = worst_points(0, rule, lambda x: 0.01 - np.abs(x[None, :, 0] - np.log(0.1)), starts=32)
        np.testing.assert_allclose(worst.coded[0, 0], 0.095, rtol=0.01)


class TestKindsOfRules:
    CLASSES = Schema(
        (Column("x", "continuous", (-1.0, 1.0)), Column("z", "continuous", (-1.0, 1.0))),
        Target("label", "classification", classes=("no", "yes")),
    )

    @staticmethod
    def slope(x: np.ndarray) -> np.ndarray:
        p = expit(4.0 * x[:, 0] + x[:, 1])
        return np.stack([1 - p, p], axis=-1)[None]

    def test_class_rules_climb_the_probability_of_forbidden_classes(self) -> None:
        worst = worst_points(0, term("if x <= 0.5 then label = no", self.CLASSES), self.slope)
        np.testing.assert_allclose(worst.coded[0], [0.5, 1.0], atol=0.01)

    def test_probability_targets_climb_the_total_variation_of_the_mean(self) -> None:
        rule = term("always P(label = yes) = 0.75", self.CLASSES)
        model = Model.build(schema=self.CLASSES, hidden=())
        draws = np.array([[[4.0, 1.0, 0.0], [4.0, 1.0, 0.0]]])  # the logit is 4 x + z, as in `slope`
        found = farthest(DrawSet(draws, model), rule, draws[0], 0)
        np.testing.assert_allclose(found[0], [-1.0, -1.0], atol=0.01)
        said = DrawSet(draws, model).values(found[:1], draws[0])[:, 0].mean(axis=0)
        np.testing.assert_allclose(0.75 - said[1], 0.75 - expit(-5.0), atol=1e-3)

    @pytest.mark.parametrize(
        ("text", "schema", "function"),
        [
            ("if x0 > 0.5 then y ~ Normal(3, 0.5)", CUBE, bump(CORNER, 0.1)),
            ("always P(label = yes) = 0.75", CLASSES, slope),
        ],
        ids=["distribution", "probability"],
    )
    def test_rules_judged_by_all_draws_together_have_no_violation_of_one_draw(
        self, text: str, schema: Schema, function: Callable[[np.ndarray], np.ndarray]
    ) -> None:
        worst = worst_points(0, term(text, schema), function)
        assert worst.coded.shape == (0, len(schema.columns))
        assert worst.margin.shape == worst.score.shape == (0,)

    def test_where_nothing_is_broken_the_nearest_miss_is_given_with_its_negative_margin(self) -> None:
        rule = term("if x0 >= 0.5 then y <= 2", CUBE)
        worst = worst_points(0, rule, lambda x: x[None, :, 0])
        np.testing.assert_allclose(worst.margin[0], worst.coded[0, 0] - 2, atol=1e-12)
        assert worst.margin.max() < 0
        assert len(worst.margin) > 1

    def test_outputs_that_are_not_finite_are_never_the_worst_point(self) -> None:
        rule = term("if x0 >= 0.5 then y <= 0", CUBE)
        worst = worst_points(0, rule, lambda x: np.where(x[None, :, 0] > 0.9, np.nan, x[None, :, 0]))
        assert np.isfinite(worst.margin).all()
        np.testing.assert_allclose(worst.margin[0], 0.9, atol=1e-3)


class TestScores:
    MARGINS = np.array([[-1.0, 3.0, 0.5, -0.1], [-2.0, -1.0, 0.5, -9.0]])

    def test_worst_draw_is_the_largest_margin(self) -> None:
        for each in scored(self.MARGINS, "worst draw"):
            np.testing.assert_array_equal(each, [-1.0, 3.0, 0.5, -0.1])

    def test_share_of_draws_orders_by_share_first_and_is_positive_only_for_violations(self) -> None:
        _, score = scored(self.MARGINS, "share of draws")
        assert score[2] == 1.0
        assert 0.5 < score[1] < 0.75
        assert score[3] < 0
        assert score[0] < score[3]

    def test_share_of_draws_finds_where_most_draws_break_the_rule(self) -> None:
        centres = np.array([[0.2], [0.21], [0.22], [0.8]])
        heights = np.array([[0.0], [0.0], [0.0], [0.01]])

        def function(x: np.ndarray) -> np.ndarray:
            return 0.05 - np.abs(x[None, :, 0] - centres) + heights

        rule = term("if 0 <= x0 <= 1 then y <= 0", CUBE)
        worst = worst_points(0, rule, function, score="share of draws")
        np.testing.assert_allclose(worst.coded[0, 0], 0.21, atol=0.05)
        highest = worst_points(0, rule, function)
        np.testing.assert_allclose(highest.coded[0, 0], 0.8, atol=0.01)


def test_the_same_key_gives_the_same_points_and_another_key_others() -> None:
    rule = term(IN_CUBE, CUBE)
    found = [worst_points(key, rule, bump(CORNER, 0.5), rounds=5).coded for key in ((0, 1), (0, 1), (0, 2))]
    np.testing.assert_array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])


class TestModelOutputs:
    X = np.linspace(-2, 2, 21)[:, None]

    @pytest.fixture
    def classifier(self) -> Model:
        frame = pd.DataFrame({"x": np.linspace(-2, 2, 9), "label": list("abcabcabc")})
        return Model.build(frame=frame, target="label", hidden=(4,))

    @pytest.fixture
    def regressor(self) -> Model:
        frame = pd.DataFrame({"x": np.linspace(-2, 2, 9), "y": np.linspace(-1, 1, 9)})
        return Model.build(frame=frame, target="y", hidden=(4,))

    def test_equal_the_models_own_function_whatever_the_chunk(self, regressor: Model) -> None:
        draws = np.random.default_rng(0).normal(size=(3, 5, regressor.size))
        with jax.enable_x64(True):
            naive = np.array([[regressor.function(w, self.X) for w in chain] for chain in draws])
        for chunk in (1, 64, 65_536):
            outputs = model_outputs(regressor, draws, self.X, chunk)
            assert outputs.dtype == np.float64
            np.testing.assert_allclose(outputs, naive, rtol=1e-13, atol=1e-14)

    def test_classes_come_as_probabilities(self, classifier: Model) -> None:
        draws = np.random.default_rng(0).normal(size=(5, classifier.size)).astype(np.float32)
        outputs = model_outputs(classifier, draws, self.X)
        assert outputs.shape == (5, 21, 3)
        assert outputs.dtype == np.float32
        np.testing.assert_allclose(outputs.sum(-1), 1.0, rtol=1e-6)

    def test_one_draw_and_no_inputs_keep_their_shapes(self, regressor: Model) -> None:
        draw = np.zeros(regressor.size)
        assert model_outputs(regressor, draw, self.X).shape == (21,)
        assert model_outputs(regressor, np.zeros((2, regressor.size)), self.X[:0]).shape == (2, 0)

    def test_blocks_cover_the_inputs_once_in_order(self, regressor: Model) -> None:
        draws = np.random.default_rng(0).normal(size=(4, regressor.size))
        blocks = list(output_blocks(regressor, draws, self.X, chunk=8))
        assert len(blocks) > 1
        covered = np.concatenate([np.arange(21)[block] for block, _ in blocks])
        np.testing.assert_array_equal(covered, np.arange(21))
        joined = np.concatenate([values for _, values in blocks], axis=1)
        np.testing.assert_allclose(joined, model_outputs(regressor, draws, self.X), rtol=1e-13)

    def test_the_callers_precision_is_left_alone(self, regressor: Model) -> None:
        before = jax.config.jax_enable_x64
        model_outputs(regressor, np.zeros((2, regressor.size)), self.X)
        assert jax.config.jax_enable_x64 == before

    def test_ascent_on_a_network_finds_its_maximum(self) -> None:
        frame = pd.DataFrame({"x": np.linspace(-2, 2, 9), "y": np.linspace(-1, 1, 9)})
        model = Model.build(
            frame=frame,
            target="y",
            network=MLP(1, (4,)),
            rules=["if -1 <= x <= 1 then y <= 0"],
            points=8,
        )
        draws = np.random.default_rng(0).normal(size=(6, model.size))
        rule = model.terms[0]
        worst = worst_points(0, rule, partial(model_outputs, model, draws), starts=100)
        schema = rule.schema
        grid = np.linspace(-1, 1, 2001)[:, None]
        highest = model_outputs(model, draws, schema.to_model(grid)).max()
        allowed = (0.0 - schema.target.center) / schema.target.scale
        np.testing.assert_allclose(worst.margin[0], highest - allowed, atol=1e-5)


def planted(seed: int, schema: Schema) -> Callable[[np.ndarray], np.ndarray]:
    """One wavy draw that is above 0 in one box alone, of a thousandth of the cube; no wave leads there."""
    columns, generator = len(schema.columns), np.random.default_rng(seed)
    sides = 1e-3 ** generator.dirichlet(np.full(columns, 4.0))
    center = sides / 2 + generator.random(columns) * (1 - sides)
    waves, phases = 4 * generator.normal(size=(6, columns)), 6 * generator.random(6)

    def outputs(inputs: np.ndarray) -> np.ndarray:
        x = schema.to_raw(np.asarray(inputs, dtype=float))
        away = np.abs((x - center) / (sides / 2)).max(axis=1)
        background = -0.6 + 0.5 * np.sin(x @ waves.T + phases).mean(axis=1)
        return np.maximum(1 - away**2, background)[None]

    return outputs


def pockets_found(columns: int, count: int, text: str) -> int:
    """In how many of so many planted functions the search that checks use finds the pocket.

    The rows lie in the middle of the cube, so that a sampler that borrows from them sees little of it.
    """
    cube = tuple(Column(f"x{i}", "continuous", (0.0, 1.0), bounds=(0.0, 1.0)) for i in range(columns))
    schema = Schema(cube, Target("y", "regression"))
    rows = np.clip(0.5 + 0.08 * np.random.default_rng(0).normal(size=(200, columns)), 0, 1)
    rule = term(text, schema, rows)
    options = {"count": 1, "starts": CHECK_STARTS, "rounds": CHECK_ROUNDS}
    return sum(
        worst_points(seed, rule, planted(seed, schema), **options).margin[0] > 0 for seed in range(count)
    )


EVERYWHERE = "always y <= 0"
HALF = "if x0 >= 0 then y <= 0"


@pytest.mark.parametrize("columns", [4, 8])
def test_ten_planted_pockets_of_a_thousandth_are_found(columns: int) -> None:
    assert pockets_found(columns, 10, EVERYWHERE) >= 9


@pytest.mark.slow
@pytest.mark.parametrize("text", [EVERYWHERE, HALF])
@pytest.mark.parametrize("columns", [4, 8])
def test_95_of_100_planted_pockets_of_a_thousandth_are_found(columns: int, text: str) -> None:
    assert pockets_found(columns, 100, text) >= 95


def test_every_level_of_a_category_is_tried() -> None:
    """One level of three thousand violates, whatever x is."""
    levels = tuple(f"l{i:04d}" for i in range(3000))
    columns = (
        Column("x", "continuous", (0.0, 1.0)),
        Column("level", "category", (0.0, 2999.0), levels=levels),
    )
    schema = Schema(columns, Target("y", "regression"))
    rule = term("always y <= 0", schema)

    def outputs(inputs: np.ndarray) -> np.ndarray:
        return np.where(schema.to_raw(np.asarray(inputs, dtype=float))[:, 1] == 2170.0, 1.0, -1.0)[None]

    found = worst_points(0, rule, outputs, count=1, starts=64, rounds=1)
    assert found.margin[0] > 0
    assert found.coded[0, 1] == 2170.0
