"""Fitted estimators as folders of plain files."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from ocbnn.errors import FileError
from ocbnn.estimators.base import OCBNNEstimator
from ocbnn.estimators.classifier import OCBNNClassifier, _labels
from ocbnn.estimators.regressor import OCBNNRegressor
from ocbnn.estimators.settings_files import plain_preparation, read_preparation
from ocbnn.inference.engines import ENGINES, UnknownEngine
from ocbnn.inference.prepare import Settings
from ocbnn.model.priors import Prior
from ocbnn.posterior import files
from ocbnn.posterior.draws import Posterior
from ocbnn.posterior.enforce import truncate
from ocbnn.rules.constraint import Constraint

ESTIMATORS: dict[str, type[OCBNNEstimator]] = {cls.__name__: cls for cls in (OCBNNRegressor, OCBNNClassifier)}
LABEL_KINDS = "biufUO"
LONGEST_LABEL = 4096
"""Characters of a label's type: an array of labels takes them all for each one."""
PAIRS, NUMBER = "__pairs__", "__number__"
OWN_PRIOR = {"kept": "with the posterior"}
"""Stands for a base prior of the user's own, which is part of the posterior's model."""
NUMBERS = {"inf": np.inf, "-inf": -np.inf, "nan": np.nan}
"""What JSON has no number for."""


