"""The posterior: draws with everything needed to predict, check, enforce, compare and save.

    from ocbnn.posterior.predict import predict
    from ocbnn.checking.check import check_rules
    from ocbnn.posterior.enforce import reject, truncate

Functions that are named as their modules are imported from there, so that both names stay what they are.
"""

from ocbnn.posterior.draws import Posterior
from ocbnn.posterior.enforce import EnforcementError, Rejection, Truncated
from ocbnn.posterior.predict import Prediction, Summary, function_blocks, function_draws

__all__ = [
    "EnforcementError",
    "Posterior",
    "Prediction",
    "Rejection",
    "Summary",
    "Truncated",
    "function_blocks",
    "function_draws",
]
