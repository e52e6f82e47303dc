"""The one style: colours say their role, and nothing outside of a picture changes."""

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from ocbnn.plots import style

# Viénot, Brettel and Mollon (1999), linear RGB as seen with no long-, or no middle-wavelength cones.
DICHROMATS = {
    "protanopia": [[0.11238, 0.88762, 0.0], [0.11238, 0.88762, -0.0], [0.00401, -0.00401, 1.0]],
    "deuteranopia": [[0.29275, 0.70725, 0.0], [0.29275, 0.70725, -0.0], [-0.02234, 0.02234, 1.0]],
}


def linear(colour: str) -> np.ndarray:
    return np.array(to_rgb(colour)) ** 2.2


def test_every_role_and_class_has_a_colour_of_its_own() -> None:
    colours = [*style.ROLES.values(), *style.CLASSES]
    assert len(set(colours)) == len(colours)


@pytest.mark.parametrize("seen", [np.eye(3), *map(np.array, DICHROMATS.values())])
@pytest.mark.parametrize(
    ("one", "other"),
    [(style.WITH, style.WITHOUT), (style.WITH, style.FORBIDDEN), (style.WITH, style.REGION)],
)
def test_roles_that_meet_in_a_picture_differ_for_every_kind_of_colour_vision(
    seen: np.ndarray, one: str, other: str
) -> None:
    here, there = (np.maximum(seen @ linear(colour), 0.0) ** (1 / 2.2) for colour in (one, other))
    difference = np.abs(here - there)
    assert difference.max() > 0.15


def test_every_verdict_has_a_marker_of_its_own() -> None:
    markers = [marker for _, marker in style.VERDICTS.values()]
    assert len(set(markers)) == len(markers) == 3


def test_settings_outside_of_a_picture_stay_as_they_were() -> None:
    before = dict(mpl.rcParams)
    figure = style.axes_of(None).figure
    assert dict(mpl.rcParams) == before
    figure.canvas.draw()


@pytest.mark.parametrize(
    "name", ["cost $ in $_{", r"$\nonsense$", "a\x00b", "\u202etxet", "_hidden", "\ud800"]
)
def test_names_are_text_on_axes_ticks_rows_and_in_legends(name: str) -> None:
    ax = Figure().subplots()
    ax.plot([0, 1], [0, 1], label=style.entry(name))
    style.label(ax, style.with_unit(name, name), style.shortened(name))
    style.name_ticks(ax, [0, 1], [style.shortened(name)] * 2)
    style.legend(ax)
    style.name_rows(ax, [name])
    ax.figure.canvas.draw()  # mathtext would raise
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text().strip() for text in legend.get_texts()] == [style.shortened(name)]


def test_what_cannot_be_shown_has_a_symbol_and_the_rest_stays() -> None:
    assert style.visible("a\x00\x1b\x7f\u202e\ud800b\nc\té 漢 🙂") == "a␀␛\ufffd\ufffd\ufffdb\nc\té 漢 🙂"
    assert style.shortened("two\nlines\tand more") == "two lines and more"


def test_long_names_are_cut_and_say_so() -> None:
    assert style.shortened("a" * 100).endswith("…")
    assert 40 < len(style.shortened("a" * 100)) < 56
    assert len(style.shortened("漢" * 100)) < 40 < len(style.shortened("i" * 100))
    assert style.shortened("short") == "short"
