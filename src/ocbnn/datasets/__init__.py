"""The table that ships with the package.

- `clinic.py`: an invented intensive-care table, with the rules of its clinicians; `ocbnn demo` uses it.
"""

from ocbnn.datasets import clinic

__all__ = ["clinic"]
