"""Settings files: every experiment has a plan in each, and they differ where text, code and we do."""

from __future__ import annotations

import pytest

from ocbnn.inference import ess
from ocbnn.inference.engines import ENGINES
from ocbnn.inference.engines.hmc import Hmc
from ocbnn.inference.engines.svgd import Svgd
from ocbnn.model.terms import Dirichlet, GaussianMixture, NegativeExponential
from reproduce.experiments import FIGURES
from reproduce.outcome import SETTINGS, PaperError
from reproduce.plans import plan

PARTS = {
    "fig5": [("svgd",), ("bbb",)],
    "bakeoff": [("regression",), ("classification",), ("regression", "truth"), ("classification", "truth")],
}


@pytest.mark.parametrize("quick", [False, True], ids=["whole", "quick"])
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_has_a_plan_in_every_setting(name, setting, quick):
    for part in PARTS.get(name, [()]):
        assert plan(name, setting, quick=quick, part=part).engine.name in ENGINES


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_bake_off_runs_every_engine(setting):
    for engine in ENGINES:
        assert plan("bakeoff", setting, part="regression", engine=engine).engine.name == engine


def test_options_of_another_engine_are_left_out():
    chosen = plan("fig3b", "paper")
    assert chosen.engine == Svgd(steps=1000, optimizer="adagrad", learning_rate=0.75, decay="constant")


def test_a_smoke_run_changes_little_and_only_where_it_is_asked_for():
    whole, quick = plan("fig1", "ours"), plan("fig1", "ours", quick=True)
    assert whole.run["until"] == ess(2100)
    assert quick.run["until"].most <= 50
    assert (whole.model, whole.term) == (quick.model, quick.term)


def test_what_does_not_exist_is_refused_in_a_sentence():
    with pytest.raises(PaperError, match="no setting 'theirs'"):
        plan("fig1", "theirs")
    with pytest.raises(PaperError, match="says nothing about 'fig9'"):
        plan("fig9", "ours")
    with pytest.raises(PaperError, match="part 'nuts' of fig5"):
        plan("fig5", "ours", part="nuts")


def test_errata_are_lines_that_differ():
    text, code = (lambda name, s=s, **o: plan(name, s, **o) for s in ("paper", "reference"))
    assert (text("fig2").term, code("fig2").term) == (Dirichlet(), Dirichlet(reference=True))  # C1
    assert (text("fig1").model["reduction"], code("fig1").model["reduction"]) == ("sum", "mean")  # C2
    sigmas = [p("fig6").term for p in (text, code)]
    assert sigmas[0] == GaussianMixture(sigma=1.25)
    assert sigmas[1].sigma == pytest.approx(1.25**0.5, abs=1e-3)  # C3
    assert (text("fig1").engine.adapt, code("fig1").engine.adapt) == (True, False)  # I2
    assert code("fig1").engine.step_size == 0.003
    rates = [[p("fig5", part=e).engine.learning_rate for e in ("svgd", "bbb")] for p in (text, code)]
    assert rates == [[0.75, 0.1], [0.5, 0.5]]  # I5
    assert [p("fig5", part="bbb").engine.initial_mean for p in (text, code)] == ["zero", "normal"]  # I3
    assert [p("fig4").own["strict"] for p in (text, code)] == [False, True]  # E2
    assert [plan("fig3c", setting).fixed_points for setting in SETTINGS] == [True, True, False]  # E1


def test_the_applications_dirichlet_is_a_sum_over_points_as_in_the_papers_equation():
    for setting in ("paper", "reference"):
        assert [plan(name, setting).model["reduction"] for name in ("clinical", "credit")] == ["sum", "sum"]
        assert plan("clinical", setting).term == Dirichlet(alpha=(2.0, 40.0))
    assert plan("credit", "reference").model["points"] == 500
    alphas = [plan("credit", setting).term.alpha for setting in ("paper", "reference")]
    assert alphas == [(10.0, 0.05), (10.0, 0.5)]


def test_the_text_is_followed_in_numbers():
    chosen = plan("fig1", "paper")
    assert chosen.term == NegativeExponential(tau0=15.0, tau1=2.0, raw=True)
    assert chosen.model["strength"] == 10_000
    assert isinstance(chosen.engine, Hmc)
    assert (chosen.engine.leapfrog_steps, chosen.engine.warmup) == (50, 10_000)
    assert (chosen.run["draws"], chosen.run["thin"]) == (1000, 10)
    assert plan("fig3a", "paper").own["paper_steps"] == 125
    assert plan("fig4", "paper").own["paper_steps"] == 50
