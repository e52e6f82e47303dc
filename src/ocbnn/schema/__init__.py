"""The table: which columns there are, what they hold, and how to go between raw, coded and model units.

`Schema.infer(frame, target="action")` reads a DataFrame; the overrides of `columns=` correct what it guessed.

- `columns.py`: `Column` and `Target`, frozen, each with its own maps between units.
- `reading.py`: a pandas Series of any dtype as numbers or labels, with errors that name column and row.
- `infer.py`: a Series and what the user declared about it, as a `Column` or a `Target`.
- `table.py`: `Schema`, all columns together.
- `files.py`: files that hold a table: their headers, and reading them in pieces.
"""

from ocbnn.schema.columns import Column, Kind, Label, Missing, Target, Task, Transform, Unseen
from ocbnn.schema.table import Schema

__all__ = ["Column", "Kind", "Label", "Missing", "Schema", "Target", "Task", "Transform", "Unseen"]
