"""Resident memory of bbb on 405,000 × 8 rows, above that after the imports; fails above 1 GB.

Rows stay on the host and reach the engine in streamed, shuffled minibatches.
"""

from __future__ import annotations

import resource
import sys

import numpy as np

from ocbnn.inference import infer
from ocbnn.inference.engines.bbb import Bbb
from ocbnn.model import Data, Model
from ocbnn.model.likelihoods import Bernoulli
from ocbnn.model.networks import MLP
from ocbnn.model.priors import IsotropicGaussian
from ocbnn.schema import Column, Schema, Target

LIMIT = 1.0
ROWS, COLUMNS, HIDDEN, BATCH, STEPS = 405_000, 8, (150, 150), 4096, 200


def resident_gigabytes() -> float:
    """The largest resident size so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


def main() -> int:
    """Run a few hundred steps, two passes over the rows, with all that comes before, and look at the peak."""
    before = resident_gigabytes()
    infer(_model(), Bbb(steps=STEPS), draws=100, batch=BATCH)
    above = resident_gigabytes() - before
    print(f"bbb_peak_gigabytes {above:.2f} (at most {LIMIT:.0f}) above {before:.2f} after imports")
    return 0 if above <= LIMIT else 1


def _model() -> Model:
    random = np.random.default_rng(0)
    network = MLP(COLUMNS, HIDDEN, 1)
    columns = tuple(Column(f"x{i}", "continuous", (-2.0, 2.0)) for i in range(COLUMNS))
    schema = Schema(columns, Target("y", "classification", classes=(0, 1)))
    data = Data(random.normal(size=(ROWS, COLUMNS)), random.integers(0, 2, ROWS).astype(float))
    return Model(network, Bernoulli(), IsotropicGaussian(network.size), schema=schema, data=data)


if __name__ == "__main__":
    sys.exit(main())
