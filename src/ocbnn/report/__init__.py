"""The report: one self-contained page for people who decide, and a JSON twin for programs.

    evidence = gather(posterior, without=baseline, frame=held_out)
    write(evidence, posterior, "report.html")

- `evidence.py`: what a report rests on, as plain data; never rows.
- `gathering.py`, of `ruling.py`, `heldout.py`, `choosing.py`: from posteriors to evidence.
- `words.py`, `pictures.py`, `svg.py`: sentences and figures.
- `page.py`, `page.html.j2`, `page.css`: the page.
"""

from ocbnn.report.build import gather
from ocbnn.report.evidence import Evidence
from ocbnn.report.page import html, write

__all__ = ["Evidence", "gather", "html", "write"]
