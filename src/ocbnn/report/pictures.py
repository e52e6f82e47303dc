"""The pictures of a report, as SVG that is part of the page.

Nothing here touches Matplotlib's global state: figure, canvas and renderer belong to one picture, and looks
are set on the axes. So reports can be made in several threads at once, and come out the same every time.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.backends.backend_svg import RendererSVG
from matplotlib.figure import Figure
from matplotlib.gridspec import SubplotParams
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from ocbnn import plots
from ocbnn.checking.results import IN_WORDS
from ocbnn.plots.figures import LOOKS, ChainFigures
from ocbnn.plots.style import CLASSES, DATA, ROLES, UNCLEAR, dressed, printable
from ocbnn.posterior.calibration import Calibration
from ocbnn.report.evidence import BandFacts, Evidence
from ocbnn.report.sentences import PROBABILITY, capital, number, percent

WIDTH = 3.9
"""Inches at 72 points: narrow, so that text is readable where a phone shows the figure at full width."""
VARIABLES = {colour: f"var(--{role}, {colour})" for role, colour in ROLES.items()} | {
    colour: f"var(--class-{index}, {colour})" for index, colour in enumerate(CLASSES, 1)
}
FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif"
SVG = "http://www.w3.org/2000/svg"
DROPPED = dict.fromkeys(("Creator", "Date", "Format", "Type"))


class TextRenderer(RendererSVG):
    """Matplotlib's SVG with text as text, whatever `svg.fonttype` is."""

    def draw_text(
        self,
        gc: Any,
        x: float,
        y: float,
        s: str,
        prop: Any,
        angle: float,
        ismath: Any = False,
        mtext: Any = None,
    ) -> None:
        self._draw_text_as_text(gc, x, y, s, prop, angle, False, mtext)  # type: ignore[no-untyped-call]

    def get_text_width_height_descent(self, s: str, prop: Any, ismath: Any) -> Any:
        """The size of the text; characters that the font lacks are as wide as "M"."""
        return super().get_text_width_height_descent(printable(s), prop, False)  # type: ignore[no-untyped-call]


def drawn(draw: Callable[[Axes], object], name: str, height: float = 2.9) -> Markup:
    """What `draw` puts on axes, as an inline SVG element whose ids begin with `name`."""
    layout = ConstrainedLayoutEngine(h_pad=0.04167, w_pad=0.04167, hspace=0.02, wspace=0.02)
    margins = SubplotParams(left=0.125, right=0.9, bottom=0.11, top=0.88, wspace=0.2, hspace=0.2)
    figure = Figure((WIDTH, height), 72, facecolor="none", edgecolor="none", linewidth=0)
    figure.subplotpars.update(**vars(margins))
    figure.set_layout_engine(layout)
    buffer = io.StringIO()
    svg: Any = TextRenderer  # Matplotlib has no types for its back ends
    renderer = svg(WIDTH * 72, height * 72, buffer, metadata=DROPPED)
    canvas: Any = FigureCanvasBase(figure)
    canvas.get_renderer = lambda: renderer  # what the layout is measured with
    draw(dressed(figure.subplots()))
    for line in figure.findobj(Line2D):
        line.set(solid_capstyle="butt")
    figure.draw(renderer)
    renderer.finalize()
    return inline(buffer.getvalue(), name)


def inline(content: str, name: str) -> Markup:
    """An SVG document as an element of a page, with ids of its own: `name-1`, `name-2`, ….

    Matplotlib's ids are random. Namespaces are for documents; an element of a page has none.
    """
    root = ElementTree.fromstring(re.sub(r"<!DOCTYPE[^>]*>", "", content))
    for element in root.iter():
        element.tag = element.tag.removeprefix(f"{{{SVG}}}")
        for attribute in [each for each in element.attrib if each.startswith("{")]:
            element.set(attribute.rpartition("}")[2], element.attrib.pop(attribute))
    for metadata in root.findall("metadata"):
        root.remove(metadata)
    for size in ("width", "height"):
        root.attrib.pop(size, None)
    root.attrib |= {"xmlns": SVG, "aria-hidden": "true", "focusable": "false"}  # the words are around it
    ids: dict[str, str] = {}
    for element in root.iter():
        if "id" in element.attrib:
            ids[element.attrib["id"]] = f"{name}-{len(ids) + 1}"
    for element in root.iter():
        for attribute, value in element.attrib.items():
            element.set(attribute, _adapted(attribute, value, ids))
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _adapted(attribute: str, value: str, ids: dict[str, str]) -> str:
    if attribute == "id":
        return ids[value]
    if attribute == "href" and value.startswith("#"):
        return f"#{ids[value[1:]]}"
    value = re.sub(r"url\(#([^)]+)\)", lambda found: f"url(#{ids[found[1]]})", value)
    if attribute == "style":
        value = re.sub(r"font-family:[^;]*", f"font-family: {FONTS}", value)
    if attribute in ("style", "fill", "stroke"):
        for colour, variable in VARIABLES.items():
            value = value.replace(colour, variable)
    return value


