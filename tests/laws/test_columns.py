"""Differences of columns, copies of a column, columns of noise: nearly as good as least squares (law 4)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from ocbnn import OCBNNRegressor
from ocbnn.inference.engines.mclmc import Mclmc

Table = tuple[pd.DataFrame, np.ndarray]


def differences(generator: np.random.Generator, rows: int) -> Table:
    """The review's table: the target is twice a difference of two columns that are nearly the same."""
    before = generator.normal(0, 3, rows)
    after = before + generator.normal(0, 1.5, rows)
    y = 2 * (after - before) + generator.normal(0, 0.5, rows)
    return pd.DataFrame({"before": before, "after": after}), y


def copies(generator: np.random.Generator, rows: int) -> Table:
    """Three columns, of which one is another one again with a little noise."""
    x, z = generator.normal(size=(2, rows))
    frame = pd.DataFrame({"x": x, "again": x + 0.05 * generator.normal(size=rows), "z": z})
    return frame, 2 * x - z + generator.normal(0, 0.5, rows)


def noise_columns(generator: np.random.Generator, rows: int) -> Table:
    """One column that matters and ten that do not."""
    X = generator.normal(size=(rows, 11))
    frame = pd.DataFrame(X, columns=[f"column{i}" for i in range(11)])
    return frame, 2 * X[:, 0] + generator.normal(0, 0.5, rows)


KINDS = {"differences": (differences, 1.3), "copies": (copies, 1.2), "noise": (noise_columns, 1.2)}


def ratio(table: Callable[[np.random.Generator, int], Table], seeds: range, **options: object) -> float:
    """Mean RMSE over tables of 80 rows, ours over that of least squares, on 1,000 new rows of each."""
    ours, least_squares = [], []
    for seed in seeds:
        generator = np.random.default_rng(seed)
        (X, y), (new, truth) = table(generator, 80), table(generator, 1000)
        predicted = OCBNNRegressor(random_state=seed, **options).fit(X, y).predict(new)
        design, asked = (np.column_stack([np.ones(len(each)), each]) for each in (X, new))
        linear = asked @ np.linalg.lstsq(design, y)[0]
        ours.append(np.sqrt(np.mean((predicted - truth) ** 2)))
        least_squares.append(np.sqrt(np.mean((linear - truth) ** 2)))
    return float(np.mean(ours) / np.mean(least_squares))


def test_differences_of_columns_can_be_learnt():
    assert ratio(differences, range(1), hidden=5, draws=100, chains=4, engine=Mclmc(warmup=200)) <= 1.3


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_linear_tables_are_learnt_nearly_as_well_as_by_least_squares(kind):
    table, most = KINDS[kind]
    found = ratio(table, range(20))
    print(kind, found)
    assert found <= most
