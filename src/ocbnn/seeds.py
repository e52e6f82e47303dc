"""Seeds by purpose: whatever is drawn by lot gets a seed of its own, made from the user's and a name.

    seed_for(seed, "pilot", 3)     # of the fourth pilot

Numbers added to a seed meet the seeds of other purposes, and those that users choose next; these do not.
"""

from __future__ import annotations

import hashlib


def seed_for(seed: int, purpose: str, *numbers: int) -> int:
    """A seed for one purpose, the same in every process.

    Args:
        seed: the user's, or one that this function gave.
        purpose: what is drawn with it.
        numbers: which round, chain, chunk and so on.

    Returns:
        A whole number below 2⁶³, which NumPy and JAX take.
    """
    text = "\n".join([str(int(seed)), purpose, *(str(int(number)) for number in numbers)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
