"""A run in a process of its own, to be killed: `python killed_run.py ENGINE FOLDER`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from ocbnn.inference import Result, infer
from ocbnn.progress import Tick
from small_runs import QUICK, SHORT, figure_1b


def run(name: str, folder: Path | None = None, *, resume: bool = False, slowly: bool = False) -> Result:
    """A short run of three or four chunks."""

    def tell(tick: Tick) -> None:
        if slowly and tick.phase in ("warm-up", "optimise", "sample") and tick.done >= 50:
            time.sleep(60.0)  # time enough to be killed in

    return infer(
        figure_1b(),
        SHORT[name],
        chains=2,
        draws=100,
        seed=4,
        prepare_with=QUICK,
        cores=2,
        folder=folder,
        resume=resume,
        progress=tell,
    )


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]), slowly=True)
