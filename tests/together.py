"""What one of two processes that train together does.

`what` is an engine, "files" for rows in files, "die" for a second process that ends half-way, "resume" for
the rest of that run. The result is `<folder>/<index>.npz`.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ocbnn import OCBNNRegressor
from ocbnn.errors import OCBNNError
from ocbnn.estimators import large
from ocbnn.inference import infer
from ocbnn.inference.engines.bbb import Bbb
from ocbnn.inference.engines.sgld import Sgld
from ocbnn.inference.prepare import Settings
from ocbnn.model import Model

ENGINES = {"sgld": Sgld(warmup=50, step_size=1e-4)}
OPTIONS: dict[str, Any] = {"seed": 3, "draws": 50, "cores": 1, "batch": 65}


def model() -> Model:
    """A line with a rule, of 400 rows."""
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"x": generator.uniform(-2, 2, 400)})
    frame["y"] = 0.5 * frame["x"] + generator.normal(0, 0.2, 400)
    rules = ["if x > 1 then y >= 0"]
    return Model.build(frame=frame, target="y", rules=rules, hidden=(5,), noise=0.2, strength=10.0, points=20)


def drawn(what: str, **options: Any) -> Any:
    """A short run of one of the engines."""
    chains = {"chains": 2} if what == "sgld" else {}
    settings = Settings(warm=None, strength=None, nodes=False)
    return infer(
        model(), ENGINES.get(what, Bbb(steps=200)), prepare_with=settings, **OPTIONS, **chains, **options
    )


def fitted(folder: Path, what: str, index: int) -> dict[str, Any]:
    """What came of it, as arrays."""
    if what == "files":
        large.SAMPLE = 100
        found = large.LargeTable(folder / "in", "y")
        settings = Settings(warm=None, strength=None, nodes=False)
        estimator = OCBNNRegressor(engine=Bbb(steps=200), preparation=settings, hidden=(5,), random_state=0)
        estimator.fit(found, "y")
        draws = estimator.posterior_.draws
        return {"draws": draws, "rows": estimator.posterior_.model.stream.share(index, 2).rows}
    run = {"folder": folder / "run", "resume": what == "resume"} if what in ("die", "resume") else {}

    def die(tick: Any) -> None:
        if index == 1 and tick.done >= 100:
            os._exit(9)

    try:
        result = drawn(what, progress=die if what == "die" else False, **run)
    except OCBNNError as error:
        return {"said": str(error)}
    return {"draws": result.draws, "trace": result.trace}


def main(index: int, place: Path, what: str) -> None:
    """What one of two processes does after it has met the other one."""
    np.savez(place / f"{index}.npz", **fitted(place, what, index))
    if what == "die":
        os._exit(0)  # nobody is left to say goodbye to
