"""The page: one file with everything in it, in the order a reader needs, and nothing that could run."""

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ocbnn.errors import FileError, OCBNNError
from ocbnn.report import Evidence, html, sections, write
from ocbnn.report.sentences import sensitivity_sentence
from report_cases import CASES, NASTY, Case

Cases = Callable[[str], Case]
Gathered = Callable[[str], Evidence]
Pages = Callable[[str], Path]
SECTIONS = [
    "summary",
    "changes",
    "comparison",
    "rules",
    "conflicts",
    "bands",
    "calibration",
    "diagnostics",
    "provenance",
]
VOID = {"meta", "link", "br", "img", "hr"}


class Reader(HTMLParser):
    """Elements, their ids, and text, as a browser would see them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.pictures: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        known = dict(attrs)
        if known.get("id"):
            self.ids.append(str(known["id"]))
        if known.get("role") == "img":
            self.pictures.append(str(known.get("aria-label")))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.mark.parametrize("name", CASES)
def test_sections_come_in_order_and_every_element_is_closed(name: str, page_of: Pages) -> None:
    reader = Reader(page_of(name).read_text(encoding="utf-8"))
    assert reader.open == []
    assert [each for each in reader.ids if each in SECTIONS] == SECTIONS
    assert reader.tags.count("h1") == 1


@pytest.mark.parametrize("name", CASES)
def test_no_two_elements_share_an_id_and_every_reference_has_one(name: str, page_of: Pages) -> None:
    page = page_of(name).read_text(encoding="utf-8")
    ids = Reader(page).ids
    assert [each for each, times in Counter(ids).items() if times > 1] == []
    referred = set(re.findall(r'href="#([^"]+)"', page)) | set(re.findall(r"url\(#([^)]+)\)", page))
    assert referred <= set(ids)


@pytest.mark.parametrize("name", CASES)
def test_every_figure_has_a_caption_and_words_instead_of_it(name: str, page_of: Pages) -> None:
    reader = Reader(page_of(name).read_text(encoding="utf-8"))
    figures = reader.tags.count("figure")
    assert figures == reader.tags.count("figcaption") == reader.tags.count("svg") == len(reader.pictures)
    assert figures >= 3
    assert all(len(words) > 20 for words in reader.pictures)


def test_what_users_name_stays_text(page_of: Pages) -> None:
    page = page_of("nasty").read_text(encoding="utf-8")
    reader = Reader(page)
    assert "script" not in reader.tags
    assert "<script" not in page
    assert "<b>mg" not in page
    text = " ".join(reader.text)
    for words in (f"rule {NASTY}", f"book {NASTY}", f"{NASTY}.csv", f"t{NASTY}", f"settled {NASTY}", "$x_1$"):
        assert words in text


def test_nothing_is_loaded_from_outside(page_of: Pages) -> None:
    page = page_of("numbers").read_text(encoding="utf-8")
    assert not re.search(r"(?:src|href)\s*=\s*[\"'](?!#|data:)", page)
    assert not re.search(r"url\((?!#)", page)
    assert "@import" not in page
    assert "default-src 'none'" in page


def test_colours_of_figures_are_the_pages(page_of: Pages) -> None:
    page = page_of("numbers").read_text(encoding="utf-8")
    assert "var(--with, #0072b2)" in page
    assert "var(--ink, #1f2328)" in page


def test_unmet_rules_and_bad_runs_are_said_first(page_of: Pages) -> None:
    page = page_of("unsettled").read_text(encoding="utf-8")
    first = page[: page.index("<nav")]
    assert " does not." in first
    assert "did not settle" in first
    assert "the data stand against it" in page
    assert ">UNMET on average<" in page


def test_the_page_says_how_much_the_answer_depends_on_each_rule(
    page_of: Pages, evidence_of: Gathered
) -> None:
    page = " ".join(Reader(page_of("numbers").read_text(encoding="utf-8")).text)
    for rule in evidence_of("numbers").rules:
        assert rule.sensitivity is not None
        assert sensitivity_sentence(rule.sensitivity) in page


def test_both_files_are_written(tmp_path: Path, case_of: Cases, evidence_of: Gathered) -> None:
    evidence = evidence_of("numbers")
    page = write(evidence, case_of("numbers").posterior, tmp_path / "new" / "my.report")
    assert page == tmp_path / "new" / "my.report.html"
    assert "<code>my.report.json</code>" in page.read_text(encoding="utf-8")
    twin = json.loads((tmp_path / "new" / "my.report.json").read_text(encoding="utf-8"))
    assert Evidence.from_json(twin).to_json() == evidence.to_json()
    assert sorted(each.name for each in page.parent.iterdir()) == ["my.report.html", "my.report.json"]


def test_evidence_of_another_posterior_is_refused(
    tmp_path: Path, case_of: Cases, evidence_of: Gathered
) -> None:
    with pytest.raises(OCBNNError, match="gather it again"):
        write(evidence_of("numbers"), case_of("classes").posterior, tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_cannot_be_written_is_an_error_that_names_it(
    tmp_path: Path, case_of: Cases, evidence_of: Gathered
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match=r"cannot be written"):
        write(evidence_of("numbers"), case_of("numbers").posterior, tmp_path / "file" / "report.html")


def test_the_twin_takes_the_place_of_its_like_alone(
    case_of: Callable[[str], Case],
    evidence_of: Callable[[str], Evidence],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    evidence, posterior = evidence_of("alone"), case_of("alone").posterior
    write(evidence, posterior, tmp_path / "page.html")
    write(evidence, posterior, tmp_path / "page.html")
    (tmp_path / "page.json").write_text('{"mine": 1}')
    with pytest.raises(FileError, match=r"page\.json exists and was not written with a report"):
        write(evidence, posterior, tmp_path / "page.html")
    assert (tmp_path / "page.json").read_text() == '{"mine": 1}'
    (tmp_path / "page.json").unlink()
    write(evidence, posterior, tmp_path / "page.html")
    monkeypatch.setattr(sections, "LARGEST_TWIN", 1000)  # what is larger is not even read
    with pytest.raises(FileError, match=r"page\.json exists and was not written with a report"):
        write(evidence, posterior, tmp_path / "page.html")


def test_every_rule_has_its_line_in_the_summary_which_leads_to_its_card(
    page_of: Pages, evidence_of: Gathered
) -> None:
    page = page_of("numbers").read_text(encoding="utf-8")
    lines = page.split('<section id="summary">')[1].split("</section>")[0]
    for index, rule in enumerate(evidence_of("numbers").rules, 1):
        assert f'<a href="#rule-{index}">{escape(rule.name)}</a>' in lines
        assert f'id="rule-{index}"' in page
    assert lines.count("<tr>") == 1 + len(evidence_of("numbers").rules)


@pytest.mark.parametrize("verdict", ["met", "unmet", "not shown at this tolerance"])
def test_cards_of_rules_that_are_met_are_folded(verdict: str, evidence_of: Gathered) -> None:
    evidence = evidence_of("numbers")
    rules = tuple(
        replace(rule, check=replace(rule.check, verdict=verdict, levels={})) for rule in evidence.rules
    )
    card = html(replace(evidence, rules=rules)).split('id="rule-1"')[1].split(">")[0]
    assert ("open" in card) is (verdict != "met")


def test_figures_are_named_in_words(page_of: Pages) -> None:
    names = ("epsilon_mean", "epsilon_worst", "draws_violating", "points_violating", "mass_outside")
    assert not [name for name in names if name in page_of("classes").read_text(encoding="utf-8")]


def test_the_command_that_fits_the_model_again_stands_on_the_page(evidence_of: Gathered) -> None:
    call = 'ocbnn fit "<b>.csv" --seed 3'
    page = html(replace(evidence_of("numbers"), command=call))
    assert "ocbnn fit &#34;&lt;b&gt;.csv&#34; --seed 3" in page.split("Repeat the fit")[1]
    assert "Repeat the fit" not in html(evidence_of("numbers"))
