"""The `ocbnn` command: what the library does, for people who do not write Python.

- `app.py`: the commands together; each is a file of its own.
- `options.py`: options that several commands share; `failures.py`: errors as sentences, and exit codes.
- `voice.py`: what is said to people; `plain.py`: the same as JSON for programs.
- `tables.py`: tables read and written; `inputs.py`: a table with its rules and declared columns.
- `folders.py`: the model's folder with all that a report needs; `cache.py`: compiled programs, kept.

Exit codes: 0 fine; 1 lint found an error, or a rule is unmet (`check`, `fit --strict`); 2 wrong use or input
that cannot be read (a sentence, never a traceback); 3 a mistake in ocbnn itself; 130 interrupted by Ctrl-C.
What a command needs is imported inside it, so that `ocbnn --help` answers at once.
"""

from ocbnn.cli.app import app, main

__all__ = ["app", "main"]
