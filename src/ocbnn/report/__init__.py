"""The report: one self-contained page for people who decide, and a JSON twin for programs.

    evidence = gather(posterior, without=baseline, frame=held_out)
    write(evidence, posterior, "report.html")

- `evidence.py`: what a report rests on, as plain data; never rows.
- `build.py`, with `rules.py` and `held_out.py`: from posteriors to evidence.
- `sections.py`: the sections of the page, one object each, with `templates/`.
- `sentences.py`, `pictures.py`: sentences and figures.  `page.py`: the page.
"""

from ocbnn.report.build import gather
from ocbnn.report.evidence import Evidence
from ocbnn.report.page import html, write

__all__ = ["Evidence", "gather", "html", "write"]
