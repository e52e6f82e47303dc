"""One set of rules, many data sets: learn the rules once, then fit every data set under the learnt prior.

Several plants measure how yield depends on dose, each with few rows. One thing is known everywhere: above a
dose of 2 the yield is never negative. `python examples/many_data_sets.py` learns that once and fits them all.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from ocbnn import AmortizedPrior, Schema, infer
from ocbnn.amortize import Learning
from ocbnn.checking.check import check_rules
from ocbnn.checking.results import RuleChecks
from ocbnn.inference import Settings
from ocbnn.inference.engines.hmc import Hmc
from ocbnn.model import Model
from ocbnn.posterior.draws import Posterior
from ocbnn.schema import Column, Target

RULE = "if dose >= 2 then effect >= 0"
SCHEMA = Schema(
    (Column("dose", "continuous", (-3.0, 4.0), transform="none"),),
    Target("effect", "regression", center=0.0, scale=1.0, observed=(-2.0, 3.0)),
)


def data_set(seed: int, rows: int = 8) -> pd.DataFrame:
    """One plant: a curve of its own, measured below the doses that the rule speaks of."""
    random = np.random.default_rng(seed)
    dose = random.uniform(-3.0, 2.0, rows)
    level, slope = random.normal(0.5, 0.2), random.normal(0.6, 0.2)
    return pd.DataFrame({"dose": dose, "effect": level + slope * dose + random.normal(0, 0.2, rows)})


def learn(learning: Learning | None = None, seed: int = 0) -> AmortizedPrior:
    """The prior that every plant shares."""
    return AmortizedPrior.learn([RULE], SCHEMA, hidden=(10,), activation="tanh", learning=learning, seed=seed)


def fit(prior: AmortizedPrior, frame: pd.DataFrame, engine: Hmc, draws: int, seed: int) -> Posterior:
    """One plant's posterior under the learnt prior: no warm start, no search for strength."""
    model = Model.build(frame=frame, target="effect", base=prior, noise=0.2)
    unprepared = Settings(warm=None, strength=None, nodes=False)
    result = infer(model, engine, chains=2, draws=draws, seed=seed, prepare_with=unprepared, cores=1)
    return Posterior.from_result(result)


def run(count: int = 5, learning: Learning | None = None, draws: int = 500) -> list[RuleChecks]:
    """Learn once, fit every data set, check the rule in each."""
    prior = learn(learning)
    print(prior.findings)
    reports = []
    for seed in range(count):
        posterior = fit(prior, data_set(seed), Hmc(warmup=300), draws, seed)
        reports.append(check_rules(posterior, points=200, ascent=False))
    return reports


if __name__ == "__main__":
    for number, report in enumerate(run()):
        (rule,) = report
        print(f"data set {number + 1}: violation {rule.epsilon_mean}, {rule.verdict}")
