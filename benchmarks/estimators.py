"""Defaults against scikit-learn's networks on three small tables, five folds, no tuning.

    python benchmarks/estimators.py [diabetes wine cancer]

Prints RMSE (regression) or log-loss (classes), and for regression how many of the 90% intervals cover.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ocbnn import OCBNNClassifier, OCBNNRegressor

TABLES = {"diabetes": load_diabetes, "wine": load_wine, "cancer": load_breast_cancer}


def regression(X: pd.DataFrame, y: pd.Series, repeats: int) -> None:
    ours, theirs, covered, began = [], [], [], time.perf_counter()
    for repeat in range(repeats):
        for train, test in KFold(5, shuffle=True, random_state=repeat).split(X):
            model = OCBNNRegressor(random_state=0).fit(X.iloc[train], y.iloc[train])
            ours.append(np.sqrt(np.mean((model.predict(X.iloc[test]) - y.iloc[test]) ** 2)))
            low, high = model.predict_interval(X.iloc[test], 0.9).T
            covered.append(((low <= y.iloc[test]) & (y.iloc[test] <= high)).mean())
            peer = make_pipeline(StandardScaler(), MLPRegressor(random_state=0, max_iter=1000))
            predicted = peer.fit(X.iloc[train], y.iloc[train]).predict(X.iloc[test])
            theirs.append(np.sqrt(np.mean((predicted - y.iloc[test]) ** 2)))
    seconds = (time.perf_counter() - began) / len(ours)
    print(
        f"RMSE {np.mean(ours):.2f}, MLPRegressor {np.mean(theirs):.2f}; 90% intervals cover "
        f"{np.mean(covered):.1%}; {seconds:.0f} s a fold"
    )


def classification(X: pd.DataFrame, y: pd.Series) -> None:
    ours, theirs, began = [], [], time.perf_counter()
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
        model = OCBNNClassifier(random_state=0).fit(X.iloc[train], y.iloc[train])
        peer = make_pipeline(StandardScaler(), MLPClassifier(random_state=0, max_iter=1000))
        peer.fit(X.iloc[train], y.iloc[train])
        rows = np.arange(len(test))
        for scores, probabilities in (
            (ours, model.predict_proba(X.iloc[test])),
            (theirs, peer.predict_proba(X.iloc[test])),
        ):
            scores.append(-np.log(probabilities[rows, y.iloc[test]]).mean())
    seconds = (time.perf_counter() - began) / len(ours)
    print(f"log-loss {np.mean(ours):.4f}, MLPClassifier {np.mean(theirs):.4f}; {seconds:.0f} s a fold")


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    for name in names or list(TABLES):
        X, y = TABLES[name](return_X_y=True, as_frame=True)
        print(f"{name}: ", end="", flush=True)
        if name == "diabetes":
            regression(X, y, repeats=1)
        else:
            classification(X, y)


if __name__ == "__main__":
    main(sys.argv[1:])
