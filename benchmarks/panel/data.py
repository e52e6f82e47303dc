"""A folder of tables, and the splits into training and test rows that every model sees.

A table is `NAME.csv` or `NAME.csv.gz`, target last. Its splits are the columns of `NAME-test-rows.csv`
(1: test row) where there is one, else random ones. `NAME-train.csv` and `NAME-test.csv` are one table: beside
random splits of all rows it has its own, as split 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

TEST_SHARE = 0.1
# What the files do not say: targets that are not last, and targets whose log every model predicts and is
# scored in (creep lives span three orders of magnitude).
TARGETS = {"auto-mpg": "mpg"}
LOGS = frozenset({"creep-nickel"})
# What is known to be true of a table, whatever its rows: with which columns its target increases (1) or
# decreases (-1).
TRENDS: Mapping[str, Mapping[str, int]] = {
    "auto-mpg": {"weight": -1, "displacement": -1, "horsepower": -1},
    "concrete": {"age": 1, "cement": 1, "water": -1},
    "creep-nickel": {"T": -1, "stress": -1},
    "energy": {"glazing_area": 1},
}


class Split(NamedTuple):
    """Training and test rows, ascending; `number` is also the seed of models."""

    number: int
    train: np.ndarray
    test: np.ndarray


@dataclass(frozen=True)
class Table:
    """Rows, their target, and the test rows that came with them.

    Attributes:
        name: that of its file.
        X: one column an input.
        y: the target, in the units in which predictions are scored.
        given: masks of test rows, one a split.
        own: the mask of the test rows of a pair of files.
        trends: columns with which the target is known to increase (1) or decrease (-1).
    """

    name: str
    X: pd.DataFrame
    y: pd.Series
    given: tuple[np.ndarray, ...] = ()
    own: np.ndarray | None = None
    trends: Mapping[str, int] = field(default_factory=dict)

    def splits(self, count: int) -> list[Split]:
        """The first `count` given splits, or random ones of seeds 0, 1, …; before these, a pair's own."""
        masks = list(self.given[:count]) or [self._random(seed) for seed in range(count)]
        if self.own is not None:
            masks.insert(0, self.own)
        return [Split(number, *map(np.flatnonzero, (~mask, mask))) for number, mask in enumerate(masks)]

    def _random(self, seed: int) -> np.ndarray:
        rows = np.arange(len(self.X))
        return np.isin(rows, train_test_split(rows, test_size=TEST_SHARE, random_state=seed)[1])


def tables_in(folder: Path) -> list[Table]:
    """Every table of a folder, in the order of names."""
    found = []
    files = {path.name.removesuffix(".gz").removesuffix(".csv"): path for path in folder.glob("*.csv*")}
    frames = {name: pd.read_csv(path) for name, path in sorted(files.items())}
    for name in [name for name in frames if name.endswith("-train")]:
        stem = name.removesuffix("-train")
        if (test := frames.pop(f"{stem}-test", None)) is not None:
            train = frames.pop(name)
            own = np.repeat([False, True], [len(train), len(test)])
            found.append(_table(stem, pd.concat([train, test], ignore_index=True), own=own))
    splits = {name: frames.pop(name) for name in list(frames) if name.endswith("-test-rows")}
    for name, frame in frames.items():
        given = splits.get(f"{name}-test-rows")
        found.append(_table(name, frame, () if given is None else tuple(given.to_numpy().astype(bool).T)))
    return sorted(found, key=lambda table: table.name)


def _table(
    name: str, frame: pd.DataFrame, given: tuple[np.ndarray, ...] = (), own: np.ndarray | None = None
) -> Table:
    y = frame.pop(TARGETS.get(name, frame.columns[-1])).astype(float)
    if name in LOGS:
        y = np.log(y).rename(f"log_{y.name}")
    return Table(name, frame, y, given, own, TRENDS.get(name, {}))
