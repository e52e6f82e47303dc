from __future__ import annotations

import pytest

from ocbnn.posterior.draws import Posterior
from reproduce.data import toys
from reproduce.plans import Plan
from reproduce.runs import run
from small_runs import QUICK, SHORT


@pytest.fixture(scope="session")
def small_plan() -> Plan:
    """Figure 1's problem with three units, a given strength and a short chain."""
    model = {"hidden": (3,), "noise": 0.1, "standardize": False, "points": 10, "strength": 100.0}
    return Plan(model, None, None, SHORT["hmc"], {"chains": 2, "draws": 20}, QUICK, False, {})


@pytest.fixture(scope="session")
def small_prior(small_plan) -> Posterior:
    """Draws of the prior with the rule and without data."""
    return run(small_plan, toys.figure_1(), [toys.FIGURE_1_RULE], seed=0, prior_only=True)
