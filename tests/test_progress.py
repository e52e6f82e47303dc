"""Progress: a bar on terminals, silence elsewhere, ticks for programs."""

from __future__ import annotations

import io
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from ocbnn.progress import RichProgress, Tick, figures, reporting


def console(terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=120, color_system=None)


def written(screen: Console) -> str:
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


CHUNK = SimpleNamespace(acceptance=np.array([[0.7, np.nan], [0.9, 0.8]]), diverged=np.array([[True, False]]))


class TestTick:
    def test_of_a_chunk_has_rate_time_left_and_its_figures(self) -> None:
        tick = Tick.of("sample", 500, 2000, 2.0, CHUNK, worst_rhat=1.02)
        assert tick.rate == 250.0
        assert tick.remaining == 6.0
        assert tick.acceptance == pytest.approx(0.8)
        assert tick.worst_rhat == 1.02
        assert tick.divergences == 1

    @pytest.mark.parametrize(("done", "total", "seconds"), [(0, 100, 1.0), (10, 100, 0.0), (0, 0, 0.0)])
    def test_without_time_or_work_behind_it_promises_nothing(
        self, done: int, total: int, seconds: float
    ) -> None:
        tick = Tick.of("sample", done, total, seconds)
        assert tick.rate is None
        assert tick.remaining is None

    def test_past_its_total_has_no_time_left(self) -> None:
        assert Tick.of("sample", 120, 100, 1.0).remaining == 0.0

    def test_figures_leave_out_what_is_unknown(self) -> None:
        assert figures(Tick("sample", 0, 0, 0.0)) == ""
        assert figures(Tick("sample", 1, 2, 1.0, worst_rhat=float("nan"), acceptance=float("nan"))) == ""
        known = Tick("sample", 1, 2, 1.0, acceptance=0.81, worst_rhat=1.013, divergences=1200)
        assert figures(known) == "acceptance 0.81 · worst R-hat 1.01 · 1,200 divergences"


class TestBar:
    TICKS = (
        Tick("warm start", 0, 0, 0.0),
        Tick("warm-up", 400, 400, 1.0, acceptance=0.75),
        Tick("sample", 1000, 2000, 3.0, acceptance=0.81, worst_rhat=1.013),
        Tick("sample", 2000, 2000, 5.0, acceptance=0.82, worst_rhat=1.004),
    )

    def test_shows_phases_counts_acceptance_and_rhat_on_a_terminal(self) -> None:
        screen = console(terminal=True)
        with reporting(True, screen) as report:
            for tick in self.TICKS:
                report(tick)
        text = written(screen)
        for words in (
            "warm start",
            "warm-up",
            "sample",
            "2,000/2,000",
            "acceptance 0.82",
            "worst R-hat 1.00",
        ):
            assert words in text

    def test_shows_the_rate(self) -> None:
        screen = console(terminal=True)
        clock = iter(np.arange(0.0, 1000.0, 0.5))
        screen.get_time = lambda: next(clock)  # type: ignore[method-assign]
        bar = RichProgress(screen)
        bar.bars.get_time = lambda: next(clock)  # type: ignore[method-assign]
        with bar:
            for done in (100, 200, 300, 400):
                bar(Tick("sample", done, 1000, 1.0))
        assert "/s" in written(screen)

    def test_has_one_bar_for_a_phase(self) -> None:
        bar = RichProgress(console(terminal=True))
        with bar:
            for tick in self.TICKS:
                bar(tick)
        assert [task.description for task in bar.bars.tasks] == ["warm start", "warm-up", "sample"]

    def test_says_nothing_where_there_is_no_terminal(self) -> None:
        screen = console(terminal=False)
        with reporting(True, screen) as report:
            for tick in self.TICKS:
                report(tick)
        assert written(screen) == ""

    def test_is_closed_when_the_run_fails(self) -> None:
        bar = RichProgress(console(terminal=True))

        def interrupted() -> None:
            with bar:
                bar(self.TICKS[0])
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert not bar.bars.live.is_started


def test_a_function_is_called_with_every_tick() -> None:
    seen: list[Tick] = []
    with reporting(seen.append) as report:
        for tick in TestBar.TICKS:
            report(tick)
    assert seen == list(TestBar.TICKS)


def test_without_progress_nobody_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with reporting(False) as report:
        report(Tick("sample", 1, 2, 1.0))
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
