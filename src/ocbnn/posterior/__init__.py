"""The posterior: draws with everything needed to predict, check, enforce, compare and save."""

from ocbnn.posterior.draws import Posterior
from ocbnn.posterior.functions import function_blocks, function_draws

__all__ = ["Posterior", "function_blocks", "function_draws"]
