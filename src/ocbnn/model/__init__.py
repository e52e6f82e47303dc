"""The model: network, likelihood, priors and terms, up to one log-density of a flat vector."""

from ocbnn.model.model import Data, Model
from ocbnn.model.terms import TERMS, Term

__all__ = ["TERMS", "Data", "Model", "Term"]
