"""A section of the report is one object: this file alone adds one, with figures, a picture and its words."""

import json
from typing import Any

import numpy as np
import pytest

from ocbnn.report import Evidence, gather, html, sections
from ocbnn.report.pictures import Picture, drawn
from ocbnn.report.sections import Material, Section
from report_cases import NASTY, classes


def missing_values(material: Material) -> dict[str, Any]:
    """How many values of each column were missing, and a user's text."""
    columns = {column.name: column.missing for column in material.posterior.schema.columns}
    rows = 0 if material.rows is None else len(material.rows)
    return {"columns": columns, "rows": rows, "said": NASTY}


def bars(evidence: Evidence) -> tuple[Picture, ...]:
    counts = evidence.further["missing"]["columns"]
    picture = drawn(lambda ax: ax.bar(np.arange(len(counts)), list(counts.values())), "missing")
    return (Picture(picture, "Missing values of each column.", "A bar for each column."),)


MISSING = Section(
    name="missing",
    link="Missing values",
    title="Where values were missing",
    template="""
      <ul>{% for name, count in figures.columns.items() %}<li>{{ name }}: {{ count }}</li>{% endfor %}</ul>
      <p>{{ words.count(figures.rows, "held-out row") }}; {{ figures.said }}</p>
      {% for picture in pictures %}{{ figure(picture) }}{% endfor %}
    """,
    draw=bars,
    gather=missing_values,
)


@pytest.fixture
def _added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sections, "SECTIONS", [*sections.SECTIONS, MISSING])


@pytest.mark.usefixtures("_added")
def test_a_section_is_gathered_stored_linked_and_shown() -> None:
    case = classes()
    evidence = gather(case.posterior, frame=case.frame, points=10)
    again = Evidence.from_json(json.loads(json.dumps(evidence.to_json())))
    assert again.further["missing"] == {"columns": {"x": 0, "site": 0}, "rows": 60, "said": NASTY}
    page = html(again)
    assert '<a href="#missing">Missing values</a>' in page
    assert page.index('id="provenance"') < page.index('<section id="missing">')
    body = page.split('<section id="missing">')[1]
    assert "<li>site: 0</li>" in body
    assert "60 held-out rows" in body
    assert "Missing values of each column." in body
    assert "<script>" not in page


def test_evidence_that_lacks_a_sections_figures_leaves_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    evidence = gather(classes().posterior, points=10)
    monkeypatch.setattr(sections, "SECTIONS", [*sections.SECTIONS, MISSING])
    assert "Missing values" not in html(evidence)
