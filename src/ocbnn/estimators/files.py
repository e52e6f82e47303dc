"""Fitted estimators as folders of plain files."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from ocbnn.errors import FileError
from ocbnn.estimators.base import OCBNNEstimator
from ocbnn.estimators.classifier import OCBNNClassifier, _labels
from ocbnn.estimators.regressor import OCBNNRegressor
from ocbnn.inference.engines import ENGINES
from ocbnn.inference.feed import rule_terms
from ocbnn.posterior import files
from ocbnn.posterior.draws import Posterior
from ocbnn.priors.base import base_of, learnt_rules
from ocbnn.rules.constraint import Constraint

ESTIMATORS: dict[str, type[OCBNNEstimator]] = {cls.__name__: cls for cls in (OCBNNRegressor, OCBNNClassifier)}
LABEL_KINDS = "biufUO"


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
    dtype = getattr(estimator, "_label_dtype", None)
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
        label_dtype=np.array(posterior.classes).dtype.str if posterior.classes else None,
        enforcement="draws" if posterior.enforced else None,
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
    except (TypeError, ValueError) as error:
        raise FileError(f"{path} is damaged: {error}") from None
    return estimator


def _restored(stored: StoredEstimator, loaded: files.Loaded) -> OCBNNEstimator:
    if stored.name not in ESTIMATORS:
        raise FileError(f"{stored.name!r} is no estimator of ocbnn.")
    cls, posterior = ESTIMATORS[stored.name], loaded.posterior
    if posterior.target.task != cls.task or stored.features != len(posterior.schema.columns):
        raise FileError("The estimator and its posterior do not belong together.")
    known = set(inspect.signature(cls).parameters)
    parameters = {name: _revived(name, v) for name, v in stored.parameters.items() if name in known}
    estimator = cls(**parameters)
    estimator.rules = [term.rule for term in rule_terms(posterior.model)] or None
    if learnt_rules(posterior.model.prior):
        estimator.prior = base_of(posterior.model.prior)
    estimator.n_features_in_ = stored.features
    if stored.feature_names is not None:
        if tuple(stored.feature_names) != posterior.schema.names:
            raise FileError("The names of the columns are not those of the schema.")
        estimator.feature_names_in_ = np.array(stored.feature_names, dtype=object)
    estimator.schema_ = posterior.schema
    estimator.rules_ = tuple(rule.rule for rule in posterior.rules)
    estimator.posterior_ = posterior
    estimator.outcomes_ = ()
    estimator.enforcement_ = stored.enforcement
    if isinstance(estimator, OCBNNClassifier):
        dtype = np.dtype(stored.label_dtype or "O")
        if dtype.kind not in LABEL_KINDS:
            raise FileError(f"Labels of the type {dtype} are none that a target has.")
        estimator._label_dtype = dtype
        estimator.classes_ = _labels(posterior.classes, dtype)
    return estimator


def _plain(name: str, value: Any) -> Any:
    """A parameter as JSON: engines by name and settings, rules not at all (they have their own file)."""
    if name == "rules":
        return None
    if name == "engine" and is_dataclass(value) and not isinstance(value, type):
        return {"name": getattr(value, "name", ""), "settings": asdict(value)}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray | tuple | list):
        return [_plain("", each) for each in value]
    if isinstance(value, dict):
        return {str(key): _plain("", each) for key, each in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Path | Constraint):
        return str(value)
    return None  # a prior, a random state, preparation: the posterior does not need them any more


def _revived(name: str, value: Any) -> Any:
    if name == "engine" and isinstance(value, dict):
        kind = ENGINES.get(str(value.get("name")))
        settings = value.get("settings")
        if kind is None or not isinstance(settings, dict):
            raise FileError(f"The engine {value.get('name')!r} is not known.")
        return kind(**settings)
    return value
