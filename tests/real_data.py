"""Tests on real data run where they are found, and say why they are skipped elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from reproduce.data.sources import VARIABLE, data_folder


def folder_of(name: str) -> Path:
    """The folder of a data set in `$OCBNN_DATA`, or the test is skipped."""
    data = data_folder()
    if data is None:
        pytest.skip(f"{VARIABLE} names no folder: real data are not part of the project")
    if not (data / name).is_dir():
        pytest.skip(f"{data} has no folder {name}")
    return data / name
