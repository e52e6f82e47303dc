"""One folder of files for all tests of the command; what changes files makes a copy."""

import shutil

import pytest

from command_line import write_files
from ocbnn.cli import fit as fit_module
from small_estimators import SMALL

BUDGET = {name: value for name, value in SMALL.items() if name != "random_state"}


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """A folder with table.csv, rules.yaml and model/; only to be read."""
    return write_files(tmp_path_factory.mktemp("files"))


@pytest.fixture
def own_files(files, tmp_path):
    """A copy of it, to be changed."""
    return shutil.copytree(files, tmp_path / "own")


@pytest.fixture
def small_budget(monkeypatch):
    """`ocbnn fit` with the budget of tests: the same way, in a second."""
    options = fit_module.estimator_options

    def reduced(*arguments, **given):
        return {**options(*arguments, **given), **BUDGET}

    monkeypatch.setattr(fit_module, "estimator_options", reduced)
