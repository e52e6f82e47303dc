"""The DataTree of a posterior is what arviz-plots takes."""

import warnings

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot, style

from ocbnn.posterior.draws import Posterior
from small_runs import figure_1b

if not hasattr(style, "core"):
    # arviz-plots 0.8 reaches for a module that Matplotlib 3.11 has merged into its parent.
    style.core = style
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its optional backends
    arviz_plots = pytest.importorskip("arviz_plots")


def test_arviz_plots_draws_functions_of_an_exported_posterior() -> None:
    mpl.use("agg")
    model = figure_1b()
    draws = np.random.default_rng(0).normal(size=(2, 50, model.size))
    tree = Posterior(draws, model, {"chains": True}).to_datatree(rows=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arviz_plots.plot_forest(
            tree, var_names=["function"], point_estimate="mean", combined=True, backend="matplotlib"
        )
    drawn = {
        float(x) for ax in pyplot.gcf().axes for points in ax.collections for x, _ in points.get_offsets()
    }
    drawn |= {float(x) for ax in pyplot.gcf().axes for line in ax.lines for x in line.get_xdata()}
    means = tree["posterior"]["function"].mean(("chain", "draw")).to_numpy()
    assert all(min(abs(mean - x) for x in drawn) < 1e-9 for mean in means)
    pyplot.close("all")
