"""The paper's experiments through the library's public interface.

    from ocbnn.paper import reproduce
    reproduce(["fig1"], "ours", Path("out"), seed=0, quick=False, progress=print)

- `registry`: the table of experiments, and names that stand for several.
- `plans`: `settings/{paper,reference,ours}.toml`, read as options of models, engines and runs.
- `runs`: from a plan, rows and rules to a posterior, and to a folder that `ocbnn.load` opens.
- `outcome`: what an experiment gives, its bounds, and its JSON; `notes`: what is said of bounds missed.
- `tables`, `published`: several seeds together, beside the paper's tables; `watching`: the bar.
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
    *,
    seeds: int = 1,
    bar: bool = False,
) -> None:
    """Run experiments, and write for each its pictures, its saved models and `out/<name>.json`.

    Args:
        names: of experiments, or of several at once: "fig3", "all".
        setting: "paper" (as the text says), "reference" (as the authors' code does) or "ours".
        out: a folder.
        seed: of everything.
        quick: a smoke run of seconds, whose figures mean nothing.
        progress: is told what goes on, a sentence at a time.
        seeds: how many, from `seed` on. Of several, each has a folder of its own, `out/seed-<number>/`, and
            the applications get a table of all of them beside the paper's, `out/<name>.md`.
        bar: show one for all of it, with the time left; only on a terminal.

    Raises:
        PaperError: an experiment or a setting that does not exist.
        KeyboardInterrupt: Ctrl-C, with a word on what is there and what is left to do.
    """
    from ocbnn.paper.outcome import require_setting
    from ocbnn.paper.published import PUBLISHED
    from ocbnn.paper.registry import expanded, fits
    from ocbnn.paper.tables import table
    from ocbnn.paper.watching import watching
    from ocbnn.storage.files import write_text

    require_setting(setting)
    chosen = expanded(names)
    out = Path(out)
    numbers = range(seed, seed + seeds)
    folders = {number: out if seeds == 1 else out / f"seed-{number}" for number in numbers}
    left = [(name, number) for name in chosen for number in numbers]
    with watching(sum(fits(name, setting, quick) for name, _ in left), shown=bar) as watch:

        def say(text: str) -> None:
            with watch.aside():
                progress(text)

        while left:
            name, number = left[0]
            say(f"{name} ({setting}, seed {number}): running")
            try:
                verdict = _one(name, setting, number, quick, folders[number])
            except KeyboardInterrupt:
                raise KeyboardInterrupt(_interrupted(left, setting, out)) from None
            say(f"{name} ({setting}, seed {number}): {verdict}")
            left.pop(0)
            if seeds > 1 and name in PUBLISHED and number == numbers[-1]:
                paths = [folder / f"{name}.json" for folder in folders.values()]
                write_text(out / f"{name}.md", table(paths) + "\n")
                say(f"{name} ({setting}): {seeds} seeds together in {out / f'{name}.md'}")


def _one(name: str, setting: str, seed: int, quick: bool, out: Path) -> str:
    """One experiment with one seed; how long it took and which bounds are missed, in words."""
    from ocbnn.paper.outcome import write
    from ocbnn.paper.registry import experiment

    out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    outcome = experiment(name)(setting, seed, quick, out)
    seconds = time.perf_counter() - began
    missed = write(out / f"{name}.json", outcome, name, setting, seed, quick, seconds)
    judged = setting == "ours" and not quick and outcome.bounds
    said = f"; missed: {', '.join(map(str, missed))}" if missed else "; all bounds met" if judged else ""
    return f"{seconds:.0f} s{said}"


def _interrupted(left: Sequence[tuple[str, int]], setting: str, out: Path) -> str:
    """What is not there after Ctrl-C: an experiment is written when it is done."""
    rest = " ".join(dict.fromkeys(name for name, _ in left))
    name, seed = left[0]
    return (
        f"Interrupted in {name} (seed {seed}), of which nothing is kept; what was said to be done is in "
        f"{out}. Left to do: {rest} ({setting})."
    )
