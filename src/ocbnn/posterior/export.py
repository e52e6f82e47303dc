"""A posterior as an ArviZ DataTree, for everything that arviz-stats and arviz-plots can do with one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import arviz_base
import numpy as np
import pandas as pd
from jaxtyping import Float

from ocbnn.model.outputs import function_values
from ocbnn.posterior.draws import Posterior
from ocbnn.posterior.predict import noisy, sample_observation

if TYPE_CHECKING:
    import xarray


def datatree(posterior: Posterior, rows: int = 200, seed: int = 0) -> xarray.DataTree:
    """The groups posterior, posterior_predictive, observed_data, sample_stats and constant_data.

    All draws are in it, as ArviZ's groups are rectangular: `sample_stats.kept` says which ones remain after
    rejection. For classes, values of Y are class indices. Without data there is no row to predict. Where
    predictions are truncated, values of Y are samples of the restricted predictive, and of no draw by itself.
    """
    chains, count, size = posterior.draws.shape
    weights: dict[str, Any] = {"w": posterior.draws}
    groups: dict[str, dict[str, Any]] = {"posterior": weights, "sample_stats": {"kept": posterior.mask}}
    if posterior.log_density is not None:
        groups["sample_stats"]["lp"] = posterior.log_density
    coords: dict[str, Any] = {"weight": np.arange(size)}
    dims = {"w": ["weight"], "function": ["row"], "y": ["row"], "x": ["row", "column"]}
    data = posterior.model.data
    if data is not None:
        total = len(data.inputs)
        chosen = np.unique(np.linspace(0, total - 1, min(rows, total)).astype(int))
        inputs = np.asarray(data.inputs, dtype=float)[chosen]
        every = Posterior(posterior.draws, posterior.model)
        values = function_values(posterior.model, every.flat, inputs)
        weights["function"] = values.reshape(chains, count, *values.shape[1:])
        observed = np.asarray(data.y)[chosen]
        if posterior.classes:
            dims["function"] = ["row", "class"]
            coords["class"] = [str(label) for label in posterior.classes]
        else:
            observed = posterior.target.to_raw(observed)
        coded = posterior.schema.to_raw(inputs)
        samples = noisy(every, values, np.random.default_rng(seed))
        if posterior.truncated:
            samples = _restricted(posterior, coded, chains * count, seed)
        groups["posterior_predictive"] = {"y": samples.reshape(chains, count, -1)}
        groups["observed_data"] = {"y": observed}
        groups["constant_data"] = {"x": coded}
        coords |= {"row": chosen, "column": list(posterior.schema.names)}
    attributes = {"/": {"provenance": json.dumps(dict(posterior.provenance))}}
    return arviz_base.from_dict(groups, coords=coords, dims=dims, attrs=attributes)


def _restricted(posterior: Posterior, coded: Float[np.ndarray, "n Q"], count: int, seed: int) -> np.ndarray:
    """Samples of a truncated posterior's Y: raw y, or class indices."""
    samples = sample_observation(posterior, coded, count, key=seed)
    if not posterior.classes:
        return samples
    target = posterior.target
    return np.asarray(target.to_model(pd.Series(samples.ravel(), name=target.name))).reshape(samples.shape)
