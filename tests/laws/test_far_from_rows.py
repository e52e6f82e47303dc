"""Far from the rows the default model is unsure: functions go on as lines of many slopes, and bands widen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from ocbnn.estimators import defaults
from ocbnn.inference import infer
from ocbnn.model import Model
from ocbnn.model.outputs import model_outputs
from ocbnn.schema import Schema

DOSES = np.array([3.0, 5.0, 7.0, 10.0])


def spread(seed: int, *, linear: bool) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the function at `DOSES`; rows end at 5, the truth is 120 − 9 · dose."""
    generator = np.random.default_rng(seed)
    frame = pd.DataFrame({"dose": generator.uniform(0, 5, 60)})
    y = (120 - 9 * frame["dose"] + generator.normal(0, 4, 60)).rename("pressure")
    schema = Schema.infer(frame, target=y)
    network = defaults.network(schema, None, len(frame), defaults.ACTIVATION, "varying")
    network = replace(network, linear=linear)
    base = defaults.base_prior(None, network, classification=False, noise="varying")
    model = Model.build(frame=frame, target=y, schema=schema, network=network, base=base, noise="varying")
    result = infer(model, seed=seed)
    inputs = schema.to_model(schema.encode(pd.DataFrame({"dose": DOSES})))
    values = model_outputs(model, result.draws.reshape(-1, model.size), inputs)
    values = schema.target.to_raw(values)
    return values.mean(axis=0), values.std(axis=0)


@pytest.mark.slow
def test_bands_widen_with_the_distance_and_hold_a_line_that_goes_on():
    truth = 120 - 9 * DOSES
    found = [spread(seed, linear=True) for seed in range(8)]
    print(np.round(found, 1))
    far = [abs(mean - truth) / sd for mean, sd in found]
    assert np.mean([each[-2:] < 2.0 for each in far]) > 0.8
    for _, sd in found:
        assert (sd[2:] > 1.5 * sd[1:-1]).all()  # beyond the last row


@pytest.mark.slow
def test_layers_alone_level_off_and_are_sure_of_it():
    mean, sd = spread(0, linear=False)
    print(np.round([mean, sd], 1))
    assert mean[-1] - 30 > 3.0 * sd[-1]
