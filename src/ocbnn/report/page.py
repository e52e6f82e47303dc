"""The page: one HTML file with everything in it, and its JSON twin beside it."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from ocbnn._version import __version__
from ocbnn.errors import FileError, OCBNNError
from ocbnn.plots.style import visible
from ocbnn.posterior.draws import Posterior
from ocbnn.report import sections as parts
from ocbnn.report import sentences
from ocbnn.report.evidence import Evidence, fingerprint
from ocbnn.report.sections import resource
from ocbnn.storage.files import write_text
from ocbnn.storage.folders import listed_names
from ocbnn.storage.values import plain_text

SUFFIXES = (".html", ".htm")


def write(evidence: Evidence, posterior: Posterior, path: str | os.PathLike[str]) -> Path:
    """Write the report as `path` (.html) and its twin beside it (.json); the path of the page.

    Args:
        evidence: gathered of this posterior.
        posterior: what the evidence is held against: figures of another fit are not reported as this one's.
        path: of the page; ".html" is added where it has no such ending.

    Raises:
        OCBNNError: the evidence is of another posterior.
        FileError: the files cannot be written, or the twin would take the place of something else.
    """
    if evidence.fingerprint != fingerprint(posterior):
        raise OCBNNError(
            "The evidence was gathered of another posterior than this one: gather it again, with "
            "ocbnn.report.gather(posterior)."
        )
    page, twin = places(path)
    # JSON has an escape for what no file of text may hold: half of a pair of surrogates.
    write_text(twin, plain_text(evidence).encode("utf-8", "backslashreplace").decode("utf-8"))
    write_text(page, html(evidence, twin=twin.name))
    return page


def places(path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Where the page goes, and its twin.

    Raises:
        FileError: the twin would take the place of a file that is something else, as in a model's folder.
    """
    page = Path(path)
    if page.suffix.lower() not in SUFFIXES:
        page = page.with_name(page.name + ".html")
    twin = page.with_suffix(".json")
    if twin.name in listed_names(twin.parent) or (twin.is_file() and not _is_twin(twin)):
        raise FileError(
            f"{twin} exists and is no report's, so the figures of {page.name} cannot go there: it would be "
            "lost. Give the page another name or folder."
        )
    return page, twin


def _is_twin(path: Path) -> bool:
    """Whether a file holds figures of an earlier report, which a new one may replace."""
    try:
        stored = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(stored, dict) and {"version", "fingerprint", "rules", "run"} <= set(stored)


def html(evidence: Evidence, *, twin: str | None = None) -> str:
    """The page as text; `twin` is the name of the file that holds the same figures."""
    environment = _environment()
    sections = []
    for section in parts.SECTIONS:
        if section.gather is not None and section.name not in evidence.further:
            continue
        body = environment.from_string(section.template).render(
            evidence=evidence, figures=evidence.further.get(section.name), pictures=section.draw(evidence)
        )
        sections.append((section, Markup(body)))  # escaped while it was rendered
    return environment.from_string(resource("page.html.j2")).render(
        evidence=evidence,
        verdict=sentences.verdict(evidence),
        sections=sections,
        css=Markup(resource("page.css")),  # our own file, no user's text
        twin=twin,
        written_by=f"ocbnn {__version__}",
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: value if isinstance(value, Markup) else visible(str(value)),
    )
    environment.globals["words"] = sentences
    macros: Any = environment.from_string(resource("macros.html.j2")).module
    environment.globals |= {"figure": macros.figure, "badge": macros.badge}
    return environment
