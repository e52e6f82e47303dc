"""The model: network, likelihood, priors and terms, up to one log-density of a flat vector."""

from ocbnn.model.model import Data, Model

__all__ = ["Data", "Model"]
