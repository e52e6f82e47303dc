"""The posterior: draws with everything needed to predict, check, enforce, compare and save."""

from ocbnn.posterior.draws import Posterior
from ocbnn.posterior.predict import (
    Prediction,
    Summary,
    function_blocks,
    function_draws,
    predict,
    sample_function,
    sample_observation,
)

__all__ = [
    "Posterior",
    "Prediction",
    "Summary",
    "function_blocks",
    "function_draws",
    "predict",
    "sample_function",
    "sample_observation",
]
