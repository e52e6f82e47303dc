"""Whatever users name their columns, levels, classes and rules: report and pictures come out whole."""

import json
from xml.etree import ElementTree

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ocbnn.plots import style
from ocbnn.report import gather, html, pictures
from ocbnn.report.sections import write
from report_cases import odd

TEXT = st.text(min_size=1, max_size=80).map(lambda text: f"{text}n")  # of blanks alone there is no name
NAMES = st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=80).map(lambda text: f"{text}n")
ODD = ["\x00\x1b[31m$\\frac{", "\ud800", "\u202eevil\u2066", "_hidden", "<svg>&amp;]]>", "漢字🙂" * 2000]


def whole(page: str) -> None:
    """The page can be written and read: no character of it is refused by a file, HTML or XML."""
    assert not style.HIDDEN.search(page.encode("utf-8").decode("utf-8"))
    for picture in page.split("<svg")[1:]:
        ElementTree.fromstring("<svg" + picture.split("</svg>")[0] + "</svg>")


@pytest.mark.parametrize("text", ODD)
@pytest.mark.filterwarnings("error")
def test_a_report_holds_any_text(text: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    name = text.encode(errors="replace").decode()  # a rule takes no half of a surrogate pair; a file name may
    case = odd("a column", name)
    evidence = gather(case.posterior, without=case.without, frame=case.frame, points=10, sources={text: text})
    page = write(evidence, case.posterior, tmp_path / "report.html")
    whole(page.read_text(encoding="utf-8"))
    twin = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert twin["rules"][0]["check"]["name"] == name


@pytest.mark.slow
@settings(max_examples=5, deadline=None)
@given(NAMES, TEXT)
def test_slices_captions_and_page_hold_any_names(name: str, text: str) -> None:
    case = odd(name, text)
    evidence = gather(case.posterior, without=case.without, frame=case.frame, points=10)
    assert all(text in each.caption for each in pictures.band_pictures(evidence))
    whole(html(evidence))


@settings(max_examples=30, deadline=None)
@given(TEXT)
@example("$" * 40)
@example("a" + "\u0301" * 5000)
def test_a_picture_holds_any_text_and_shows_it(text: str) -> None:
    def draw(ax) -> None:  # type: ignore[no-untyped-def]
        ax.plot([0, 1], [0, 1], label=style.entry(text))
        style.label(ax, style.with_unit(text, text), style.shortened(text))
        style.name_ticks(ax, [0, 1], [style.shortened(text, 20), "b"])
        style.legend(ax)
        style.name_rows(ax, [text])

    root = ElementTree.fromstring(pictures.drawn(draw, "any"))
    shown = [str(element.text) for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert shown.count(style.shortened(text)) >= 1
