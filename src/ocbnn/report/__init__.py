"""The report: one self-contained page for people who decide, and a JSON twin for programs.

    evidence = gather(posterior, without=baseline, frame=held_out)
    write(evidence, posterior, "report.html")

- `evidence.py`: what a report rests on, as plain data; never rows.
- `build.py`, with `facts.py`: from posteriors to evidence.
- `sections.py`: the page and its sections, one object each, with `templates/`.
- `sentences.py`, `pictures.py`, `relations.py`: sentences, pictures, and those of relations.
"""

from ocbnn.report.build import gather
from ocbnn.report.evidence import Evidence
from ocbnn.report.sections import html, write

__all__ = ["Evidence", "gather", "html", "write"]
