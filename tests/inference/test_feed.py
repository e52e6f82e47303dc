"""What each step of a stochastic engine sees."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from ocbnn.inference.feed import ALL_ROWS, BATCH, Feed, default_batch
from ocbnn.inference.warmstart import with_found, with_room
from ocbnn.model import Data, Model
from small_runs import figure_1b

ROWS = 10


def table() -> Model:
    x = np.arange(ROWS, dtype=float)
    frame = pd.DataFrame({"x": x, "y": x})
    return Model.build(
        frame=frame, target="y", rules=["if 2 <= x <= 6 then y >= 0"], noise=1.0, standardize=False, points=4
    )


def test_every_row_comes_once_in_each_pass_whatever_the_chunks() -> None:
    feed = Feed(table(), seed=3, batch=4)
    rows = np.concatenate([feed.chunk(number, 5).data.y.ravel() for number in range(4)])  # type: ignore[union-attr]
    assert len(rows) == 80
    for turn in rows.reshape(-1, ROWS):
        assert sorted(turn) == list(range(ROWS))
    assert not np.array_equal(rows[:ROWS], rows[ROWS : 2 * ROWS])
    together = np.concatenate([feed.chunk(number, 10).data.y.ravel() for number in range(2)])  # type: ignore[union-attr]
    assert np.array_equal(rows, together)


def test_the_weights_of_a_minibatch_make_it_stand_for_all_rows() -> None:
    model = table()
    assert model.data is not None
    weights = np.arange(1.0, ROWS + 1)
    weighted = replace(model, data=model.data._replace(weights=weights))
    data = Feed(weighted, seed=0, batch=5).chunk(0, 2).data
    assert data is not None
    np.testing.assert_allclose(data.weights, weights[data.y.astype(int)] * 2.0)
    assert data.weights.dtype == np.float32
    assert data.weights.sum() == pytest.approx(2 * weights.sum())  # two batches are one pass


def test_without_a_batch_or_with_a_large_one_each_step_sees_all_rows() -> None:
    for batch in (None, 99):
        data = Feed(table(), seed=0, batch=batch).chunk(1, 3).data
        assert data is not None
        assert data.inputs.shape == (3, ROWS, 1)
        assert (data.weights == 1.0).all()
        assert (np.sort(data.y, axis=1) == np.arange(ROWS)).all()


def test_points_are_fresh_every_step_inside_the_region_and_depend_on_seed_and_chunk_alone() -> None:
    model = table()
    (points,) = Feed(model, seed=1, batch=2).chunk(2, 6).points
    places = points.coded.reshape(-1, 1)
    assert len(np.unique(places)) == 24
    assert model.terms[0].rule.region.contains(places, model.schema).all()
    (again,) = Feed(model, seed=1, batch=2).chunk(2, 6).points
    (other,) = Feed(model, seed=2, batch=2).chunk(2, 6).points
    (later,) = Feed(model, seed=1, batch=2).chunk(3, 6).points
    assert np.array_equal(points.coded, again.coded)
    assert not np.array_equal(points.coded, other.coded)
    assert not np.array_equal(points.coded, later.coded)


def test_found_points_stay_in_every_step_with_their_weight() -> None:
    model = table()
    rules = [with_found(with_room(rule, 3), np.array([[2.0], [6.0]])) for rule in model.terms]
    (points,) = Feed(replace(model, terms=tuple(rules)), seed=1, batch=2).chunk(0, 5).points
    assert points.coded.shape == (5, 7, 1)
    assert (points.coded[:, 4:6, 0] == [2.0, 6.0]).all()
    np.testing.assert_allclose(points.weights, np.broadcast_to([0.5 / 4] * 4 + [0.5 / 2] * 2 + [0.0], (5, 7)))
    assert points.strength.shape == (5,)


def test_a_prior_alone_is_fed_points_and_no_rows() -> None:
    context = Feed(figure_1b(prior_only=True), seed=0, batch=None).one(0)
    assert context.data is None
    assert context.points[0].inputs.shape == (20, 1)


@pytest.mark.parametrize(("rows", "expected"), [(ALL_ROWS, None), (ALL_ROWS + 1, BATCH)])
def test_minibatches_are_the_default_for_many_rows_only(rows: int, expected: int | None) -> None:
    model = replace(table(), data=Data(np.zeros((rows, 1)), np.zeros(rows)))
    assert default_batch(model) == expected
    assert default_batch(replace(model, data=None)) is None
