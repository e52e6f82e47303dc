"""Estimators in scikit-learn's contract: tables and rules in, predictions in raw units out.

- `tables.py`: what users hand over, as tables with names; equal rows merged.
- `large.py`: tables in files, read in pieces.  `lazy.py`: Dask DataFrames.
- `given.py`: rules and learnt priors as users give them.
- `defaults.py`: choices that a user need not make.
- `base.py`, `regressor.py`, `classifier.py`: the estimators.
- `pictures.py`: their pictures and their report.
- `folder.py`: saved and loaded.  `settings_files.py`: their options as a file.
"""

from ocbnn.estimators.classifier import OCBNNClassifier
from ocbnn.estimators.folder import load, save_posterior
from ocbnn.estimators.regressor import OCBNNRegressor
from ocbnn.estimators.settings_files import written_settings

__all__ = ["OCBNNClassifier", "OCBNNRegressor", "load", "save_posterior", "written_settings"]
