"""The amortized prior (AOCP): rules learnt once into a Gaussian over weights.

- `predictive.py`: the predictive of Φ under a Gaussian over weights, linearised or sampled.
- `objectives.py`: how far it is from what a rule asks for (paper eq. 8 and 9).
- `learning.py`: the closest Gaussian to the base prior that keeps the rules.
- `findings.py`: what the learnt prior says of itself, by Monte Carlo.
- `prior.py`: `AmortizedPrior`, saved as safetensors and JSON.
"""

from ocbnn.amortize.learning import Learning
from ocbnn.amortize.prior import AmortizedPrior

__all__ = ["AmortizedPrior", "Learning"]
