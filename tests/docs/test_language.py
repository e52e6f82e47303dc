"""What people read is plain English: turns of phrase that were hard to understand do not come back."""

from __future__ import annotations

import io
import re
import tokenize
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
READ = {"STRING", "FSTRING_MIDDLE", "COMMENT"}
HARD = {
    "unless said": "default: …",
    r"(?<!there\W)(?:is|are) none\b": "say what it is",
    r"that is no (?!longer)": "a … other than, or: that is not a",
    r"\brooms\b": "modules",
    r"what they shall be": "keeps the current …",
    r"of the same name of": "whose name clashes with",
    r"\bNeeded is\b": "Expected …",
    r"\bis no table\b": "is not a table",
    r"sets of answers": "prediction sets",
    r"believes nothing": "validates every file",
    r"with a word on": "and says how",
    r"minds rare": "reweights",
    r"\bBroken in below\b": "Violated in fewer than",
}


@cache
def texts() -> dict[str, str]:
    """Pages and templates whole; of code, what people read: strings and comments."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    pages += [*(ROOT / "src").rglob("*.j2"), *(ROOT / "src").rglob("*.yaml")]
    found = {str(page.relative_to(ROOT)): page.read_text("utf-8") for page in pages}
    for file in (ROOT / "src").rglob("*.py"):
        tokens = tokenize.generate_tokens(io.StringIO(file.read_text("utf-8")).readline)
        read = [token.string for token in tokens if tokenize.tok_name[token.type] in READ]
        found[str(file.relative_to(ROOT))] = "\n".join(read)
    return found


@pytest.mark.parametrize("phrase", HARD)
def test_no_page_message_or_docstring_has_a_phrase_that_is_hard_to_read(phrase: str) -> None:
    pattern = re.compile(phrase.replace(" ", r"\s+"))
    assert {name: found for name, text in texts().items() if (found := pattern.findall(text))} == {}


def test_pages_say_chains_or_particles_and_modules() -> None:
    words = re.compile(r"\b(?:members?|rooms?)\b", re.IGNORECASE)
    pages = {name: text for name, text in texts().items() if not name.endswith(".py")}
    assert {name: found for name, text in pages.items() if (found := words.findall(text))} == {}
