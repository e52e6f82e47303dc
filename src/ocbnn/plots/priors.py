"""Prior against posterior: what was believed before the data, and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ocbnn.plots.slices import COVERAGE, Kind, sliced
from ocbnn.plots.style import LONGEST_ENTRY, WITH, WITHOUT, axes_of, shortened, styled, with_unit
from ocbnn.posterior.draws import Posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def prior_and_posterior(
    prior: Posterior,
    posterior: Posterior,
    column: str,
    *,
    at: Mapping[str, Any] | None = None,
    coverage: float = COVERAGE[-1],
    kind: Kind = "function",
    ax: Axes | None = None,
) -> Axes:
    """Draw the bands of both along a column; of several classes, the first one's.

    Args:
        prior: draws before the data.
        posterior: draws after them.
        column: the horizontal axis.
        at: raw values of the other columns; those not named are at the middle of the data.
        coverage: of the band.
        kind: "function" for what rules speak of, "observation" with the noise of a new value.
        ax: where to draw; new axes unless given.
    """
    both: Sequence[tuple[Posterior, str, str, Any, str]] = (
        (prior, "prior", WITHOUT, (0, (4, 2)), ".."),
        (posterior, "posterior", WITH, "-", ""),
    )
    with styled():
        ax = axes_of(ax)
        for draws, label, colour, dashes, hatch in both:
            shown = sliced(draws, column, at=at, rules=(), coverage=(coverage,), kind=kind)
            (curve, *_), x = shown.curves, shown.positions
            ((low, high),) = curve.bands
            ax.fill_between(x, low, high, facecolor=colour, edgecolor=colour, hatch=hatch, alpha=0.2, lw=0)
            ax.plot(x, curve.mean, color=colour, ls=dashes, label=f"{label}, {coverage:.0%} band")
            unit = None if draws.classes else shown.quantity_unit
            ax.set_ylabel(with_unit(curve.label, unit))
            ax.set_xlabel(with_unit(shown.column, shown.unit))
            if shown.labels:
                ax.set_xticks(x, [shortened(label, LONGEST_ENTRY) for label in shown.labels])
        ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, borderaxespad=0.2)
    return ax
