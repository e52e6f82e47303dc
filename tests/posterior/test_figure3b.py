"""Figure 3b: rejection leaves nothing of a posterior without the rule, and nearly all of one with it."""

from __future__ import annotations

from typing import Any

import pytest

from ocbnn.inference import infer
from ocbnn.inference.engines.svgd import Svgd
from ocbnn.model import Model
from ocbnn.model.terms import NegativeExponential
from ocbnn.posterior import Posterior
from ocbnn.posterior.draws import function_draws
from ocbnn.posterior.enforce import EnforcementError, reject
from reproduce.data import toys

PARTICLES = 50
TERMS: dict[str, dict[str, Any]] = {
    "paper": {"term": NegativeExponential(raw=True), "strength": 1e4},
    "ours": {"strength": 1e3, "reduction": "sum", "corners": True},
}
# Over seeds 0 to 2 the paper's term kept 90% to 94% of the particles and ours 94% to 100%; each bound lets
# about two of the 50 more go than the worst of them.
SURVIVING = {"paper": 0.85, "ours": 0.9}
pytestmark = pytest.mark.slow


def particles(seed: int, **options: Any) -> Posterior:
    model = Model.build(
        frame=toys.figure_3b(), target="y", hidden=(10,), noise=0.1, standardize=False, **options
    )
    return Posterior.from_result(infer(model, Svgd(steps=3000), chains=PARTICLES, seed=seed))


@pytest.mark.parametrize("seed", [0, 1])
def test_no_particle_of_the_baseline_survives(seed):
    with pytest.raises(EnforcementError, match=f"None of the {PARTICLES} draws"):
        reject(particles(seed), [toys.FIGURE_3B_RULE])


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("term", TERMS)
def test_nearly_all_particles_under_the_rule_survive_above_and_below(term, seed):
    """Of the paper's shipped particles 86% obey at the points of a grid; here ascent looks between them."""
    posterior = particles(seed, rules=[toys.FIGURE_3B_RULE], **TERMS[term])
    rejected = reject(posterior)
    assert rejected.acceptance.value >= SURVIVING[term]
    middle = function_draws(rejected.posterior, [[0.0]])[:, 0]
    assert (middle > 2.5).any()
    assert (middle < 1.0).any()
