"""Defaults against scikit-learn's networks on three small tables: five folds, shuffled, no tuning.

    python benchmarks/estimators.py [diabetes wine cancer] [--repeats 5]

Both see the same folds in the same run. What scikit-learn's network loses depends on its seed (on wine's
first shuffle by a third), so it is the mean over ten of them; the range and seed 0 are printed too. Prints
RMSE (regression) or log-loss (classes) over all shuffles, and for regression how many of the 90% intervals
cover. Fails where ours is worse, or where intervals cover less than 87% or more than 93%.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.metrics import log_loss, root_mean_squared_error
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from ocbnn import OCBNNClassifier, OCBNNRegressor

TABLES = {"diabetes": load_diabetes, "wine": load_wine, "cancer": load_breast_cancer}
LEAST_COVERED, MOST_COVERED = 0.87, 0.93
PEER_SEEDS = range(10)


class Compared(NamedTuple):
    """Means over folds: our loss, scikit-learn's by seed, how many intervals cover (none for classes)."""

    ours: float
    theirs: np.ndarray
    covered: float = np.nan

    @classmethod
    def mean(cls, folds: Sequence[Compared]) -> Compared:
        """Over all of them."""
        return cls(*(np.mean(each, axis=0) for each in zip(*folds, strict=True)))

    def __str__(self) -> str:
        return (
            f"{self.ours:.4f}, scikit-learn's {self.theirs.mean():.4f} "
            f"({self.theirs.min():.4f} to {self.theirs.max():.4f} by seed, seed 0 {self.theirs[0]:.4f})"
        )


def regression(X: pd.DataFrame, y: pd.Series, train: np.ndarray, test: np.ndarray) -> Compared:
    """Root mean squared errors of one fold."""
    model = OCBNNRegressor(random_state=0).fit(X.iloc[train], y.iloc[train])
    peers = [MLPRegressor(random_state=seed, max_iter=2000) for seed in PEER_SEEDS]
    ours, *theirs = (
        root_mean_squared_error(y.iloc[test], each.predict(X.iloc[test]))
        for each in (model, *fitted_peers(peers, X.iloc[train], y.iloc[train]))
    )
    low, high = model.predict_interval(X.iloc[test], 0.9).T
    covered = ((low <= y.iloc[test]) & (y.iloc[test] <= high)).mean()
    return Compared(ours, np.array(theirs), float(covered))


def classification(X: pd.DataFrame, y: pd.Series, train: np.ndarray, test: np.ndarray) -> Compared:
    """Log-losses of one fold."""
    model = OCBNNClassifier(random_state=0).fit(X.iloc[train], y.iloc[train])
    peers = [MLPClassifier(random_state=seed, max_iter=1000) for seed in PEER_SEEDS]
    ours, *theirs = (
        log_loss(y.iloc[test], each.predict_proba(X.iloc[test]))
        for each in (model, *fitted_peers(peers, X.iloc[train], y.iloc[train]))
    )
    return Compared(ours, np.array(theirs))


def fitted_peers(peers: Sequence[BaseEstimator], X: pd.DataFrame, y: pd.Series) -> list[Pipeline]:
    """Each behind a scaler."""
    return [make_pipeline(StandardScaler(), peer).fit(X, y) for peer in peers]


def run(name: str, repeats: int) -> bool:
    """All shuffles of one table; whether the defaults are good enough there."""
    X, y = TABLES[name](return_X_y=True, as_frame=True)
    kind, one = (KFold, regression) if name == "diabetes" else (StratifiedKFold, classification)
    began = time.perf_counter()
    found: list[Compared] = []
    for shuffle in range(repeats):
        folds = kind(5, shuffle=True, random_state=shuffle).split(X, y)
        found += [one(X, y, train, test) for train, test in folds]
        print(f"  {name}, shuffle {shuffle}: {Compared.mean(found[-5:])}", flush=True)
    mean = Compared.mean(found)
    words = f"{name}: {mean}"
    good = mean.ours <= mean.theirs.mean()
    if name == "diabetes":
        good &= LEAST_COVERED <= mean.covered <= MOST_COVERED
        words += f"; 90% intervals cover {mean.covered:.1%}"
    seconds = (time.perf_counter() - began) / len(found)
    print(f"{words}; {seconds:.0f} s a fold{'' if good else '  NOT GOOD ENOUGH'}", flush=True)
    return good


def main() -> int:
    """Measure the tables asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", default=list(TABLES), help=", ".join(TABLES))
    parser.add_argument("--repeats", type=int, default=5, help="shuffles of five folds each")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    verdicts = [run(name, chosen.repeats) for name in chosen.tables]
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
