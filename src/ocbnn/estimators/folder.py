"""Fitted estimators as folders of plain files, and what a report needs beside them.

model/…                 the posterior, with how the estimator is made again (posterior/folder.py)
model/without_rules/    its twin, fitted without the rules
model/evidence.json     figures on the rows held out
model/proof.*           what is proved of its rules, with the boxes
"""

from __future__ import annotations

import inspect
import os
from dataclasses import asdict, dataclass, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ocbnn.errors import FileError
from ocbnn.estimators.base import OCBNNEstimator
from ocbnn.estimators.classifier import OCBNNClassifier, _labels
from ocbnn.estimators.regressor import OCBNNRegressor
from ocbnn.estimators.settings_files import plain_preparation, read_preparation
from ocbnn.inference.engines import ENGINES, UnknownEngine
from ocbnn.inference.prepare import Settings
from ocbnn.model import Model
from ocbnn.model.priors import Prior
from ocbnn.posterior.draws import Posterior, rule_provenance
from ocbnn.posterior.enforce import truncate
from ocbnn.posterior.folder import KIND, Loaded, pack_posterior, unpack_posterior
from ocbnn.proof.certificate import pack_proofs, unpack_proofs
from ocbnn.rules.constraint import Constraint
from ocbnn.storage.documents import json_bytes
from ocbnn.storage.folders import Folder, read_folder, write_folder
from ocbnn.storage.values import UnsavableError, exact, from_exact, plain, restored

if TYPE_CHECKING:
    from ocbnn.report.evidence import Evidence

WITHOUT_RULES, EVIDENCE = "without_rules", "evidence.json"
LARGEST_EVIDENCE = 64 * 2**20
ESTIMATORS: dict[str, type[OCBNNEstimator]] = {cls.__name__: cls for cls in (OCBNNRegressor, OCBNNClassifier)}
LABEL_KINDS = "biufUO"
LONGEST_LABEL = 4096
"""Characters of a label's type: an array of labels takes them all for each one."""
OWN_PRIOR = {"kept": "with the posterior"}
"""Stands for a base prior of the user's own, which is part of the posterior's model."""


@dataclass(frozen=True)
class EstimatorValues:
    """What a saved estimator is, besides its posterior."""

    name: str
    parameters: dict[str, Any]
    features: int
    feature_names: list[str] | None
    label_dtype: str | None
    enforcement: Literal["truncate", "draws", "proved"] | None
    class_weights: list[float] | None = None


class SavedModel(NamedTuple):
    """All that a saved model holds: the estimator, its twin without rules, and the figures of a report."""

    estimator: Any
    without: Posterior | None
    evidence: Evidence | None


def save(
    path: str | os.PathLike[str],
    estimator: OCBNNEstimator,
    without: Posterior | None = None,
    evidence: Evidence | None = None,
) -> None:
    """Write a fitted estimator, whole or not at all, in place of an earlier one.

    Args:
        path: a folder of its own.
        estimator: fitted. Parameters that are Python objects are written as what they mean.
        without: its twin, fitted without the rules.
        evidence: what `report.gather` has found out.
    """
    files = pack_posterior(estimator.posterior_, _pack_estimator(estimator))
    if without is not None:
        files |= {f"{WITHOUT_RULES}/{name}": content for name, content in pack_posterior(without).items()}
    if estimator.proof_ is not None:
        files |= pack_proofs(estimator.proof_)
    if evidence is not None:
        files[EVIDENCE] = json_bytes(plain(evidence))
    write_folder(path, KIND, files)


def save_posterior(path: str | os.PathLike[str], posterior: Posterior) -> None:
    """Write a posterior that no estimator has fitted, so that `load` gives it back as one."""
    cls = OCBNNClassifier if posterior.classes else OCBNNRegressor
    values = EstimatorValues(
        name=cls.__name__,
        parameters={},
        features=len(posterior.schema.columns),
        feature_names=list(posterior.schema.names),
        label_dtype=None if not posterior.classes else _natural_dtype(posterior.classes),
        enforcement="truncate" if posterior.truncated else "draws" if posterior.enforced else None,
    )
    write_folder(path, KIND, pack_posterior(posterior, vars(values)))


def load(path: str | os.PathLike[str]) -> Any:
    """The fitted estimator that `save` wrote, predicting exactly as it did.

    Opening a saved model never runs code of its author. Training rows are not in it.

    Raises:
        FileError: the folder is not a saved estimator, is damaged, or was written by another version.
    """
    return read_folder(path, KIND, unpack_estimator)


def load_all(path: str | os.PathLike[str]) -> SavedModel:
    """The estimator with its twin and its evidence, all of one version of the folder."""
    return read_folder(path, KIND, _unpack_all)


def _unpack_all(folder: Folder) -> SavedModel:
    from ocbnn.report.evidence import Evidence  # which draws pictures: a prediction does without

    twin = folder.within(WITHOUT_RULES)
    return SavedModel(
        unpack_estimator(folder),
        None if twin is None else unpack_posterior(twin).posterior,
        Evidence.from_json(folder.json(EVIDENCE, LARGEST_EVIDENCE)) if EVIDENCE in folder else None,
    )


