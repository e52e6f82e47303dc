"""Pictures for notebooks and the report; each takes `ax`, draws on it, and gives it back.

- `style.py`: the one style, and what its colours mean.
- `slices.py`: what a posterior says along one column, as plain numbers.
- `bands.py`: predictions over one column, and over two; functions of the base prior.
- `figures.py`: rules, changes, priors, rejection, calibration, and whether chains agree.
"""

from ocbnn.plots import style
from ocbnn.plots.bands import class_regions, draw_prior, draw_slice, predictive_band, prior_functions
from ocbnn.plots.figures import (
    ChainFigures,
    agreement,
    calibration,
    case_curves,
    chain_figures,
    changes,
    diagnostics,
    group_means,
    prior_and_posterior,
    rejection_curve,
    satisfaction,
)
from ocbnn.plots.slices import PriorSlice, Slice, prior_sliced, sliced

__all__ = [
    "ChainFigures",
    "PriorSlice",
    "Slice",
    "agreement",
    "calibration",
    "case_curves",
    "chain_figures",
    "changes",
    "class_regions",
    "diagnostics",
    "draw_prior",
    "draw_slice",
    "group_means",
    "predictive_band",
    "prior_and_posterior",
    "prior_functions",
    "prior_sliced",
    "rejection_curve",
    "satisfaction",
    "sliced",
    "style",
]
