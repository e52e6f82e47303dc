"""Figure 1b's model at the size of tests, and settings for runs of a second."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ocbnn.inference import Settings, WarmStart
from ocbnn.inference.engines.bbb import Bbb
from ocbnn.inference.engines.ensemble import Ensemble
from ocbnn.inference.engines.hmc import Hmc
from ocbnn.inference.engines.mclmc import Mclmc
from ocbnn.inference.engines.nuts import Nuts
from ocbnn.inference.engines.sgld import Sgld
from ocbnn.inference.engines.svgd import Svgd
from ocbnn.model import Model

RULE = "if -0.3 <= x <= 0.3 then 2.5 <= y <= 3"
X = np.array([-2.0, -1.8, -1.0, 1.0, 1.8, 2.0])
QUICK = Settings(warm=WarmStart(steps=100, searches=1, found=4))
SHORT = {
    "hmc": Hmc(warmup=50, max_steps=200),
    "mclmc": Mclmc(warmup=50, steps=2),
    "nuts": Nuts(warmup=50, max_doublings=5),
    "svgd": Svgd(steps=100),
    "bbb": Bbb(steps=100),
    "sgld": Sgld(warmup=50, step_size=1e-4),
    "ensemble": Ensemble(steps=100),
}


def figure_1b(**changes: Any) -> Model:
    """The paper's first toy with few units and points, and a strength that is given."""
    settings: dict[str, Any] = {"hidden": (3,), "noise": 0.1, "strength": 100.0, "points": 20}
    frame = pd.DataFrame({"x": X, "y": -(X**4) + 3 * X**2 + 1})
    settings = {"rules": [RULE], "standardize": False, "frame": frame, "target": "y", **settings, **changes}
    return Model.build(**settings)
