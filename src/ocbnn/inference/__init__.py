"""From a model to draws: engines, one loop, and an honest verdict.

from ocbnn.inference import ess, infer
result = infer(model, until=ess(2000), seed=0)
"""

from ocbnn.errors import InferenceError
from ocbnn.inference.density import Context, Density
from ocbnn.inference.engines import ENGINES
from ocbnn.inference.engines.base import Engine, Info
from ocbnn.inference.prepare import Settings
from ocbnn.inference.result import Result, RuleOutcome
from ocbnn.inference.run import ess, infer
from ocbnn.inference.strength import StrengthSearch
from ocbnn.inference.warmstart import WarmStart
from ocbnn.progress import Tick

__all__ = [
    "ENGINES",
    "Context",
    "Density",
    "Engine",
    "InferenceError",
    "Info",
    "Result",
    "RuleOutcome",
    "Settings",
    "StrengthSearch",
    "Tick",
    "WarmStart",
    "ess",
    "infer",
]
