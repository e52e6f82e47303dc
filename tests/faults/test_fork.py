"""A forked child that would wait for ever says what to do instead."""

import os
import signal
import warnings

import numpy as np
import pandas as pd
import pytest

from ocbnn.amortize import AmortizedPrior
from ocbnn.amortize.learning import Learning
from ocbnn.model.outputs import _Process
from ocbnn.schema import Schema
from small_estimators import small_regressor

SECONDS = 60


def in_forked_child(function) -> str:
    """What the function raises in a forked child, "" where it ends; a child that waits is killed."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX and Python both warn of forks, on some versions
        child = os.fork()
    if not child:
        signal.alarm(SECONDS)
        try:
            function()
            said = ""
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(write, said.encode())
        os._exit(0)
    _, status = os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    assert os.waitstatus_to_exitcode(status) == 0, "the child waited for ever"
    return said


@pytest.fixture(scope="module")
def rows():
    return pd.DataFrame({"x": np.linspace(-1, 1, 30)}), np.linspace(-1, 1, 30)


def learnt(rows) -> AmortizedPrior:
    schema = Schema.infer(rows[0].assign(y=rows[1]), target="y")
    learning = Learning(steps=5, points=8, samples=8)
    return AmortizedPrior.learn(["if x > 0.5 then y >= -3"], schema, hidden=(3,), learning=learning)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("what", ["predict", "check_rules", "fit", "learn"])
def test_after_jax_has_computed_a_fork_is_refused_with_the_remedy(rows, what):
    model = small_regressor(rules=["if x > 0.5 then y >= -3"]).fit(*rows)
    asked = {
        "predict": lambda: model.predict(rows[0]),
        "check_rules": lambda: model.check_rules(points=20),
        "fit": lambda: small_regressor().fit(*rows),
        "learn": lambda: learnt(rows),
    }
    said = in_forked_child(asked[what])
    assert said.startswith("OCBNNError: This process was forked")
    assert "spawn" in said
    assert "forkserver" in said
    assert "threads" in said
    asked[what]()  # and here it goes on


def test_learning_a_prior_is_computing(rows, monkeypatch):
    monkeypatch.setattr(_Process, "used", False)
    learnt(rows)
    assert _Process.used