@dataclass(frozen=True)
class Picture:
    """A figure as the page shows it."""

    svg: Markup
    caption: str
    alternative: str


PARTS = ((UNCLEAR, "s", "-"), (DATA, "^", "--"))
"""Looks of "where rules apply" and "elsewhere": other ones than with and without the rules."""


def rules_pictures(evidence: Evidence) -> tuple[Picture, ...]:
    """How far every rule is kept, with and without the rules."""
    rules = evidence.rules
    if not rules:
        return ()
    checks, others = [rule.check for rule in rules], [rule.without for rule in rules]
    without = " Diamonds show the model without the rules." if evidence.compared else ""
    said = "; ".join(
        f"{rule.name}: {percent(rule.check.violation.value)}"
        + ("" if rule.without is None else f", without the rules {percent(rule.without.violation.value)}")
        + f", tolerance {percent(rule.check.tolerance)}, {rule.check.verdict} {IN_WORDS[rule.check.asked]}"
        for rule in rules
    )
    return (
        Picture(
            drawn(lambda ax: plots.satisfaction(checks, others, ax=ax), "rules", 1.35 + 0.46 * len(rules)),
            "A rule is kept where its bar ends left of the upright stroke, its tolerance. The bar is the 95% "
            f"interval.{without} The scale grows tenfold from mark to mark.",
            f"Share of checks that violate each rule. {said}.",
        ),
    )


def changes_pictures(evidence: Evidence) -> tuple[Picture, ...]:
    """What the rules change where each of them applies."""
    found = [(rule.name, rule.change) for rule in evidence.rules if rule.change is not None]
    if not found:
        return ()
    quantities = {change.quantity for _, change in found}
    quantity = quantities.pop() if len(quantities) == 1 else "probability of what the rule names"
    shifts = [
        (name if not quantities else f"{name}: {change.quantity}", change.without, change.with_rules)
        for name, change in found
    ]
    unit = None if evidence.target.classes else evidence.target.unit
    said = "; ".join(f"{name}: from {number(before)} to {number(after)}" for name, before, after in shifts)

    def draw(ax: Axes) -> object:
        return plots.changes(shifts, quantity, unit=unit, probability=bool(evidence.target.classes), ax=ax)

    return (
        Picture(
            drawn(draw, "changes", 1.2 + 0.46 * len(shifts)),
            "Each arrow goes from the mean prediction without the rules to the mean with them, over cases "
            "where the rule applies. A long arrow is a rule that changes much; no arrow is a rule that the "
            "data already kept.",
            f"Mean {quantity} where each rule applies, without and with the rules. {said}.",
        ),
    )


def band_pictures(evidence: Evidence) -> tuple[Picture, ...]:
    """What the model says along the most important columns."""
    return tuple(_band(facts, index) for index, facts in enumerate(evidence.bands, 1))


