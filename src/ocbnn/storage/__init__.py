"""Everything on disk: bytes, JSON values, arrays and folders. This layer knows nothing of models.

- `files.py`: one file, read with a limit and written whole or not at all.
- `documents.py`: JSON, YAML and TOML, read with distrust.
- `values.py`: records (dataclasses) as JSON values, and back.
- `arrays.py`: named arrays as safetensors, whose shapes are checked before memory is taken.
- `folders.py`: a folder with one manifest, which has the size and checksum of every file in it; `verify`.
- `runs.py`: the folder of a run that may be interrupted.

Nothing in a file can run. What is read is compared with its checksum and validated field by field.
"""
