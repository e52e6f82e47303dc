"""WHAT the expert says: sentences about outputs, and the constraints they mean.

- `grammar.lark` the shape of a sentence; `syntax.py` text → tree, errors in words; `trees.py`, `words.py`
- `reading.py` conditions and arithmetic; `labels.py` levels and classes
- `forms.py`, `distributions.py`, `amounts.py` what is said of the output
- `outputs.py` the forms it can have; `intervals.py` what a formula allows at each point
- `located.py` what an output asks for at points, as arrays
- `constraint.py` region and output together; `parse.py` the whole way; `files.py` rules.yaml
"""

from ocbnn.rules.constraint import Constraint
from ocbnn.rules.files import dump_rules, load_rules
from ocbnn.rules.parse import parse_rule

__all__ = ["Constraint", "dump_rules", "load_rules", "parse_rule"]
