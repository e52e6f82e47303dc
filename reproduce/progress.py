"""One bar for a whole `reproduce`: how many fits are done of all, and about how long the rest will take.

    with watching(fits=8, shown=True):
        with one_fit() as progress:             # wherever a fit is made
            infer(model, …, progress=progress)

Nothing is shown, and no fit is slowed by being watched, where nobody looks: under --quiet, and on pipes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from ocbnn.inference import Tick

PARTS = {"warm-up": (0.0, 0.5), "sample": (0.5, 1.0), "optimise": (0.0, 1.0)}
"""Which part of a fit a phase is, from where to where; what comes before them cannot be told in advance."""


class Watch:
    """How many fits are done of all, and the bar that shows it, if one does."""

    def __init__(self, fits: int, console: Console | None = None) -> None:
        self.fits, self.done, self.began = fits, 0, time.perf_counter()
        self.bar = None if console is None else _bar(console)
        self.task = None if self.bar is None else self.bar.add_task("", total=fits, left="")

    def tick(self, tick: Tick) -> None:
        """A fit has come so far."""
        begin, end = PARTS.get(tick.phase, (0.0, 0.0))
        share = min(tick.done / tick.total, 1.0) if tick.total else 0.0
        self._show(tick.phase, begin + (end - begin) * share)

    def fitted(self) -> None:
        """A fit is done."""
        self.done += 1
        self._show("", 0.0)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Step aside while something else is written to the terminal."""
        if self.bar is None:
            yield
            return
        self.bar.stop()
        yield
        self.bar.start()

    def _show(self, phase: str, part: float) -> None:
        if self.bar is None or self.task is None:
            return
        left = time_left(time.perf_counter() - self.began, self.done + part, self.fits)
        self.bar.update(self.task, completed=self.done, description=phase, left=left)


def _bar(console: Console) -> Progress:
    return Progress(
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("fits"),
        TextColumn("{task.fields[left]}"),
        TextColumn("{task.description}", style="dim"),
        console=console,
        transient=True,
    )


def time_left(spent: float, done: float, fits: int) -> str:
    """In words, as if the fits to come took as long as those behind; nothing before there is any."""
    if done <= 0:
        return ""
    seconds = max(spent / done * (fits - done), 0.0)
    return f"about {seconds / 60:.0f} min left" if seconds >= 90 else f"about {seconds:.0f} s left"


_current: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watching(fits: int, *, shown: bool, console: Console | None = None) -> Iterator[Watch]:
    """Count fits while the context is open, and show them on a terminal."""
    console = console or Console(stderr=True)
    watch = Watch(fits, console if shown and console.is_terminal else None)
    token = _current.set(watch)
    try:
        with watch.bar or nullcontext():
            yield watch
    finally:
        _current.reset(token)


@contextmanager
def one_fit() -> Iterator[bool | Callable[[Tick], None]]:
    """One of the fits that are counted; gives what it is to take as `progress`."""
    watch = _current.get()
    yield False if watch is None or watch.bar is None else watch.tick
    if watch is not None:
        watch.fitted()