def _band(facts: BandFacts, index: int) -> Picture:
    shown = facts.shown
    case = ", ".join(f"{name} {value}" for name, value in shown.held.items())
    typical = "a typical case" if facts.typical_of is None else f"a typical case of “{facts.typical_of}”"
    seen = _seen(facts)
    held = f" The other columns stay at: {case}." if case else ""
    rows = 0.2 * (len(shown.curves) // 2 + 1)
    return Picture(
        drawn(lambda ax: plots.draw_slice(shown, facts.without, ax=ax), f"band-{index}", 2.9 + rows),
        f"How {shown.quantity} goes with {shown.column}, for {typical}. {seen}{held}",
        f"Line with bands: {shown.quantity} against {shown.column}. {seen}",
    )


def _seen(facts: BandFacts) -> str:
    """What to see in a band: the mean where each rule applies, with and without the rules."""
    shown = facts.shown
    if len(shown.curves) > 1:
        applying = [
            f"“{zone.rule}” applies in {percent(float(np.mean(zone.inside)))} of the range shown"
            for zone in shown.zones
        ]
        return "Each class has its own line and band." + (f" {'; '.join(applying)}." if applying else "")

    def between(mean: tuple[float, ...], inside: tuple[bool, ...] | None = None) -> str:
        values = np.array(mean)[... if inside is None else list(inside)]
        beside = PROBABILITY if shown.is_probability else float(np.abs(values).max())
        low, high = (number(float(end), None, beside) for end in (values.min(), values.max()))
        words = f"at {high}" if low == high else f"between {low} and {high}"
        return f"{words} {shown.quantity_unit}" if shown.quantity_unit else words

    if not shown.zones:
        return f"No rule applies here; the mean lies {between(shown.curves[0].mean)}."
    sentences = []
    for zone in shown.zones:
        words = f"Where “{zone.rule}” applies, the mean lies {between(shown.curves[0].mean, zone.inside)}"
        if facts.without is not None:
            other = between(facts.without.curves[0].mean, zone.inside)
            words += f"; without the rules it would lie {other}"
        sentences.append(f"{words}.")
    return " ".join(sentences)


def prior_pictures(evidence: Evidence) -> tuple[Picture, ...]:
    """Functions of the base prior."""
    facts = evidence.prior
    if facts is None:
        return ()
    shown = facts.shown.shown
    seen = "before any row was seen" + (
        "" if facts.learnt or not evidence.rules else ", and without the rules"
    )
    held = ", ".join(f"{name} {value}" for name, value in shown.held.items())
    return (
        Picture(
            drawn(lambda ax: plots.draw_prior(facts.shown, ax=ax), "prior"),
            f"What the prior holds possible, {seen}: {len(facts.shown.functions)} of its functions, and the "
            "mean and the bands of all of them." + (f" The other columns stay at: {held}." if held else ""),
            f"Functions drawn from the prior: {shown.quantity} against {shown.column}, {seen}.",
        ),
    )


def calibration_pictures(evidence: Evidence) -> tuple[Picture, ...]:
    """Calibration with and without the rules, and inside and outside of the ruled regions."""
    facts = evidence.calibration
    if facts is None or facts.everywhere is None:
        return ()
    every = {"with the rules": facts.everywhere, "without them": facts.without_everywhere}
    pictures = [_calibration("calibration-all", every, "All held-out rows.", LOOKS)]
    if evidence.rules and (facts.inside or facts.outside):
        parts = {"where rules apply": facts.inside, "elsewhere": facts.outside}
        first = "The same model, where rules apply and elsewhere."
        pictures.append(_calibration("calibration-parts", parts, first, PARTS))
    return tuple(pictures)


def _calibration(
    name: str, several: dict[str, Calibration | None], first: str, looks: tuple[tuple[str, str, str], ...]
) -> Picture:
    found = {label: each for label, each in several.items() if each is not None}
    errors = capital(
        "; ".join(f"{label}, the mean distance is {percent(e.error)}" for label, e in found.items())
    )
    return Picture(
        drawn(lambda ax: plots.calibration(found, looks=looks, ax=ax), name, 3.2),
        f"{first} On the dotted line, what the model predicts happens as often as predicted; below it, the "
        f"model predicts too much. Bars are 95% intervals. {errors}.",
        f"Observed share against the predicted one, for {', '.join(found)}. {errors}.",
    )


def run_pictures(evidence: Evidence) -> tuple[Picture, ...]:
    """Whether the chains agree."""
    figures = evidence.run.figures
    if figures is None:
        return ()
    traces = Picture(
        drawn(lambda ax: plots.diagnostics(figures, ax=ax), "traces"),
        f"{figures.quantity} at the one input where the chains agree least, draw after draw. Lines of all "
        "chains should lie on top of one another, without a trend.",
        f"{len(figures.traces)} lines, one for each chain, of {figures.quantity} over draws.",
    )
    return traces, _agreement(figures)


def _agreement(figures: ChainFigures) -> Picture:
    limit = figures.limit
    inputs = len(figures.rhat) + figures.unbounded
    beyond = sum(value > limit for value in figures.rhat) + figures.unbounded
    agreeing = "All of them do here." if not beyond else f"{beyond} of {inputs} do not here."
    if figures.unbounded:
        agreeing += f" At {figures.unbounded}, chains stand still at different values: too far to be drawn."
    largest = "has no bound" if figures.unbounded else f"is {max(figures.rhat):.3f}"
    return Picture(
        drawn(lambda ax: plots.agreement(figures, ax=ax), "agreement"),
        f"R-hat compares the chains at {inputs} inputs: at 1 they agree, and all points should lie below the "
        f"dashed line at {limit:g}. {agreeing}",
        f"R-hat at {inputs} inputs; the largest {largest}.",
    )
