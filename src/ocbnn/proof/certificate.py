"""Proofs as files of a saved model: figures as JSON, and the boxes, cut by cut, as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ocbnn.checking.figures import Figure
from ocbnn.errors import FileError
from ocbnn.proof.results import REJECTED, Proofs, RuleProof
from ocbnn.storage.arrays import Declared, array_bytes
from ocbnn.storage.documents import json_bytes
from ocbnn.storage.folders import Folder
from ocbnn.storage.values import plain, restored

PROOF, BOXES = "proof.json", "proof.safetensors"
LARGEST_PROOF = 64 * 2**20
LARGEST_BOXES = 2 * 2**30
ARRAYS = ("status", "remaining", "columns", "places")


@dataclass(frozen=True)
class ProofValues:
    """One rule's proof in proof.json; its arrays are beside it."""

    name: str
    text: str
    over: str
    unproved: Figure
    boxes: int
    seconds: float
    reason: str
    points: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class ProofsValues:
    """The content of proof.json."""

    rules: list[ProofValues]
    unproved: Figure


def pack_proofs(proofs: Proofs) -> dict[str, bytes]:
    """The files of a certificate, by name."""
    rules, arrays = [], dict[str, np.ndarray]()
    for number, proof in enumerate(proofs):
        points = {str(draw): dict(point) for draw, point in proof.points.items()}
        rules.append(
            ProofValues(
                proof.name,
                proof.text,
                proof.over,
                proof.unproved,
                proof.boxes,
                proof.seconds,
                proof.reason,
                points,
            )
        )
        columns, places = proof.cuts
        values = (proof.status.astype(np.int32), proof.remaining, columns.astype(np.int32), places)
        arrays |= {f"{name}_{number}": value for name, value in zip(ARRAYS, values, strict=True)}
    content = ProofsValues(rules, proofs.unproved)
    return {PROOF: json_bytes(plain(content)), BOXES: array_bytes(arrays)}


def unpack_proofs(folder: Folder, shape: tuple[int, int]) -> Proofs | None:
    """The proofs in a saved model whose draws have this shape; None where there are none.

    Raises:
        FileError: a certificate that is damaged, or is not about these draws.
    """
    if PROOF not in folder:
        return None
    stored = restored(ProofsValues, folder.json(PROOF, LARGEST_PROOF), PROOF)
    count = len(stored.rules)

    def fits(declared: Mapping[str, Declared]) -> None:
        if set(declared) != {f"{name}_{number}" for name in ARRAYS for number in range(count)}:
            raise FileError("The boxes of the proof are not those of its rules.")
        for number in range(count):
            sizes = [declared[f"{name}_{number}"].shape for name in ARRAYS]
            if sizes[0] != shape or sizes[1] != shape or sizes[2] != sizes[3] or len(sizes[2]) != 1:
                raise FileError("The proof is not about the draws of this model.")

    arrays = folder.arrays(BOXES, fits, LARGEST_BOXES)
    rules = []
    for number, each in enumerate(stored.rules):
        status, remaining, columns, places = (arrays[f"{name}_{number}"] for name in ARRAYS)
        if ((status < 0) | (status > REJECTED)).any():
            raise FileError("The proof has a status that no draw can have.")
        rules.append(
            RuleProof(
                name=each.name,
                text=each.text,
                over=each.over,
                status=status,
                unproved=each.unproved,
                points={int(draw): point for draw, point in each.points.items()},
                remaining=remaining,
                boxes=each.boxes,
                seconds=each.seconds,
                reason=each.reason,
                cuts=(columns, places),
            )
        )
    return Proofs(tuple(rules), stored.unproved)
