"""Saved things as folders of plain files, read with distrust: nothing in them can run.

- `folders.py`: a folder that is written whole or not at all.  `documents.py`: JSON with its checksum, arrays.
- `whole.py`: one file that is written whole or not at all.  `plain.py`: results as plain JSON values.
- `parts.py`: networks, likelihoods and rules' terms as validated values.
"""
