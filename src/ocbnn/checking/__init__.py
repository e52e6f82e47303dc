"""How far draws keep a rule: one judge, one result, one verdict.

- `check.py`: `check_rules`; what pilots, fits, the amortized prior and the report are judged by.
- `violations.py`: rules judged draw by draw, and by all draws together.
- `results.py`: `RuleCheck`, `RuleChecks`, the verdict.  `figures.py`: estimates with intervals.
- `search.py`: where a rule is violated most, by ascent.  `draws.py`: draws, and a rule at points.
- `explain.py`: why a rule is not met.  `convergence.py`: R-hat and effective draws.
"""

from ocbnn.checking.check import check_rules
from ocbnn.checking.convergence import mixing

__all__ = ["check_rules", "mixing"]
