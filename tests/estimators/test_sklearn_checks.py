"""scikit-learn's own checks of its contract, all of them."""

import os
import subprocess
import sys

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from small_estimators import small_classifier, small_regressor


@parametrize_with_checks([small_regressor(), small_classifier()])
def test_scikit_learns_contract(estimator, check):
    check(estimator)


@pytest.mark.slow
def test_the_checks_that_need_array_api_pass_where_scipy_has_it_switched_on():
    """SciPy reads the variable when it is imported, so these two are skipped above and run in a process."""
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-k",
        "array_api_input",
        "-p",
        "no:cacheprovider",
        __file__,
    ]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    assert "2 passed" in run.stdout
    assert "skipped" not in run.stdout
