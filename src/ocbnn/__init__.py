"""ocbnn: neural networks that obey what experts know, and stay honest about what they do not know.

The modules, in the order data go through them; each imports only from those before it (docs/architecture.md):

- `errors`: one family, `OCBNNError`.
- `schema`: the table: columns, kinds, ranges; raw ↔ coded ↔ model units.
- `language`: the grammar and expressions of rules.
- `regions`: WHERE a rule applies, and points drawn there.
- `rules`: WHAT a rule asks: one file per kind, constraints, files of rules.
- `linting`: what is wrong with a set of rules before anything is fitted.
- `model`: networks, likelihoods, priors and terms, as one log-density of a flat vector w.
- `checking`: how far draws keep a rule.
- `inference`: engines and the one loop; `infer` gives draws of a model.
- `amortize`: the amortized prior: rules learnt once, used for every data set.
- `posterior`: what draws say: predictions, enforcement, conflict, files.
- `proof`: does a rule hold everywhere? Draw by draw, with certificates.
- `plots`: pictures, each taking `ax`.
- `report`: the page for people who decide, and its JSON twin.
- `estimators`: `OCBNNRegressor`, `OCBNNClassifier`, in scikit-learn's contract.
- `datasets`: the tables that come with the package.
- `cli`: the `ocbnn` command.

The public names load what they need when first used: `import ocbnn` itself loads neither pandas nor JAX.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ocbnn._version import __version__

if TYPE_CHECKING:
    from ocbnn.amortize.prior import AmortizedPrior
    from ocbnn.errors import (
        FileError,
        InconclusiveWarning,
        ModelError,
        OCBNNError,
        OCBNNWarning,
        RegionError,
        RuleError,
        SchemaError,
        UnmetRuleError,
    )
    from ocbnn.estimators import OCBNNClassifier, OCBNNRegressor, load
    from ocbnn.inference.run import infer
    from ocbnn.linting import lint
    from ocbnn.model import Model
    from ocbnn.model.networks import MLP
    from ocbnn.rules.constraint import Constraint
    from ocbnn.rules.files import load_rules
    from ocbnn.rules.parse import parse_rule
    from ocbnn.schema import Schema

__all__ = [
    "MLP",
    "AmortizedPrior",
    "Constraint",
    "FileError",
    "InconclusiveWarning",
    "Model",
    "ModelError",
    "OCBNNClassifier",
    "OCBNNError",
    "OCBNNRegressor",
    "OCBNNWarning",
    "RegionError",
    "RuleError",
    "Schema",
    "SchemaError",
    "UnmetRuleError",
    "__version__",
    "infer",
    "lint",
    "load",
    "load_rules",
    "parse_rule",
]

_HOMES = {
    "AmortizedPrior": "ocbnn.amortize.prior",
    "Constraint": "ocbnn.rules.constraint",
    "FileError": "ocbnn.errors",
    "InconclusiveWarning": "ocbnn.errors",
    "MLP": "ocbnn.model.networks",
    "Model": "ocbnn.model",
    "ModelError": "ocbnn.errors",
    "OCBNNClassifier": "ocbnn.estimators",
    "OCBNNError": "ocbnn.errors",
    "OCBNNRegressor": "ocbnn.estimators",
    "OCBNNWarning": "ocbnn.errors",
    "RegionError": "ocbnn.errors",
    "RuleError": "ocbnn.errors",
    "Schema": "ocbnn.schema",
    "SchemaError": "ocbnn.errors",
    "UnmetRuleError": "ocbnn.errors",
    "infer": "ocbnn.inference.run",
    "lint": "ocbnn.linting",
    "load": "ocbnn.estimators",
    "load_rules": "ocbnn.rules.files",
    "parse_rule": "ocbnn.rules.parse",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ocbnn' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
