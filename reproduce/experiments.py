"""The table of experiments, and `reproduce`, which runs them.

A new experiment is a function `(setting, seed, quick, out) -> Outcome` and a row of a table here.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ocbnn.inference import ENGINES
from reproduce.applications.clinical import clinical
from reproduce.applications.credit import credit
from reproduce.applications.recidivism import folds, recidivism
from reproduce.figures.bakeoff import bakeoff
from reproduce.figures.conflict import conflict
from reproduce.figures.fig1 import fig1, fig5
from reproduce.figures.fig2 import fig2
from reproduce.figures.fig3 import fig3a, fig3b, fig3c
from reproduce.figures.fig4 import fig4
from reproduce.figures.fig6 import fig6
from reproduce.outcome import Outcome, PaperError, bounds, require_setting, write, write_text
from reproduce.plans import plan
from reproduce.progress import watching
from reproduce.tables import has_table, table


class Experiment(NamedTuple):
    """What an experiment does, and how many fits that takes, for the bar.

    Attributes:
        run: setting, seed, quick, and the folder that pictures and saved models go to.
        fits: a number, or a function of the plan's own numbers, the setting, and quick.
    """

    run: Callable[[str, int, bool, Path], Outcome]
    fits: int | Callable[[Mapping, str, bool], int]


FIGURES: dict[str, Experiment] = {
    "fig1": Experiment(fig1, 4),
    "fig2": Experiment(fig2, 4),
    "fig3a": Experiment(fig3a, 4),
    "fig3b": Experiment(fig3b, 2),
    "fig3c": Experiment(fig3c, lambda own, setting, quick: own["seeds"] * (1 + len(own["points"]))),
    "fig4": Experiment(fig4, 4),
    "fig5": Experiment(fig5, 4),
    "fig6": Experiment(fig6, 2),
    "bakeoff": Experiment(bakeoff, 2 * (1 + len(ENGINES))),
    "conflict": Experiment(conflict, lambda own, setting, quick: len(own["rows"]) * len(own["widths"])),
}
APPLICATIONS: dict[str, Experiment] = {
    "clinical": Experiment(clinical, lambda own, setting, quick: 2 * own["folds"]),
    "recidivism": Experiment(
        recidivism, lambda own, setting, quick: 4 + 2 * folds(quick) if setting == "ours" else 6
    ),
    "credit": Experiment(credit, 3),
}
EXPERIMENTS = {**FIGURES, **APPLICATIONS}
GROUPS: dict[str, tuple[str, ...]] = {
    "fig3": ("fig3a", "fig3b", "fig3c"),
    "all": tuple(FIGURES),
    "applications": tuple(APPLICATIONS),
}
"""Names that stand for several."""


def expanded(names: Sequence[str]) -> tuple[str, ...]:
    """The experiments that these names stand for, each once, in their order."""
    found: dict[str, None] = {}
    for name in names:
        if name not in EXPERIMENTS and name not in GROUPS:
            known = (*EXPERIMENTS, *GROUPS)
            close = difflib.get_close_matches(name, known, 1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise PaperError(f"There is no experiment {name!r}; choose among {', '.join(known)}.{hint}")
        found.update(dict.fromkeys(GROUPS.get(name, (name,))))
    return tuple(found)


def fits(name: str, setting: str, quick: bool) -> int:
    """How many fits an experiment makes."""
    count = EXPERIMENTS[name].fits
    return count if isinstance(count, int) else count(plan(name, setting, quick=quick).own, setting, quick)


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
        seeds: how many seeds, from `seed` on. Each of several has its own folder, `out/seed-<number>/`, and
            the applications get a table of all of them beside the paper's, `out/<name>.md`.
        bar: show one for all of it, with the time left; only on a terminal.

    Raises:
        PaperError: an experiment or a setting that does not exist, or a folder that cannot be written to.
        KeyboardInterrupt: Ctrl-C, with a word on what is there and what is left to do.
    """
    require_setting(setting)
    chosen = expanded(names)
    numbers = range(seed, seed + seeds)
    folders = {number: out if seeds == 1 else out / f"seed-{number}" for number in numbers}
    left = [(name, number) for name in chosen for number in numbers]
    _require_places([folders[number] / f"{name}.json" for name, number in left])
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
            if seeds > 1 and has_table(name) and number == numbers[-1]:
                paths = [folder / f"{name}.json" for folder in folders.values()]
                write_text(out / f"{name}.md", table(paths) + "\n")
                say(f"{name} ({setting}): {seeds} seeds together in {out / f'{name}.md'}")


def _require_places(paths: Sequence[Path]) -> None:
    """Refuse, before any work is done, files that could not be written."""
    for path in paths:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PaperError(f"{path.parent} is not a folder, nor can it be: {error.strerror}.") from None
        if path.is_dir():
            raise PaperError(f"{path} is a folder where a file should be. Remove it, or give another --out.")


def _one(name: str, setting: str, seed: int, quick: bool, out: Path) -> str:
    """One experiment with one seed; how long it took and which bounds are missed, in words."""
    began = time.perf_counter()
    outcome = EXPERIMENTS[name].run(setting, seed, quick, out)
    seconds = time.perf_counter() - began
    missed = write(out / f"{name}.json", outcome, name, setting, seed, quick, seconds)
    judged = setting == "ours" and not quick and bounds(name)
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
