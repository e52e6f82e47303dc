"""Figures of held-out rows: how good predictions are, and whether they mean what they say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from ocbnn.checking.draws import evenly
from ocbnn.errors import OCBNNError
from ocbnn.posterior.calibration import LEAST_ROWS, Calibration, Judged, judged, summarised
from ocbnn.posterior.conflict import compared, log_scores, point_predictions
from ocbnn.posterior.draws import Posterior
from ocbnn.posterior.predict import predict
from ocbnn.report.evidence import CalibrationFacts, Performance

MOST_ROWS = 4000
"""Held-out rows that are used; more would make figures hardly sharper."""
WIDTH_ROWS = 200


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Rows that no posterior has seen: coded, with their target in model units and raw."""

    coded: Float[np.ndarray, "n Q"]
    y_model: np.ndarray
    y: np.ndarray

    def __len__(self) -> int:
        return len(self.coded)


def held_out(posterior: Posterior, frame: pd.DataFrame | None, y: Any, seed: int) -> HeldOut | None:
    """The rows as figures need them, at most `MOST_ROWS` by lot; None where there are none."""
    if frame is None:
        if y is not None:
            raise OCBNNError("y was given without the rows it belongs to: give frame=… too.")
        return None
    target = posterior.target
    if y is None and target.name in frame.columns:
        y = frame[target.name]
    if y is None:
        raise OCBNNError(
            f"Held-out rows need their target: give y=…, or a frame with the column {target.name!r}."
        )
    coded = posterior.schema.encode(frame)
    raw = np.asarray(y)
    if len(raw) != len(coded):
        raise OCBNNError(f"There are {len(coded)} held-out rows, but {len(raw)} values of the target.")
    if not len(coded):
        return None
    model_y = target.to_model(pd.Series(raw, name=target.name))
    if len(coded) > MOST_ROWS:
        some = np.sort(np.random.default_rng(seed).choice(len(coded), MOST_ROWS, replace=False))
        coded, model_y, raw = coded[some], model_y[some], raw[some]
    return HeldOut(coded, model_y, raw)


def performance(posterior: Posterior, without: Posterior | None, rows: HeldOut) -> Performance:
    """Scores with and without the rules."""
    here = log_scores(posterior, rows.coded, rows.y)
    with_rules = _scores(posterior, rows, here)
    if without is None:
        return Performance(len(rows), with_rules)
    there = log_scores(without, rows.coded, rows.y)
    return Performance(len(rows), with_rules, _scores(without, rows, there), compared(here, there))


def _scores(posterior: Posterior, rows: HeldOut, log_score: Float[np.ndarray, " n"]) -> dict[str, float]:
    predicted = point_predictions(posterior, rows.coded)
    found = {"log_score": float(log_score.mean())}
    if posterior.classes:
        # Of two classes the squared error counts once, as is usual: a coin's is 0.25.
        squared = (predicted - np.eye(len(posterior.classes))[rows.y_model]) ** 2
        return found | {
            "accuracy": float((predicted.argmax(axis=1) == rows.y_model).mean()),
            "brier": float(squared.sum(axis=1).mean()) / (2.0 if len(posterior.classes) == 2 else 1.0),
        }
    error = predicted - posterior.target.to_raw(rows.y_model)
    few = rows.coded[evenly(len(rows), WIDTH_ROWS)]
    observation = predict(posterior, few, levels=(0.05, 0.95), coverage=None).observation
    assert observation is not None
    assert observation.quantiles is not None
    return found | {
        "mean_absolute_error": float(np.abs(error).mean()),
        "root_mean_squared_error": float(np.sqrt((error**2).mean())),
        "mean_width_90": float(np.diff(observation.quantiles, axis=1).mean()),
    }


def calibration_facts(posterior: Posterior, without: Posterior | None, rows: HeldOut) -> CalibrationFacts:
    """Calibration of all rows, and of those inside and outside of the ruled regions."""
    found = judged(posterior, rows.coded, rows.y)
    inside = np.zeros(len(rows), dtype=bool)
    for term in posterior.rules:
        inside |= term.rule.region.contains(rows.coded, term.schema)
    other = None
    if without is not None:
        other = _part(without, judged(without, rows.coded, rows.y), np.ones_like(inside))
    return CalibrationFacts(
        everywhere=_part(posterior, found, np.ones_like(inside)),
        inside=_part(posterior, found, inside),
        outside=_part(posterior, found, ~inside),
        without_everywhere=other,
        rows_inside=int(inside.sum()),
        rows_outside=int((~inside).sum()),
    )


def _part(posterior: Posterior, found: Judged, some: Bool[np.ndarray, " n"]) -> Calibration | None:
    if some.sum() < LEAST_ROWS:
        return None
    return summarised(posterior, Judged(*(each[some] for each in found)))
