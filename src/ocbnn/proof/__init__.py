"""Proof: a rule holds at every input of its region, for this share of the draws.

`prove.py` what is asked · `branch.py` the search · `bounds.py` networks over boxes (regions as boxes and activations
are in `model/boxes.py` and `model/shapes.py`) · `results.py` what is said · `certificate.py` how it is saved.
"""  # noqa: E501

from ocbnn.proof.prove import asked_proofs, prove, verify_proof, with_proofs
from ocbnn.proof.results import PROVED, REFUTED, REJECTED, UNDECIDED, Proofs, RuleProof

__all__ = [
    "PROVED",
    "REFUTED",
    "REJECTED",
    "UNDECIDED",
    "Proofs",
    "RuleProof",
    "asked_proofs",
    "prove",
    "verify_proof",
    "with_proofs",
]
