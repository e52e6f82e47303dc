"""A rule that the data contradict where there are no data: is it kept, and what does it cost elsewhere?

    python benchmarks/empty_corner.py [diabetes wine cancer] [--folds 0 1 2 3 4] [--corners near remote]
                                      [--shuffle 0]

For each table the corner is where two columns are both extreme and no row of the whole table is; the rule
demands there what the model without rules finds least likely. The near corner is the largest that is empty,
right beside the rows; the remote one is beyond all rows in both columns. Prints, over the folds: how far the
rule is broken without it in the prior and with it, and the score of held-out rows (R², accuracy) and the loss
(RMSE, log-loss) of both models. Fails if a rule is not met within its tolerance, or if score or loss of
held-out rows change by more than 1%.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.model_selection import KFold, StratifiedKFold

from ocbnn import OCBNNClassifier, OCBNNRegressor

TABLES = {"diabetes": load_diabetes, "wine": load_wine, "cancer": load_breast_cancer}
CORNERS = {"near": (0.2, 0.15, 0.1, 0.05, 0.02, 0.01, 0.0), "remote": (0.0,)}
"""Shares of rows beyond each threshold, in the order in which they are tried."""
TOLERANCE, MOST_CHANGE = 0.01, 0.01


class Fold(NamedTuple):
    """One fold with and without the rule."""

    rule: str
    broken_without: float
    broken: float
    broken_at_most: float
    score_without: float
    score: float
    loss_without: float
    loss: float


def empty_corner(X: pd.DataFrame, y: pd.Series, corner: str) -> tuple[str, pd.DataFrame]:
    """A condition on two columns under which no row falls, and the middle row moved there.

    One column is the one that says most about the target, the other the one that has least to do with it.
    X has all rows, y those of the fit.
    """
    numbers = X.loc[:, X.nunique() > 10]
    one = str(numbers.loc[y.index].corrwith(y).abs().idxmax())
    two = str(numbers.corrwith(X[one]).abs().idxmin())
    for share in CORNERS[corner]:
        for side in (1, -1):
            low, high = X[one].quantile(1 - share), X[two].quantile(1 - share if side > 0 else share)
            inside = (X[one] > low) & (side * X[two] > side * high)
            if not inside.any():
                sign = ">" if side > 0 else "<"
                place = X.median().to_frame().T
                place[one], place[two] = X[one].max(), X[two].max() if side > 0 else X[two].min()
                return f"`{one}` > {low:.6g} and `{two}` {sign} {high:.6g}", place
    raise RuntimeError("no corner of these two columns is empty")


def contradiction(model: Any, X: pd.DataFrame, y: pd.Series, corner: str) -> str:
    """The rule: in the empty corner of all rows, what the model without rules finds least likely there."""
    condition, place = empty_corner(X, y, corner)
    if isinstance(model, OCBNNClassifier):
        return f"if {condition} then {y.name} = {model.classes_[model.predict_proba(place)[0].argmin()]}"
    low, high = y.quantile(0.25), y.quantile(0.75)
    above = model.predict(place)[0] > y.median()
    return f"if {condition} then {y.name} {'<=' if above else '>='} {low if above else high:.6g}"


def loss(model: Any, X: pd.DataFrame, y: pd.Series) -> float:
    """RMSE, or the log-loss."""
    if isinstance(model, OCBNNRegressor):
        return float(np.sqrt(np.mean((model.predict(X) - y) ** 2)))
    return float(-np.log(model.predict_proba(X)[np.arange(len(y)), y]).mean())


def compared(
    kind: type, X: pd.DataFrame, y: pd.Series, split: tuple[np.ndarray, np.ndarray], corners: Sequence[str]
) -> dict[str, Fold]:
    """One fold: fitted without rules, then with the rule of each corner."""
    train, test = split
    rows, target = X.iloc[train], y.iloc[train]
    held_out, truth = X.iloc[test], y.iloc[test]
    free = kind(random_state=0).fit(rows, target)
    found = {}
    for corner in corners:
        rule = contradiction(free, X, target, corner)
        ruled = kind(rules=[rule], tolerance=TOLERANCE, random_state=0).fit(rows, target)
        kept = ruled.check_rules()[0].epsilon_mean
        broken = free.check_rules(rules=[rule], ascent=False)[0].epsilon_mean
        found[corner] = Fold(
            rule,
            broken.value,
            kept.value,
            kept.high,
            free.score(held_out, truth),
            ruled.score(held_out, truth),
            loss(free, held_out, truth),
            loss(ruled, held_out, truth),
        )
        print(f"  {corner}: {found[corner]}", flush=True)
    return found


def run(name: str, shuffle: int, folds: Sequence[int], corners: Sequence[str]) -> dict[str, list[Fold]]:
    """Some of five folds of one shuffle, by corner."""
    X, y = TABLES[name](return_X_y=True, as_frame=True)
    regression = name == "diabetes"
    folding = (KFold if regression else StratifiedKFold)(5, shuffle=True, random_state=shuffle)
    splits = list(folding.split(X, y))
    kind = OCBNNRegressor if regression else OCBNNClassifier
    found = [compared(kind, X, y, splits[fold], corners) for fold in folds]
    return {corner: [fold[corner] for fold in found] for corner in corners}


def judged(name: str, corner: str, found: list[Fold]) -> bool:
    """Print the means over the folds; whether the rule is met, and at how little a cost elsewhere."""
    mean = {field: float(np.mean([getattr(fold, field) for fold in found])) for field in Fold._fields[1:]}
    changes = {
        each: abs(mean[each] - mean[f"{each}_without"]) / mean[f"{each}_without"]
        for each in ("score", "loss")
    }
    good = all(fold.broken <= TOLERANCE for fold in found) and max(changes.values()) <= MOST_CHANGE
    print(
        f"{name}, {corner} corner: {found[0].rule}\n  broken {mean['broken_without']:.3f} without it, "
        f"{mean['broken']:.4f} with it (at most {max(fold.broken_at_most for fold in found):.4f}); elsewhere "
        f"score {mean['score_without']:.4f} and {mean['score']:.4f} ({changes['score']:.2%}), loss "
        f"{mean['loss_without']:.4f} and {mean['loss']:.4f} ({changes['loss']:.2%})"
        f"{'' if good else '  NOT GOOD ENOUGH'}",
        flush=True,
    )
    return good


def main(arguments: list[str]) -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", default=list(TABLES), help=", ".join(TABLES))
    parser.add_argument("--folds", type=int, nargs="+", choices=range(5), default=range(5))
    parser.add_argument("--corners", nargs="+", choices=list(CORNERS), default=list(CORNERS))
    parser.add_argument("--shuffle", type=int, default=0, help="seed of the folds")
    chosen = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    verdicts = [
        judged(name, corner, folds)
        for name in chosen.tables
        for corner, folds in run(name, chosen.shuffle, chosen.folds, chosen.corners).items()
    ]
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
