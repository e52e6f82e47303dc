"""How far a run is: a bar for people, ticks for programs, silence for pipes.

with reporting(True) as report:      # a Rich bar, if this is a terminal
report(Tick("sample", 500, 1000, 2.5, acceptance=0.8))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.text import Text


@dataclass(frozen=True)
class Tick:
    """Where a run is.

    Attributes:
        phase: "warm start", "strength", "warm-up", "sample", …
        done: steps of the phase behind us.
        total: steps of the phase; 0 where nobody knows.
        seconds: since the run began.
        rate: steps a second.
        remaining: seconds to the end of the phase at that rate.
        acceptance: mean over chains, of late.
        worst_rhat: over the probes so far.
        divergences: of late.
    """

    phase: str
    done: int
    total: int
    seconds: float
    rate: float | None = None
    remaining: float | None = None
    acceptance: float | None = None
    worst_rhat: float | None = None
    divergences: int = 0

    @classmethod
    def of(
        cls,
        phase: str,
        done: int,
        total: int,
        seconds: float,
        chunk: ChunkLike | None = None,
        *,
        worst_rhat: float | None = None,
    ) -> Tick:
        """A tick with its rate and the time left, and what a chunk of steps says of itself."""
        rate = done / seconds if seconds > 0 and done > 0 else None
        remaining = max(total - done, 0) / rate if rate and total else None
        acceptance = None if chunk is None else _finite_mean(chunk.acceptance)
        divergences = 0 if chunk is None else int(np.sum(chunk.diverged))
        return cls(phase, done, total, seconds, rate, remaining, acceptance, worst_rhat, divergences)


class ChunkLike(Protocol):
    """What a tick takes from a chunk of steps."""

    @property
    def acceptance(self) -> np.ndarray: ...
    @property
    def diverged(self) -> np.ndarray: ...


Report = Callable[[Tick], None]


@contextmanager
def reporting(progress: bool | Report = False, console: Console | None = None) -> Iterator[Report]:
    """Where ticks go: to the caller's function, to a bar on the terminal, or nowhere."""
    if callable(progress):
        yield progress
    elif progress:
        with RichProgress(console) as bar:
            yield bar
    else:
        yield _nowhere


class RichProgress:
    """A bar for each phase, on a terminal; elsewhere it says nothing."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self.bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            _Count(),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[figures]}"),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.phase: tuple[str, TaskID] | None = None

    def __enter__(self) -> Self:
        self.bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bars.stop()

    def __call__(self, tick: Tick) -> None:
        task = self._task(tick)
        self.bars.update(
            task, completed=tick.done, total=tick.total or None, figures=figures(tick), refresh=False
        )

    def _task(self, tick: Tick) -> TaskID:
        if self.phase is None or self.phase[0] != tick.phase:
            if self.phase is not None:
                self.bars.stop_task(self.phase[1])
            self.phase = (tick.phase, self.bars.add_task(tick.phase, total=tick.total or None, figures=""))
        return self.phase[1]


def figures(tick: Tick) -> str:
    """Acceptance, worst R-hat and divergences, as far as they are known."""
    words = []
    if tick.acceptance is not None and math.isfinite(tick.acceptance):
        words.append(f"acceptance {tick.acceptance:.2f}")
    if tick.worst_rhat is not None and not math.isnan(tick.worst_rhat):
        words.append(f"worst R-hat {tick.worst_rhat:.2f}")
    if tick.divergences:
        words.append(f"{tick.divergences:,} divergences")
    return " · ".join(words)


class _Count(ProgressColumn):
    """Steps done of all, and how many a second."""

    def render(self, task: Task) -> Text:
        total = "" if task.total is None else f"/{int(task.total):,}"
        speed = task.finished_speed or task.speed
        rate = f" {speed:,.0f}/s" if speed else ""
        return Text(f"{int(task.completed):,}{total}{rate}")


def _nowhere(tick: Tick) -> None:
    """Nobody is told."""


def _finite_mean(values: Any) -> float | None:
    values = np.asarray(values, dtype=float)
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else None
