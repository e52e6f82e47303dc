"""WHAT the expert says: sentences about outputs, and the constraints they mean.

`grammar.lark` the shape of a sentence · `syntax.py` text → tree, errors in words · `reading.py` names get their
meaning · `forms.py` which form of output it is · `outputs.py` the forms · `intervals.py` what a formula allows at
each point · `located.py` demands at points, as arrays · `constraint.py` region and output together · `parse.py`
the way from text to constraint · `files.py` rules.yaml.
"""

from ocbnn.rules.constraint import Constraint
from ocbnn.rules.files import dump_rules, load_rules
from ocbnn.rules.parse import parse_rule

__all__ = ["Constraint", "dump_rules", "load_rules", "parse_rule"]
