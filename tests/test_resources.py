"""What the machine has, and that nothing is begun that would need more."""

import jax
import numpy as np
import pandas as pd
import pytest

from ocbnn import infer, regions
from ocbnn.errors import ResourceError
from ocbnn.inference.engines.bbb import Bbb
from ocbnn.inference.engines.stein import squared_distances
from ocbnn.model import Model
from ocbnn.model.networks import MLP
from ocbnn.resources import UNKNOWN, free_memory, require_memory
from small_estimators import small_regressor


def test_the_memory_that_is_free_is_what_the_machine_and_its_container_leave(tmp_path):
    machine = tmp_path / "meminfo"
    machine.write_text("MemTotal: 2000 kB\nMemFree: 10 kB\nMemAvailable: 1000 kB\nHugePages_Total: 0\n")
    assert free_memory(machine, tmp_path) == 1000 * 1024
    for name, content in (("max", "600000"), ("current", "500000"), ("stat", "anon 7\nfile 50000\n")):
        (tmp_path / f"memory.{name}").write_text(content)
    assert free_memory(machine, tmp_path) == 150_000  # caches make room
    (tmp_path / "memory.max").write_text("max\n")
    assert free_memory(machine, tmp_path) == 1000 * 1024


def test_where_the_system_does_not_say_what_is_free_there_is_still_a_limit(tmp_path):
    assert 0 < free_memory(tmp_path / "nowhere", tmp_path) <= UNKNOWN
    assert 0 < free_memory() <= UNKNOWN


# What would not fit is refused before it is made ------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    frame = pd.DataFrame({"x": np.linspace(0, 1, 20), "y": np.linspace(0, 1, 20)})
    return Model.build(frame=frame, target="y", hidden=(3,), rules=["if x > 0.5 then y >= -3"])


HUGE = 10**13
REFUSED = {
    "hidden units of a model": lambda model: Model.build(schema=model.schema, hidden=(HUGE,)),
    "two wide layers": lambda model: MLP(1, (10**6, 10**6)),
    "hidden units of an estimator": lambda model: small_regressor(hidden=HUGE).fit(
        [[0.0], [1.0]], [0.0, 1.0]
    ),
    "draws of an estimator": lambda model: small_regressor(draws=HUGE).fit([[0.0], [1.0]], [0.0, 1.0]),
    "points of rules": lambda model: Model.build(
        schema=model.schema, rules=["if x > 0.5 then y >= 0"], points=HUGE
    ),
    "points of a region": lambda model: regions.sample(0, regions.Everywhere(), model.schema, None, HUGE),
    "draws": lambda model: infer(model, draws=HUGE),
    "draws beyond floats": lambda model: infer(model, draws=10**400),
    "chains": lambda model: infer(model, chains=HUGE),
    "particles": lambda model: infer(model, "svgd", chains=HUGE),
    "steps between draws": lambda model: infer(model, thin=HUGE),
    "steps": lambda model: infer(model, Bbb(steps=HUGE)),
    "distances between particles": lambda model: jax.eval_shape(
        squared_distances, jax.ShapeDtypeStruct((10**7, 4), np.float32)
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit_is_refused_with_the_estimate_and_the_limit(what, model):
    with pytest.raises(ResourceError, match=r"would take at least [\d,.]+ .* (are free|the limit is)"):
        REFUSED[what](model)


def test_checks_and_samples_that_do_not_fit_are_refused():
    frame = pd.DataFrame({"x": np.linspace(0, 1, 20)})
    fitted = small_regressor(rules=["if x > 0.5 then y >= -3"]).fit(frame, frame["x"].rename("y"))
    for ask in (
        lambda: fitted.check_rules(points=HUGE),
        lambda: fitted.sample_predictive(frame, samples=HUGE),
        lambda: fitted.enforce().sample_predictive(frame, samples=HUGE),
    ):
        with pytest.raises(ResourceError, match="are free"):
            ask()


def test_what_is_free_decides(monkeypatch):
    require_memory(2**30, "This", "Less.")
    monkeypatch.setattr("ocbnn.resources.free_memory", lambda: 2**29)
    with pytest.raises(ResourceError, match=r"This would take at least 1\.07 GB; 537 MB are free\. Less\."):
        require_memory(2**30, "This", "Less.")
