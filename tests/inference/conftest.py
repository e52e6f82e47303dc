"""Runs that several tests look at: compiled once a session."""

from __future__ import annotations

import pytest

from ocbnn.model import Model
from small_runs import figure_1b


@pytest.fixture(scope="session")
def model() -> Model:
    """Figure 1b's model; runs of this one object share what is compiled."""
    return figure_1b()
