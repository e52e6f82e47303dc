"""Evidence of every case, gathered once."""

from functools import cache
from pathlib import Path

import pytest

from ocbnn.report import Evidence, gather, write
from report_cases import CASES, NASTY, Case


@cache
def _case(name: str) -> Case:
    return CASES[name]()


@cache
def _evidence(name: str) -> Evidence:
    case = _case(name)
    sources = {"table": f"{NASTY}.csv"} if name == "nasty" else None
    return gather(case.posterior, without=case.without, frame=case.frame, points=200, sources=sources)


@pytest.fixture
def case_of():  # type: ignore[no-untyped-def]
    """A case by its name."""
    return _case


@pytest.fixture
def evidence_of():  # type: ignore[no-untyped-def]
    """The evidence of a case, by its name."""
    return _evidence


@pytest.fixture(scope="session")
def page_of(tmp_path_factory):  # type: ignore[no-untyped-def]
    """The written page of a case, by its name."""

    @cache
    def written(name: str) -> Path:
        folder = tmp_path_factory.mktemp("pages")
        return write(_evidence(name), _case(name).posterior, folder / (f"<b>{name}.html"))

    return written
