"""The sections of the page, one object each, in the order in which they are read.

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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, NamedTuple

from ocbnn.posterior.draws import Posterior
from ocbnn.report import pictures
from ocbnn.report.evidence import Evidence
from ocbnn.report.held_out import HeldOut


class Material(NamedTuple):
    """What a section's own figures are gathered from.

    Attributes:
        posterior: under the rules.
        without: of the same data without any rule; None where there is none.
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
            rows. A page of evidence without these figures leaves the section out.
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
    _section("rules", "Rules", "The rules, one by one"),
    _section("comparison", "With and without", "With and without the rules", pictures.rules_pictures),
    _section(
        "changes", "Changes", "Which predictions the rules changed, and where", pictures.changes_pictures
    ),
    _section("conflicts", "Conflicts", "Conflicts"),
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
    _section("provenance", "Provenance", "Provenance"),
]
"""The sections, from top to bottom."""
