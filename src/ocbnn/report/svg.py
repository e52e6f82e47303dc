"""Matplotlib figures as SVG inside a page: ids that clash with no other figure's, colours of the page.

Matplotlib escapes all text that it writes; what comes out is read again as XML, so a figure that is not well
formed can never reach a page.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from xml.etree import ElementTree

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ocbnn.plots.style import CLASSES, ROLES, styled

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
