"""The table of experiments. A new one is a row here, and a module of its own with two functions:

fig1(setting, seed, quick, out) -> Outcome        what it does
fits(setting, quick) -> int                       how many fits that takes, for the bar
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType

from ocbnn.paper.outcome import Outcome, PaperError
from ocbnn.schema.reading import did_you_mean

Experiment = Callable[[str, int, bool, Path], Outcome]
"""Setting, seed, quick, and the folder that pictures and saved models go to."""

FIGURES: dict[str, str] = {
    "fig1": "figure1:fig1",
    "fig2": "figure2:fig2",
    "fig3a": "figure3a:fig3a",
    "fig3b": "figure3b:fig3b",
    "fig3c": "figure3c:fig3c",
    "fig4": "figure4:fig4",
    "fig5": "figure5:fig5",
    "fig6": "figure6:fig6",
    "bakeoff": "bakeoff:bakeoff",
    "conflict": "conflicting:conflicting",
}
APPLICATIONS: dict[str, str] = {
    "clinical": "clinical:clinical",
    "recidivism": "recidivism:recidivism",
    "credit": "credit:credit",
}

EXPERIMENTS: dict[str, str] = {**FIGURES, **APPLICATIONS}
"""By name, as `module:function` of this package: they are imported when they run."""

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
            hint = did_you_mean(name, known)
            raise PaperError(f"There is no experiment {name!r}; choose among {', '.join(known)}.{hint}")
        found.update(dict.fromkeys(GROUPS.get(name, (name,))))
    return tuple(found)


def experiment(name: str) -> Experiment:
    """The function behind a name."""
    _, function = EXPERIMENTS[name].split(":")
    chosen: Experiment = getattr(_module(name), function)
    return chosen


def fits(name: str, setting: str, quick: bool) -> int:
    """How many fits an experiment makes, for the bar."""
    return int(_module(name).fits(setting, quick))


def _module(name: str) -> ModuleType:
    module, _ = EXPERIMENTS[name].split(":")
    return import_module(f"ocbnn.paper.{module}")
