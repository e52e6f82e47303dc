"""The page: its sections, one object each, in the order in which they are read; and its JSON twin.

To add one, write a `Section` and its row in `SECTIONS`:

    def missing(material: Material) -> dict[str, int]:
        return {column.name: column.missing for column in material.posterior.schema.columns}

    MISSING = Section(
        "missing",
        "Missing values",
        "Where values were missing",
        "<p>{% for name, rows in figures.items() %}{{ name }}: {{ rows }} {% endfor %}</p>",
        gather=missing,
    )
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from ocbnn._version import __version__
from ocbnn.errors import FileError, OCBNNError
from ocbnn.plots.style import visible
from ocbnn.posterior.draws import Posterior
from ocbnn.report import pictures, relations, sentences
from ocbnn.report.evidence import Evidence, fingerprint
from ocbnn.report.facts import HeldOut
from ocbnn.storage.files import read_file, write_text
from ocbnn.storage.folders import listed_names
from ocbnn.storage.values import plain_text

SUFFIXES = (".html", ".htm")
LARGEST_TWIN = 2**26


class Material(NamedTuple):
    """What a section's own figures are gathered from.

    Attributes:
        posterior: under the rules.
        without: of the same data without any rule, or None.
        rows: held-out rows; None without any.
        points: cases that each rule is checked at.
        seed: of everything that is drawn by lot.
    """

    posterior: Posterior
    without: Posterior | None
    rows: HeldOut | None
    points: int
    seed: int


Draw = Callable[[Evidence], Sequence[pictures.Picture]]


def no_pictures(evidence: Evidence) -> tuple[pictures.Picture, ...]:
    """What most sections show."""
    return ()


@dataclass(frozen=True)
class Section:
    """One part of the page.

    Attributes:
        name: its anchor, and the key of its own figures in `Evidence.further`.
        link: its word in the navigation.
        title: its heading.
        template: Jinja source of what stands below the heading. It sees `evidence`, `words` (the module
            `sentences`), `figures` (the section's own), `pictures`, and the macros `figure(picture)` and
            `badge(rule)`. All values are escaped.
        draw: from the evidence to the section's pictures; `pictures.drawn` makes one.
        gather: from posteriors to the section's own figures, as values that JSON can hold: aggregates, never
            rows. A page of evidence without these figures leaves the section out; None leaves them out.
    """

    name: str
    link: str
    title: str
    template: str
    draw: Draw = no_pictures
    gather: Callable[[Material], Any] | None = None


def resource(name: str) -> str:
    """A file of the folder `templates`."""
    return (files("ocbnn.report") / "templates" / name).read_text(encoding="utf-8")


def _section(name: str, link: str, title: str, draw: Draw = no_pictures) -> Section:
    return Section(name, link, title, resource(f"{name}.html.j2"), draw)


SECTIONS: list[Section] = [
    _section("summary", "Summary", "All rules, one line each"),
    _section("changes", "What changed", "What the rules changed, and where", pictures.changes_pictures),
    _section("comparison", "With and without", "With and without the rules", pictures.rules_pictures),
    _section("rules", "Rules", "The rules, one by one"),
    _section("conflicts", "Conflicts", "Conflicts"),
    Section(
        relations.NAME,
        "Relations",
        "What rules compare",
        resource("relations.html.j2"),
        relations.pictures,
        relations.gathered,
    ),
    _section("bands", "Predictions", "What the model predicts", pictures.band_pictures),
    _section(
        "calibration",
        "Calibration",
        "Calibration: are predicted probabilities right?",
        pictures.calibration_pictures,
    ),
    _section(
        "diagnostics", "Diagnostics", "Diagnostics: can the computation be trusted?", pictures.run_pictures
    ),
    _section(
        "provenance",
        "Provenance",
        "Provenance: what went in, and how to repeat it",
        pictures.prior_pictures,
    ),
]
"""The sections, from top to bottom."""


# The page ---------------------------------------------------------------------------------------------------


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
            f"{twin} exists and was not written with a report, so the figures of {page.name} cannot go "
            "there: it would be lost. Give the page another name or folder."
        )
    return page, twin


def _is_twin(path: Path) -> bool:
    """Whether a file holds figures of an earlier report, which a new one may replace."""
    try:
        stored = json.loads(read_file(path, LARGEST_TWIN))
    except (ValueError, RecursionError):
        return False
    return isinstance(stored, dict) and {"version", "fingerprint", "rules", "run"} <= set(stored)


def html(evidence: Evidence, *, twin: str | None = None) -> str:
    """The page as text; `twin` is the name of the file that holds the same figures."""
    environment = _environment()
    sections = []
    for section in SECTIONS:
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
