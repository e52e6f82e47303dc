"""The paper's experiments through the library's public interface.

    from ocbnn.paper import reproduce
    reproduce(["fig1"], "ours", Path("out"), seed=0, quick=False, progress=print)

- `registry`: the table of experiments, and names that stand for several.
- `plans`: `settings/{paper,reference,ours}.toml`, read as options of models, engines and runs.
- `runs`: from a plan, rows and rules to a posterior, and to a folder that `ocbnn.load` opens.
- `outcome`: what an experiment gives, its bounds, and its JSON.
- one module for each figure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

__all__ = ["reproduce"]


def reproduce(
    names: Sequence[str],
    setting: str = "ours",
    out: Path = Path("reproduced"),
    seed: int = 0,
    quick: bool = False,
    progress: Callable[[str], None] = print,
) -> None:
    """Run experiments, and write for each its pictures, its saved models and `out/<name>.json`.

    Args:
        names: of experiments, or of several at once: "fig3", "all".
        setting: "paper" (as the text says), "reference" (as the authors' code does) or "ours".
        out: a folder.
        seed: of everything.
        quick: a smoke run of seconds, whose figures mean nothing.
        progress: is told what goes on, a sentence at a time.

    Raises:
        PaperError: an experiment or a setting that does not exist.
    """
    from ocbnn.paper.outcome import require_setting, write
    from ocbnn.paper.registry import expanded, experiment

    require_setting(setting)
    chosen = expanded(names)
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    for name in chosen:
        progress(f"{name} ({setting}): running")
        began = time.perf_counter()
        outcome = experiment(name)(setting, seed, quick, out)
        seconds = time.perf_counter() - began
        missed = write(out / f"{name}.json", outcome, name, setting, seed, quick, seconds)
        judged = setting == "ours" and not quick and outcome.bounds
        verdict = (
            f"; missed: {', '.join(map(str, missed))}" if missed else "; all bounds met" if judged else ""
        )
        progress(f"{name} ({setting}): {seconds:.0f} s{verdict}")
