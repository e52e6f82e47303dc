"""Predictions (being written)."""

from ocbnn.posterior.functions import Table, as_coded, function_blocks, function_draws

__all__ = ["Table", "as_coded", "function_blocks", "function_draws"]
