"""HOW belief enters: densities over a network's weights.

- `base.py`: the protocol of base priors.  `isotropic.py`: independent Gaussians.
- `terms.py`: one class per density p_g that scores outputs, and which rule gets which.
- `conditional.py`: base prior × terms (COCP).
"""

from ocbnn.priors.base import Prior
from ocbnn.priors.conditional import ConditionalPrior, RulePoints, RuleTerm, conditional_prior
from ocbnn.priors.isotropic import IsotropicGaussian
from ocbnn.priors.terms import TERMS, Term, default_term

__all__ = [
    "TERMS",
    "ConditionalPrior",
    "IsotropicGaussian",
    "Prior",
    "RulePoints",
    "RuleTerm",
    "Term",
    "conditional_prior",
    "default_term",
]
