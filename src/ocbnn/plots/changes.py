"""What rules change: the mean prediction without them and with them, inside and outside of each region."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ocbnn.plots.style import INK, WITH, WITHOUT, axes_of, name_rows, styled, with_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Shift:
    """A mean prediction without and with the rules, over some cases."""

    label: str
    without: float
    with_rules: float


def changes(
    shifts: Sequence[Shift],
    quantity: str,
    *,
    unit: str | None = None,
    probability: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw an arrow for each shift, from the mean without the rules to the mean with them."""
    with styled():
        ax = axes_of(ax)
        for place, shift in enumerate(shifts):
            first = place == 0
            ax.annotate(
                "",
                (shift.with_rules, place),
                (shift.without, place),
                arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 1.0, "shrinkA": 4, "shrinkB": 4},
            )
            ax.plot(
                shift.without,
                place,
                color=WITHOUT,
                marker="D",
                mfc="none",
                ls="none",
                label="without the rules" if first else None,
            )
            ax.plot(
                shift.with_rules,
                place,
                color=WITH,
                marker="o",
                ms=6,
                ls="none",
                label="with the rules" if first else None,
            )
        name_rows(ax, [shift.label for shift in shifts])
        if probability:
            ax.set_xlim(-0.03, 1.03)
        ax.set_xlabel(f"mean {with_unit(quantity, unit)}")
        if shifts:
            ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, borderaxespad=0.2)
    return ax
