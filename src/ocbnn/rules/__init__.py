"""WHAT the expert says: sentences about outputs, and the constraints they mean.

- `constraint.py`: region and requirement together; `parse.py` text → constraint; `files.py` rules.yaml.
- `requirement.py`: the questions that every kind of rule answers; `kinds/`: one file per kind.
- `margins.py`: by how much functions violate a rule, for all kinds.
- `bounding.py`: what a proof asks of a kind.
- `formulas.py`, `ranges.py`, `divergences.py`: what kinds share.
"""

from ocbnn.rules.constraint import Constraint
from ocbnn.rules.files import dump_rules, load_rules
from ocbnn.rules.parse import parse_rule

__all__ = ["Constraint", "dump_rules", "load_rules", "parse_rule"]
