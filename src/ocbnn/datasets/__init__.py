"""The tables that come with the package.

- `clinic.py`: an invented intensive-care table, with the rules a clinician might write about it.
"""
