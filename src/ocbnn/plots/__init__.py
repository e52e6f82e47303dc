"""Pictures for notebooks and the report; each takes `ax`, draws on it, and gives it back.

- `style.py`: the one style, and what its colours mean.
- `slices.py`: what a posterior says along one column, as plain numbers; `bands.py` draws it.
- `class_maps.py`, `checks.py`, `priors.py`, `rejections.py`, `chains.py`, `reliability.py`, `changes.py`:
  one kind of picture each.
"""

from ocbnn.plots import style
from ocbnn.plots.bands import draw_slice, predictive_band
from ocbnn.plots.chains import ChainFigures, agreement, chain_figures, diagnostics
from ocbnn.plots.class_maps import class_regions
from ocbnn.plots.figures import (
    RuleFigure,
    Shift,
    calibration,
    changes,
    draw_rules,
    prior_and_posterior,
    rejection_curve,
    satisfaction,
)
from ocbnn.plots.slices import Slice, sliced

__all__ = [
    "ChainFigures",
    "RuleFigure",
    "Shift",
    "Slice",
    "agreement",
    "calibration",
    "chain_figures",
    "changes",
    "class_regions",
    "diagnostics",
    "draw_rules",
    "draw_slice",
    "predictive_band",
    "prior_and_posterior",
    "rejection_curve",
    "satisfaction",
    "sliced",
    "style",
]
