"""The example of several data sets under one learnt prior runs, and its rule is kept in every one."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from amortized_cases import SMALL

EXAMPLE = Path(__file__).parents[2] / "examples" / "many_data_sets.py"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ocbnn.errors.OCBNNWarning")
def test_every_data_set_keeps_what_was_learnt_once(capsys):
    specification = importlib.util.spec_from_file_location("many_data_sets", EXAMPLE)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    reports = module.run(count=2, learning=SMALL, draws=100)
    assert "binds" in capsys.readouterr().out
    assert len(reports) == 2
    for (rule,) in reports:
        assert rule.epsilon_mean.value < 0.1
