"""Threads report and predict at once as if each were alone, and Matplotlib stays as the user has it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot

from ocbnn.posterior.predict import predict
from ocbnn.report import gather, html
from report_cases import CASES, Case

THREADS = 8


def reported(case: Case) -> str:
    evidence = gather(case.posterior, without=case.without, frame=case.frame, points=20)
    return html(replace(evidence, made="today"))


@contextmanager
def unchanged() -> Iterator[None]:
    """Matplotlib's settings, backend and open figures are what they were."""
    before = dict(mpl.rcParams), mpl.get_backend(), pyplot.get_fignums()
    yield
    assert (dict(mpl.rcParams), mpl.get_backend(), pyplot.get_fignums()) == before


@pytest.mark.slow
def test_reports_and_predictions_of_eight_threads_are_those_of_one() -> None:
    cases = [CASES[name]() for name in ("classes", "no rules")]
    rows = cases[1].posterior.schema.decode(np.linspace(-2, 2, 300)[:, None])
    expected = [reported(case) for case in cases]
    points = predict(cases[1].posterior, rows).point

    def work(index: int) -> tuple[str, np.ndarray]:
        page = reported(cases[index % len(cases)])
        return page, predict(cases[1].posterior, rows).point

    with unchanged(), ThreadPoolExecutor(THREADS) as pool:
        results = list(pool.map(work, range(THREADS)))
    for index, (page, found) in enumerate(results):
        assert page == expected[index % len(cases)]
        np.testing.assert_array_equal(found, points)


def test_a_report_looks_the_same_under_any_style_of_the_user() -> None:
    case = CASES["numbers"]()
    evidence = gather(case.posterior, without=case.without, frame=case.frame, points=20)
    expected = html(evidence)
    for style in ("dark_background", "seaborn-v0_8-poster"):
        with pyplot.style.context(style), unchanged():
            assert html(evidence) == expected, style


def test_a_report_leaves_the_users_figure_alone() -> None:
    figure = pyplot.figure()
    try:
        with unchanged():
            reported(CASES["no rules"]())
        assert pyplot.gcf() is figure
    finally:
        pyplot.close(figure)
