"""Tables to try the library on, and those of the paper.

- `clinic.py`: an invented intensive-care table that ships with the package, with the rules of its clinicians.
- `toys.py`: the paper's small tables, one for each figure.
- `compas.py`, `credit.py`, `mimic3/`: the paper's three applications. No data file is part of the package:
  `sources.py` finds them by a path, in the folder `$OCBNN_DATA`, or downloads them and checks what came.
"""
