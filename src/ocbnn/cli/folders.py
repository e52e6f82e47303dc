"""The model's folder: the saved estimator, and beside it what a report needs without the table.

model/model.json, rules.yaml, draws.safetensors, diagnostics.json     the estimator
model/without_rules/                                                  its twin, fitted without the rules
model/evidence.json                                                   figures on the rows held out
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocbnn.cli.command import InputError

if TYPE_CHECKING:
    from ocbnn.posterior.draws import Posterior
    from ocbnn.report.evidence import Evidence

LARGEST_EVIDENCE = 64 * 2**20


def require_folder(path: Path, names: Collection[str] | None = None) -> None:
    """Refuse, before any work, a place where a folder of these names (a model's) cannot be written."""
    from ocbnn.cli.tables import require_writable
    from ocbnn.posterior.files import NAMES
    from ocbnn.storing.folders import require_own_folder

    require_writable(path)
    require_own_folder(path, NAMES if names is None else names)


def load_model(path: Path) -> Any:
    """The estimator that `ocbnn fit` saved."""
    from ocbnn import load

    return load(path)


def save_model(
    path: Path, estimator: Any, without: Posterior | None = None, evidence: Evidence | None = None
) -> None:
    """Write the model's folder, whole or not at all, in place of an earlier one."""
    from ocbnn.estimators.files import save
    from ocbnn.posterior.files import EVIDENCE, WITHOUT_RULES, packed
    from ocbnn.storing.plain import plain_text

    beside: dict[str, bytes] = {}
    if without is not None:
        beside |= {f"{WITHOUT_RULES}/{name}": content for name, content in packed(without).items()}
    if evidence is not None:
        beside[EVIDENCE] = plain_text(evidence).encode()
    save(path, estimator, beside=beside)


def load_without(path: Path) -> Posterior | None:
    """The posterior without rules that was fitted beside the model, if there is one."""
    from ocbnn.posterior.files import WITHOUT_RULES, load

    folder = path / WITHOUT_RULES
    return load(folder).posterior if folder.is_dir() else None


def load_evidence(path: Path) -> Evidence | None:
    """The figures that were gathered when the model was fitted, if there are any.

    Raises:
        InputError: a file that cannot be read as such.
    """
    from ocbnn.posterior.files import EVIDENCE
    from ocbnn.report.evidence import Evidence
    from ocbnn.storing.folders import read_file

    if not (path / EVIDENCE).exists():
        return None
    content = read_file(path, EVIDENCE, LARGEST_EVIDENCE)
    try:
        return Evidence.from_json(json.loads(content))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(
            f"{path / EVIDENCE} is damaged ({error}). Delete it: the report then does without the rows "
            "that were held out."
        ) from None
