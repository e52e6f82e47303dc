"""Proof: a rule holds at every input of its region, for this share of the draws.

`prove.py` what is asked · `branch.py` the search · `boxes.py` regions as boxes · `bounds.py` networks over boxes ·
`shapes.py` activations · `results.py` what is said · `certificate.py` how it is saved.
"""  # noqa: E501

from ocbnn.proof.prove import keep_proved, prove, verify_proof, with_proofs
from ocbnn.proof.results import PROVED, REFUTED, REJECTED, UNDECIDED, Proofs, RuleProof

__all__ = [
    "PROVED",
    "REFUTED",
    "REJECTED",
    "UNDECIDED",
    "Proofs",
    "RuleProof",
    "keep_proved",
    "prove",
    "verify_proof",
    "with_proofs",
]
