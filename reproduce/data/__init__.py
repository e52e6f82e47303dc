"""The paper's tables: toys, one for each figure, and the rows of its three applications.

No data file is part of the project: `sources.py` finds a file by its path, in the folder `$OCBNN_DATA`, or
downloads it, and compares its checksum whenever it is used.
"""