def require_savable(estimator: OCBNNEstimator, model: Model) -> None:
    """Refuse, before a fit, what could not be saved and loaded after it: pack a stand-in, and unpack it.

    Parts that by design cannot be saved, such as Python functions, may be fitted all the same.

    Raises:
        FileError: a name, text or parameter that no file can hold, or files that would be too large.
    """
    known = {"rules": [rule_provenance(term) for term in (*model.terms, *model.formed, *model.learnt)]}
    stand_in = Posterior(np.zeros((1, 1, model.size)), model, known)
    try:
        files = pack_posterior(stand_in, _pack_estimator(estimator, fitted=False))
    except UnsavableError:
        return
    unpack_posterior(Folder.in_memory(KIND, files))


def _pack_estimator(estimator: OCBNNEstimator, *, fitted: bool = True) -> dict[str, Any]:
    names = getattr(estimator, "feature_names_in_", None)
    dtype = _storable_dtype(getattr(estimator, "_label_dtype", None))
    weights = getattr(estimator, "class_weights_", None)
    values = EstimatorValues(
        name=type(estimator).__name__,
        parameters={name: _plain(name, value) for name, value in estimator.get_params(deep=False).items()},
        features=estimator.n_features_in_,
        feature_names=None if names is None else [str(name) for name in names],
        label_dtype=None if dtype is None else str(np.dtype(dtype).str),
        enforcement=estimator.enforcement_ if fitted else None,
        class_weights=weights.tolist() if isinstance(weights, np.ndarray) else None,
    )
    return vars(values)


def unpack_estimator(folder: Folder) -> OCBNNEstimator:
    """The estimator in a folder."""
    loaded = unpack_posterior(folder)
    if loaded.estimator is None:
        raise FileError("it holds a posterior without an estimator: ocbnn.posterior.folder.load(path).")
    try:
        estimator = _restored(restored(EstimatorValues, loaded.estimator, "The estimator"), loaded)
        estimator.proof_ = unpack_proofs(folder, loaded.posterior.mask.shape)
        return estimator
    except (TypeError, ValueError, KeyError) as error:
        raise (
            error if isinstance(error, FileError) else FileError(f"The estimator is damaged: {error}")
        ) from None


def _restored(stored: EstimatorValues, loaded: Loaded) -> OCBNNEstimator:
    if stored.name not in ESTIMATORS:
        raise FileError(f"{stored.name!r} is not an estimator of ocbnn.")
    cls, posterior = ESTIMATORS[stored.name], loaded.posterior
    if posterior.target.task != cls.task or stored.features != len(posterior.schema.columns):
        raise FileError("The estimator and its posterior do not belong together.")
    known = set(inspect.signature(cls).parameters)
    base = posterior.model.base
    parameters = {name: _revived(name, v, base) for name, v in stored.parameters.items() if name in known}
    estimator = cls(**parameters)
    own = (*posterior.model.terms, *posterior.model.formed)
    estimator.rules = [term.rule for term in own] or None
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
    estimator.proof_ = None
    if isinstance(estimator, OCBNNClassifier):
        dtype = _label_dtype(stored.label_dtype or "O")
        estimator._label_dtype = dtype
        estimator.classes_ = _labels(posterior.classes, dtype)
        weights = np.ones(len(posterior.classes)) if stored.class_weights is None else stored.class_weights
        estimator.class_weights_ = np.asarray(weights, dtype=float)
        if len(weights) != len(posterior.classes) or not (estimator.class_weights_ > 0).all():
            raise FileError("The weights of the classes are not one positive number for each class.")
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
    """The type of labels; other types, and types too wide for the memory, are refused."""
    if len(text) > 20:
        raise FileError("The type of the labels is not one that a target can have.")
    dtype = np.dtype(text)
    if dtype.kind not in LABEL_KINDS or dtype.shape or dtype.itemsize > 4 * LONGEST_LABEL:
        raise FileError(f"A target cannot have labels of the type {text!r}.")
    return dtype


def _plain(name: str, value: Any) -> Any:
    """A parameter as JSON: engines by name and settings, rules not at all (they have their own file)."""
    if name == "rules":
        return None
    if name == "engine" and is_dataclass(value) and not isinstance(value, type):
        return {"name": str(getattr(value, "name", "")), "settings": exact(asdict(value))}
    if name == "preparation" and isinstance(value, Settings):
        return exact(plain_preparation(value))
    if name == "prior" and isinstance(value, Prior):
        return OWN_PRIOR
    if isinstance(value, Path | Constraint):
        return str(value)
    if name == "random_state" and not isinstance(value, int | np.integer):
        return None  # it has gone on since, and cannot be told
    return exact(value)


def _revived(name: str, value: Any, base: Prior) -> Any:
    if name == "engine" and isinstance(value, dict):
        settings = from_exact(value.get("settings"))
        if not isinstance(settings, dict):
            raise FileError("The settings of the engine are missing.")
        kind = ENGINES.get(str(value.get("name")))
        # An engine of the author's own is code, and not in the file; a fit needs it, a prediction does not.
        return UnknownEngine(str(value.get("name"))) if kind is None else kind(**settings)
    if name == "preparation" and isinstance(value, dict):
        return read_preparation(from_exact(value), "The estimator")
    if name == "prior" and value == OWN_PRIOR:
        return base
    return from_exact(value)
