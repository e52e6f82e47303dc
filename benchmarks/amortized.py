"""The amortized prior: 20 data sets under one set of rules, and the cost of a step on a large network.

    python benchmarks/amortized.py                20 data sets: one learnt prior against 20 conditional ones
    python benchmarks/amortized.py step           time and memory of a step, 11,201 weights, 30 points

Fails where a step takes more than 20 ms or 200 MB. Both kinds of fits use the same engine and as many draws;
a conditional prior needs its warm start and its search for strength for every data set anew.
"""

from __future__ import annotations

import importlib.util
import resource
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from ocbnn.amortize import Learning
from ocbnn.amortize.learning import Elsewhere, Problem, learn
from ocbnn.amortize.objectives import Objective, divergence
from ocbnn.checking.check import check_rules
from ocbnn.errors import OCBNNWarning
from ocbnn.inference import infer
from ocbnn.inference.engines.hmc import Hmc
from ocbnn.inference.feed import Feed
from ocbnn.model import Model
from ocbnn.model.conditional import Scoring, rule_terms
from ocbnn.model.likelihoods import Bernoulli
from ocbnn.model.networks import MLP
from ocbnn.model.priors import DiagonalGaussian
from ocbnn.posterior.draws import Posterior
from ocbnn.rules.parse import parse_rule
from ocbnn.schema import Column, Schema, Target

EXAMPLE = Path(__file__).parents[1] / "examples" / "many_data_sets.py"
DATA_SETS, DRAWS = 20, 500
MOST_MILLISECONDS, MOST_MEGABYTES = 20.0, 200.0


def compare(count: int = DATA_SETS) -> int:
    """Total seconds and violations of both ways, side by side."""
    warnings.simplefilter("ignore", OCBNNWarning)
    specification = importlib.util.spec_from_file_location("many_data_sets", EXAMPLE)
    assert specification is not None
    assert specification.loader is not None
    example = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(example)
    engine = Hmc(warmup=300)
    began = time.perf_counter()
    prior = example.learn()
    learning = time.perf_counter() - began
    seconds = {"amortized": learning, "conditional": 0.0}
    violations: dict[str, list[float]] = {"amortized": [], "conditional": []}
    for seed in range(count):
        frame = example.data_set(seed)
        for way in seconds:
            began = time.perf_counter()
            if way == "amortized":
                posterior = example.fit(prior, frame, engine, DRAWS, seed)
            else:
                model = Model.build(
                    frame=frame,
                    target="effect",
                    schema=example.SCHEMA,
                    rules=[example.RULE],
                    network=prior.network,
                    noise=0.2,
                )
                result = infer(model, engine, chains=2, draws=DRAWS, seed=seed, cores=1)
                posterior = Posterior.from_result(result)
            seconds[way] += time.perf_counter() - began
            (rule,) = check_rules(posterior, [example.RULE], points=500, key=seed, ascent=False)
            violations[way].append(rule.epsilon_mean.value)
    for way, spent in seconds.items():
        mean, worst = np.mean(violations[way]), np.max(violations[way])
        once = f" ({learning:.0f} of them to learn the prior)" if way == "amortized" else ""
        print(
            f"{way:<12} {spent:6.0f} s for {count} data sets{once}; violation {mean:.4f}, worst {worst:.4f}"
        )
    return 0


def step(name: str) -> int:
    """Milliseconds and megabytes of a step of recidivism's size, above what a tiny network takes."""
    learn(*_problem(name, (3,)), 0)
    before = resident_megabytes()
    problem, feed, learning = _problem(name, (100, 100))
    learn(problem, feed, learning, 0)
    above = resident_megabytes() - before
    began = time.perf_counter()
    learn(problem, feed, learning, 1)
    milliseconds = 1000.0 * (time.perf_counter() - began) / learning.steps
    print(
        f"{name}: {problem.network.size:,} weights, 30 points: {milliseconds:.1f} ms a step (at most "
        f"{MOST_MILLISECONDS:.0f}), {above:.0f} MB (at most {MOST_MEGABYTES:.0f})"
    )
    return int(milliseconds > MOST_MILLISECONDS or above > MOST_MEGABYTES)


def _problem(name: str, hidden: tuple[int, ...]) -> tuple[Problem, Feed, Learning]:
    network = MLP(9, hidden, 1, "rbf")
    columns = tuple(Column(f"x{i}", "continuous", (-2.0, 2.0)) for i in range(9))
    schema = Schema(columns, Target("y", "classification", classes=(0, 1)))
    rule = parse_rule("if x0 > 0 then P(y = 1) = 0.3", schema)
    likelihood = Bernoulli()
    terms = rule_terms([rule], schema, Scoring(points=30), bounded=network.bounded)
    inputs = np.random.default_rng(0).uniform(-4, 4, (256, 9))
    elsewhere = Elsewhere(inputs, np.zeros((256, 1)), np.full((256, 1), 10.0))
    objective = Objective(likelihood, divergence("total-variation"), linearized=name == "linearized")
    base = DiagonalGaussian(np.zeros(network.size), np.ones(network.size))
    problem = Problem(network, base, (rule,), (0.05,), objective, elsewhere)
    learning = Learning(steps=200, points=30, samples=16, starts=1, candidates=4)
    return problem, Feed(Model(network, likelihood, base, terms, schema), 0, None), learning


def resident_megabytes() -> float:
    """The largest resident size so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    if sys.argv[1:] == ["step"]:
        sys.exit(max(step("linearized"), step("monte-carlo")))
    sys.exit(compare())