class StoredEstimator(BaseModel):
    """What a saved estimator is, besides its posterior."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str
    parameters: dict[str, JsonValue]
    features: int
    feature_names: list[str] | None
    label_dtype: str | None
    enforcement: Literal["truncate", "draws"] | None


def save(
    path: str | os.PathLike[str], estimator: OCBNNEstimator, *, beside: Mapping[str, bytes] | None = None
) -> None:
    """Write a fitted estimator; parameters that are Python objects are written as what they mean.

    `beside` are further files by name, as in `posterior.files.save`.
    """
    names = getattr(estimator, "feature_names_in_", None)
    dtype = _storable_dtype(getattr(estimator, "_label_dtype", None))
    stored = StoredEstimator(
        name=type(estimator).__name__,
        parameters={name: _plain(name, value) for name, value in estimator.get_params(deep=False).items()},
        features=estimator.n_features_in_,
        feature_names=None if names is None else [str(name) for name in names],
        label_dtype=None if dtype is None else str(np.dtype(dtype).str),
        enforcement=estimator.enforcement_,
    )
    files.save(path, estimator.posterior_, estimator=stored.model_dump(mode="json"), beside=beside)


def save_posterior(path: str | os.PathLike[str], posterior: Posterior) -> None:
    """Write a posterior that no estimator has fitted, so that `load` gives it back as one."""
    cls = OCBNNClassifier if posterior.classes else OCBNNRegressor
    stored = StoredEstimator(
        name=cls.__name__,
        parameters={},
        features=len(posterior.schema.columns),
        feature_names=list(posterior.schema.names),
        label_dtype=None if not posterior.classes else _natural_dtype(posterior.classes),
        enforcement="truncate" if posterior.truncated else "draws" if posterior.enforced else None,
    )
    files.save(path, posterior, estimator=stored.model_dump(mode="json"))


def load(path: str | os.PathLike[str]) -> Any:
    """The fitted estimator that `save` wrote, predicting exactly as it did.

    Opening a saved model never runs code of its author. Training rows are not in it.

    Raises:
        FileError: a folder that is no saved estimator, is damaged, or was written by a newer version.
    """
    loaded = files.load(path)
    if loaded.estimator is None:
        raise FileError(f"{path} holds a posterior without an estimator: ocbnn.posterior.files.load(path).")
    try:
        stored = StoredEstimator.model_validate(loaded.estimator)
        estimator = _restored(stored, loaded)
    except ValidationError as error:
        raise FileError(f"{path} is damaged: {error.errors()[0]['msg']}.") from None
    except (TypeError, ValueError, KeyError) as error:
        raise FileError(f"{path} is damaged: {error}") from None
    return estimator


def _restored(stored: StoredEstimator, loaded: files.Loaded) -> OCBNNEstimator:
    if stored.name not in ESTIMATORS:
        raise FileError(f"{stored.name!r} is no estimator of ocbnn.")
    cls, posterior = ESTIMATORS[stored.name], loaded.posterior
    if posterior.target.task != cls.task or stored.features != len(posterior.schema.columns):
        raise FileError("The estimator and its posterior do not belong together.")
    known = set(inspect.signature(cls).parameters)
    base = posterior.model.base
    parameters = {name: _revived(name, v, base) for name, v in stored.parameters.items() if name in known}
    estimator = cls(**parameters)
    estimator.rules = [term.rule for term in posterior.model.terms] or None
    if posterior.model.learnt:
        estimator.prior = base
    estimator.n_features_in_ = stored.features
    if stored.feature_names is not None:
        if tuple(stored.feature_names) != posterior.schema.names:
            raise FileError("The names of the columns are not those of the schema.")
        estimator.feature_names_in_ = np.array(stored.feature_names, dtype=object)
    if stored.enforcement == "truncate" and not posterior.truncated:
        posterior = replace(posterior, truncated=truncate(posterior).rules)
    estimator.schema_ = posterior.schema
    estimator.rules_ = tuple(rule.rule for rule in posterior.rules)
    estimator.posterior_ = posterior
    estimator.outcomes_ = ()
    estimator.enforcement_, estimator.rejection_ = stored.enforcement, None
    if isinstance(estimator, OCBNNClassifier):
        dtype = _label_dtype(stored.label_dtype or "O")
        estimator._label_dtype = dtype
        estimator.classes_ = _labels(posterior.classes, dtype)
    return estimator


def _storable_dtype(dtype: np.dtype[Any] | None) -> np.dtype[Any] | None:
    """The type of labels, refused where it could not be loaded again."""
    if dtype is not None and dtype.kind == "U" and dtype.itemsize > 4 * LONGEST_LABEL:
        raise FileError(
            f"Labels of {dtype.itemsize // 4:,} characters cannot be loaded again: {LONGEST_LABEL:,} are the "
            "most in an array of text. Shorten them, or fit with y.astype(object)."
        )
    return dtype


def _natural_dtype(classes: tuple[Any, ...]) -> str:
    dtype = np.array(classes).dtype
    return "O" if dtype.itemsize > 4 * LONGEST_LABEL else dtype.str


def _label_dtype(text: str) -> np.dtype[Any]:
    """The type of labels; refused where it is none, or so wide that an array of it would fill the memory."""
    if len(text) > 20:
        raise FileError("The type of the labels is none that a target has.")
    dtype = np.dtype(text)
    if dtype.kind not in LABEL_KINDS or dtype.shape or dtype.itemsize > 4 * LONGEST_LABEL:
        raise FileError(f"Labels of the type {text!r} are none that a target has.")
    return dtype


def _plain(name: str, value: Any) -> Any:
    """A parameter as JSON: engines by name and settings, rules not at all (they have their own file)."""
    if name == "rules":
        return None
    if name == "engine" and is_dataclass(value) and not isinstance(value, type):
        return {"name": str(getattr(value, "name", "")), "settings": _plain("", asdict(value))}
    if name == "preparation" and isinstance(value, Settings):
        return _plain("", plain_preparation(value))
    if name == "prior" and isinstance(value, Prior):
        return OWN_PRIOR
    if isinstance(value, np.generic):
        return _plain("", value.item())
    if isinstance(value, np.ndarray | tuple | list):
        return [_plain("", each) for each in value]
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value) and not set(value) & {PAIRS, NUMBER}:
            return {key: _plain("", each) for key, each in value.items()}
        # JSON's keys are text, and a label may be anything.
        return {PAIRS: [[_plain("", key), _plain("", each)] for key, each in value.items()]}
    if isinstance(value, float) and not np.isfinite(value):
        return {NUMBER: str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Path | Constraint):
        return str(value)
    return None  # a random state: it has gone on since, and cannot be told


def _revived(name: str, value: Any, base: Prior) -> Any:
    if name == "engine" and isinstance(value, dict):
        settings = {key: _value(each) for key, each in _mapping(value.get("settings")).items()}
        kind = ENGINES.get(str(value.get("name")))
        # An engine of the author's own is code, and not in the file; a fit needs it, a prediction does not.
        return UnknownEngine(str(value.get("name"))) if kind is None else kind(**settings)
    if name == "preparation" and isinstance(value, dict):
        return read_preparation(_value(value), "The estimator")
    if name == "prior" and value == OWN_PRIOR:
        return base
    return _value(value)


def _value(value: Any) -> Any:
    """What `_plain` wrote, apart from engines."""
    if isinstance(value, list):
        return [_value(each) for each in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {NUMBER}:
        return NUMBERS[value[NUMBER]]
    if set(value) == {PAIRS}:
        return {key: _value(each) for key, each in ((_value(k), v) for k, v in value[PAIRS])}
    return {key: _value(each) for key, each in value.items()}


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FileError("The settings of the engine are missing.")
    return value
