"""The entry point: every experiment as a smoke run writes its JSON, its pictures and models that load."""

from __future__ import annotations

import json

import pytest

import ocbnn
from ocbnn.paper import reproduce
from ocbnn.paper.registry import FIGURES

PROMISED = ("rhat_worst", "ess_worst", "epsilon_mean", "epsilon_worst", "draws_violating", "points_violating")
RUNS = {
    "fig1": {"baseline", "ocbnn", "prior", "prior_baseline"},
    "fig2": {"baseline", "ocbnn", "prior", "prior_baseline"},
    "fig3a": {"baseline", "ocbnn", "prior"},
    "fig3b": {"baseline", "ocbnn"},
    "fig4": {"baseline", "ocbnn", "prior"},
    "fig5": {"svgd", "svgd_baseline", "bbb", "bbb_baseline"},
    "fig6": {"baseline", "ocbnn"},
}


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["ours", "paper", "reference"])
@pytest.mark.parametrize("name", FIGURES)
def test_a_smoke_run_writes_everything_that_is_promised(name, setting, tmp_path):
    said: list[str] = []
    reproduce([name], setting, tmp_path, seed=1, quick=True, progress=said.append)
    content = json.loads((tmp_path / f"{name}.json").read_text())
    assert (content["name"], content["setting"], content["seed"]) == (name, setting, 1)
    assert content["seconds"] > 0
    assert RUNS.get(name, set()) <= set(content["runs"])
    for run, figures in content["runs"].items():
        posterior = ocbnn.load(tmp_path / name / run).posterior_
        assert posterior.schema.names in (("x",), ("x1", "x2"))
        if name not in ("fig3c", "fig4"):
            assert set(PROMISED) <= set(figures)
    for kind in ("png", "svg"):
        assert (tmp_path / f"{name}.{kind}").stat().st_size > 1000
    assert said[-1].startswith(f"{name} ({setting}): ")
