"""WHERE a rule applies: sets of inputs, how a condition becomes one, and how points are drawn from one.

`sets.py` the sets · `intervals.py` what they are made of · `limits.py` how far a column is drawn ·
`polytope.py` half-spaces · `build.py` condition → set · `canonical.py` one form for each set ·
`lines.py` along a column · `samplers/` set → points.
"""

from ocbnn.regions.build import region_of
from ocbnn.regions.intervals import HalfSpace, Interval
from ocbnn.regions.samplers import SAMPLERS, WITHOUT_ROWS, Sampler, default_sampler, sample
from ocbnn.regions.sets import Box, Everywhere, HalfSpaces, Predicate, Region, Union

__all__ = [
    "SAMPLERS",
    "WITHOUT_ROWS",
    "Box",
    "Everywhere",
    "HalfSpace",
    "HalfSpaces",
    "Interval",
    "Predicate",
    "Region",
    "Sampler",
    "Union",
    "default_sampler",
    "region_of",
    "sample",
]
