"""The page: one HTML file with everything in it, and its JSON twin beside it."""

from __future__ import annotations

import json
import os
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from ocbnn._version import __version__
from ocbnn.errors import FileError, OCBNNError
from ocbnn.posterior.draws import Posterior
from ocbnn.report import pictures, sentences
from ocbnn.report.evidence import Evidence, fingerprint
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
    write_text(twin, plain_text(evidence))
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
    return _template().render(
        evidence=evidence,
        verdict=sentences.verdict(evidence),
        words=sentences,
        rules_picture=pictures.rules_picture(evidence),
        changes_picture=pictures.changes_picture(evidence),
        band_pictures=pictures.band_pictures(evidence),
        calibration_pictures=pictures.calibration_pictures(evidence),
        run_pictures=pictures.run_pictures(evidence.run.figures),
        provenance=_provenance(evidence),
        css=Markup(_resource("page.css")),  # our own file, no user's text
        twin=twin,
        written_by=f"ocbnn {__version__}",
    )


def _provenance(evidence: Evidence) -> list[tuple[str, str]]:
    """What the report rests on, as names and values to be read."""
    known = evidence.provenance
    rows: list[tuple[str, Any]] = [
        *((f"File: {what}", name) for what, name in evidence.sources.items()),
        ("Predicted", _target_words(evidence)),
        ("Rows learnt from", f"{known['data_rows']:,}" if known.get("data_rows") is not None else None),
        ("Rows held out", f"{evidence.held_out_rows:,}" if evidence.held_out_rows else "none"),
        ("SHA-256 of the rows learnt from", known.get("data_sha256")),
        ("Network", known.get("network")),
        ("Likelihood", known.get("likelihood")),
        ("Engine", evidence.run.engine),
        ("Engine's settings", _settings(known.get("settings"))),
        ("Seed", known.get("seed")),
        ("Variants of the model kept", f"{evidence.run.draws:,}"),
        ("Time of the computation", _duration(evidence.run.seconds)),
        ("Prior", known.get("empirical_prior")),
        ("Versions", _settings(known.get("versions"))),
        ("SHA-256 of the draws", evidence.fingerprint),
        ("Figures gathered", evidence.made.replace("T", " ").replace("+00:00", " UTC")),
    ]
    return [(name, str(value)) for name, value in rows if value not in (None, "")]


def _target_words(evidence: Evidence) -> str:
    target = evidence.target
    if target.classes:
        return f"{target.name}, one of {', '.join(target.classes)}"
    return f"{target.name}, a number" + (f" in {target.unit}" if target.unit else "")


def _settings(values: Any) -> str | None:
    return (
        ", ".join(f"{name} {value}" for name, value in values.items()) if isinstance(values, dict) else None
    )


def _duration(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


@cache
def _template() -> Template:
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_resource("page.html.j2"))


def _resource(name: str) -> str:
    return (files("ocbnn.report") / name).read_text(encoding="utf-8")
