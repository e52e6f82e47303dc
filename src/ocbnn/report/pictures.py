"""The pictures of a report, as SVG that is part of the page."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ocbnn.inference.diagnostics import Criteria
from ocbnn.plots.bands import draw_slice
from ocbnn.plots.chains import ChainFigures, agreement, diagnostics
from ocbnn.plots.figures import RuleFigure, Shift, calibration, changes, draw_rules
from ocbnn.plots.slices import RuledZone
from ocbnn.plots.style import CLASSES, DATA, ROLES, UNCLEAR, styled
from ocbnn.posterior.calibration import Calibration
from ocbnn.report.evidence import BandFacts, Evidence, RuleFacts
from ocbnn.report.sentences import PROBABILITY, number, percent

WIDTH = 3.9
"""Inches at 72 points: narrow, so that text is readable where a phone shows the figure at full width."""
VARIABLES = {colour: f"var(--{role}, {colour})" for role, colour in ROLES.items()} | {
    colour: f"var(--class-{index}, {colour})" for index, colour in enumerate(CLASSES, 1)
}
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif"
SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


def drawn(draw: Callable[[Axes], object], name: str, height: float = 2.9) -> Markup:
    """What `draw` puts on axes, as an inline SVG element whose ids begin with `name`."""
    settings = {"svg.fonttype": "none", "svg.hashsalt": name}
    with styled(), mpl.rc_context(settings):  # type: ignore[arg-type]
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        draw(figure.subplots())
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata=NO_METADATA)
    return inline(buffer.getvalue(), name)


def inline(content: bytes, name: str) -> Markup:
    """An SVG document as an element of a page."""
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    root = ElementTree.fromstring(content)
    for size in ("width", "height"):
        root.attrib.pop(size, None)
    for metadata in root.findall(f"{{{SVG}}}metadata"):
        root.remove(metadata)
    root.set("aria-hidden", "true")  # the element around it has the words
    root.set("focusable", "false")
    for element in root.iter():
        for attribute, value in element.attrib.items():
            element.set(attribute, _adapted(attribute, value, name))
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _adapted(attribute: str, value: str, name: str) -> str:
    if attribute == "id":
        return f"{name}-{value}"
    if attribute in ("href", f"{{{XLINK}}}href") and value.startswith("#"):
        return f"#{name}-{value[1:]}"
    value = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", value)
    if attribute == "style":
        value = re.sub(r"(font(?:-family)?:[^;]*?)(?:'DejaVu Sans'|sans-serif)[^;]*", rf"\1{FONT}", value)
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


def rules_picture(evidence: Evidence) -> Picture | None:
    """How far every rule is kept, with and without the rules."""
    if not evidence.rules:
        return None
    lines = [_line(rule) for rule in evidence.rules]
    without = " Diamonds show how often it would be broken without the rules." if evidence.compared else ""
    said = "; ".join(
        f"{rule.name}: {percent(rule.violation.value)}"
        + ("" if rule.without is None else f", without the rules {percent(rule.without.value)}")
        + f", accepted {percent(rule.tolerance)}, {rule.verdict}"
        for rule in evidence.rules
    )
    return Picture(
        drawn(lambda ax: draw_rules(lines, ax=ax), "rules", 1.35 + 0.46 * len(lines)),
        "A rule is kept where its bar ends left of the upright stroke, which is what was accepted. The bar "
        f"is the 95 % interval.{without} The scale grows tenfold from mark to mark.",
        f"Share of cases in which each rule is broken. {said}.",
    )


def _line(rule: RuleFacts) -> RuleFigure:
    value = rule.violation
    low = value.value if value.low is None else value.low
    high = 1.0 if value.high is None else value.high
    without = None if rule.without is None else rule.without.value
    return RuleFigure(rule.name, rule.verdict, rule.tolerance, value.value, low, high, without)


def changes_picture(evidence: Evidence) -> Picture | None:
    """What the rules change where each of them applies."""
    found = [(rule.name, rule.change) for rule in evidence.rules if rule.change is not None]
    if not found:
        return None
    quantities = {change.quantity for _, change in found}
    if len(quantities) > 1:
        shifts = [Shift(f"{name}: {c.quantity}", c.without, c.with_rules) for name, c in found]
        quantity = "probability of what the rule names"
    else:
        shifts = [Shift(name, c.without, c.with_rules) for name, c in found]
        quantity = quantities.pop()
    probability = evidence.target.task == "classification"
    unit = None if probability else evidence.target.unit
    said = "; ".join(f"{s.label}: from {number(s.without)} to {number(s.with_rules)}" for s in shifts)
    return Picture(
        drawn(
            lambda ax: changes(shifts, quantity, unit=unit, probability=probability, ax=ax),
            "changes",
            1.2 + 0.46 * len(shifts),
        ),
        "Each arrow goes from the mean prediction without the rules to the mean with them, over cases where "
        "the rule applies. A long arrow is a rule that changes much; none, one that the data already kept.",
        f"Mean {quantity} where each rule applies, without and with the rules. {said}.",
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
        drawn(lambda ax: draw_slice(shown, facts.without, ax=ax), f"band-{index}", 2.9 + rows),
        f"How {shown.quantity} goes with {shown.column}, for {typical}. {seen}{held}",
        f"Line with bands: {shown.quantity} against {shown.column}. {seen}",
    )


def _seen(facts: BandFacts) -> str:
    """What to see in a band: the mean where each rule applies, with and without the rules."""
    shown = facts.shown
    probability = shown.curves[0].label.startswith("P(")
    unit = None if probability else shown.quantity_unit
    if len(shown.curves) > 1:
        applying = [f"“{zone.rule}” applies in {_share(zone)} of the range shown" for zone in shown.zones]
        return "Each class has its own line and band." + (f" {'; '.join(applying)}." if applying else "")
    if not shown.zones:
        return f"No rule applies here; the mean lies {_between(shown.curves[0].mean, unit, probability)}."
    sentences = []
    for zone in shown.zones:
        mean = np.array(shown.curves[0].mean)[list(zone.inside)]
        words = f"Where “{zone.rule}” applies, the mean lies {_between(mean, unit, probability)}"
        if facts.without is not None:
            other = np.array(facts.without.curves[0].mean)[list(zone.inside)]
            words += f"; without the rules it would lie {_between(other, unit, probability)}"
        sentences.append(f"{words}.")
    return " ".join(sentences)


def _share(zone: RuledZone) -> str:
    return percent(float(np.mean(zone.inside)))


def _between(values: object, unit: str | None, probability: bool) -> str:
    numbers = np.asarray(values, dtype=float)
    beside = PROBABILITY if probability else float(np.abs(numbers).max())
    low, high = (number(float(end), None, beside) for end in (numbers.min(), numbers.max()))
    words = f"at {high}" if low == high else f"between {low} and {high}"
    return f"{words} {unit}" if unit else words


def calibration_pictures(evidence: Evidence) -> tuple[Picture, ...]:
    """Calibration with and without the rules, and inside and outside of the ruled regions."""
    facts = evidence.calibration
    if facts is None or facts.everywhere is None:
        return ()
    pairs: list[tuple[str, dict[str, Calibration | None], str]] = [
        (
            "calibration-all",
            {"with the rules": facts.everywhere, "without them": facts.without_everywhere},
            "All held-out rows.",
        )
    ]
    if evidence.rules:
        parts = {"where rules apply": facts.inside, "elsewhere": facts.outside}
        pairs.append(("calibration-parts", parts, "The same model, where rules apply and elsewhere."))
    result = []
    for name, several, first in pairs:
        found = {label: each for label, each in several.items() if each is not None}
        if not found:
            continue
        errors = "; ".join(
            f"{label}, points lie {percent(each.error)} off on average" for label, each in found.items()
        )
        result.append(
            Picture(
                drawn(_calibration(found), name, 3.2),
                f"{first} Points on the dotted line mean that what the model says happens as often as it "
                f"says; below it, the model says too much. Bars are 95 % intervals. {_upper(errors)}.",
                f"Observed share against what was said, for {', '.join(found)}. {_upper(errors)}.",
            )
        )
    return tuple(result)


def _calibration(found: dict[str, Calibration]) -> Callable[[Axes], Axes]:
    looks = PARTS if "elsewhere" in found or "where rules apply" in found else None
    return lambda ax: calibration(found, looks=looks, ax=ax)


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def run_pictures(figures: ChainFigures | None) -> tuple[Picture, ...]:
    """Whether the chains agree."""
    if figures is None:
        return ()
    limit = Criteria().largest_rhat
    inputs = len(figures.rhat) + figures.unbounded
    beyond = sum(value > limit for value in figures.rhat) + figures.unbounded
    agreeing = "All of them do here." if not beyond else f"{beyond} of {inputs} do not here."
    if figures.unbounded:
        agreeing += f" At {figures.unbounded}, searches stand still at different values: too far to be drawn."
        largest = "the largest has no bound"
    else:
        largest = f"the largest is {max(figures.rhat):.3f}"
    return (
        Picture(
            drawn(lambda ax: diagnostics(figures, ax=ax), "traces"),
            f"{figures.quantity} at the one input where the searches agree least, draw after draw. Lines of "
            "all searches should lie on top of one another, without a trend.",
            f"{len(figures.traces)} lines, one for each search, of {figures.quantity} over draws.",
        ),
        Picture(
            drawn(lambda ax: agreement(figures, ax=ax), "agreement"),
            f"R-hat compares the searches at {inputs} inputs: at 1 they agree, and all points "
            f"should lie below the dashed line at {limit:g}. {agreeing}",
            f"R-hat at {inputs} inputs; {largest}.",
        ),
    )
