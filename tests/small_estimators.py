"""Estimators with budgets so small that a fit takes a fraction of a second."""

from typing import Any

import numpy as np
import pandas as pd

from ocbnn import OCBNNClassifier, OCBNNRegressor
from ocbnn.inference.engines.ensemble import Ensemble
from ocbnn.inference.prepare import Settings

UNPREPARED = Settings(warm=None, strength=None, nodes=False)
SMALL: dict[str, Any] = {
    "engine": Ensemble(steps=100, learning_rate=0.1),
    "hidden": (4,),
    "chains": 2,
    "batch": 20,
    "preparation": UNPREPARED,
    "cores": 1,
    "random_state": 0,
}


def small_regressor(**options: Any) -> OCBNNRegressor:
    return OCBNNRegressor(**{**SMALL, "noise": "constant", **options})


def small_classifier(**options: Any) -> OCBNNClassifier:
    return OCBNNClassifier(**{**SMALL, **options})


def blood_pressures(rows: int = 40, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    """Numbers, an amount and a category."""
    generator = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": generator.uniform(20, 90, rows),
            "dose": generator.lognormal(1, 1, rows),
            "ward": generator.choice(["ICU", "surgery"], rows),
        }
    )
    y = 100 + 2 * frame["age"] + 30 * (frame["ward"] == "ICU") + generator.normal(0, 3, rows)
    return frame, y.rename("pressure")


def functions_in_numpy(model: OCBNNRegressor, frame: pd.DataFrame) -> np.ndarray:
    """The network of a small fit to them in NumPy, from the raw table to raw outputs."""
    schema, flat = model.schema_, model.posterior_.flat
    dose = np.arcsinh(frame["dose"] / schema.column("dose").offset)
    columns = [
        ((values - schema.column(name).center) / schema.column(name).scale).to_numpy()
        for name, values in (("age", frame["age"]), ("dose", dose))
    ]
    levels = [(frame["ward"] == level).to_numpy(float) for level in ("ICU", "surgery")]
    inputs = np.column_stack([*columns, *levels])
    outputs = []
    for w in flat.astype(float):
        first, rest = w[: 4 * 4].reshape(4, 4), w[16:]
        hidden = np.tanh(inputs @ first + rest[:4])
        outputs.append(hidden @ rest[4:8] + inputs @ rest[8:12] + rest[12])
    return np.array(outputs) * schema.target.scale + schema.target.center


def noise_in_numpy(model: OCBNNRegressor) -> np.ndarray:
    """The learnt noise of every draw, in raw units."""
    return np.exp(model.posterior_.flat[:, -1].astype(float)) * model.schema_.target.scale
