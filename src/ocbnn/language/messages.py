"""Pieces of sentences that errors are made of."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence

LONGEST = 60


def quoted(given: str) -> str:
    """What the user wrote, in backticks; shortened, and with what cannot be printed replaced."""
    printable = "".join(letter if letter.isprintable() else "·" for letter in given[: LONGEST + 1])
    return f"`{printable}`" if len(given) <= LONGEST else f"`{printable[:LONGEST]}…`"


def listed(items: Iterable[str], last: str = "and", limit: int = 12) -> str:
    """`a, b and c`, cut off after `limit`."""
    words = list(items)
    if len(words) > limit:
        return ", ".join(words[:limit]) + f", … ({len(words)} in all)"
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def did_you_mean(wrong: str, known: Sequence[str], show: Callable[[str], str]) -> str:
    """` Did you mean `x`?`, or nothing where no known name is near; case makes no difference."""
    by_folded = {name.casefold(): name for name in reversed(known)}
    near = difflib.get_close_matches(wrong[:LONGEST].casefold(), list(by_folded), n=1, cutoff=0.6)
    return f" Did you mean {show(by_folded[near[0]])}?" if near else ""
