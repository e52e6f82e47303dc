"""Whether chains agree: the same function value followed along every chain, and R-hat at many inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ocbnn import regions
from ocbnn.checking.convergence import LEAST_DRAWS, mixing
from ocbnn.errors import OCBNNError
from ocbnn.inference.diagnostics import Criteria
from ocbnn.plots.style import (
    CLASSES,
    DASHES,
    INK,
    MUTED,
    POINTS,
    TEXT,
    WITH,
    axes_of,
    label,
    legend,
    with_unit,
)
from ocbnn.posterior.draws import Posterior, function_draws

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PROBES, SHOWN_DRAWS = 64, 200


@dataclass(frozen=True)
class ChainFigures:
    """How chains go, at made-up inputs: points of the rules' regions and of the observed ranges.

    Attributes:
        quantity, unit: what was followed.
        rhat, effective: of every probe, in the order of R-hat; the first is the worst. Those without a bound
            are left out and counted: there may be none.
        traces: the quantity at the worst probe, one tuple for each chain, at evenly spaced draws.
        every: how many draws lie between two that are shown.
        unbounded: probes at which chains stand still at different values, so that R-hat has no bound.
    """

    quantity: str
    unit: str | None
    rhat: tuple[float, ...]
    effective: tuple[float, ...]
    traces: tuple[tuple[float, ...], ...]
    every: int
    unbounded: int = 0


def chain_figures(posterior: Posterior, probes: int = PROBES, seed: int = 0) -> ChainFigures | None:
    """Measure the chains; None for engines without chains, and for chains too short to judge."""
    chains, draws, _ = posterior.draws.shape
    if not posterior.has_chains or draws < LEAST_DRAWS:
        return None
    schema = posterior.schema
    everywhere = regions.sample(seed, regions.Everywhere(), schema, None, max(probes // 2, 1))
    parts = [everywhere]
    for rule in posterior.rules:
        count = max(probes // 2 // len(posterior.rules), 1)
        parts.append(regions.sample(seed, rule.rule.region, schema, None, count))
    every_draw = Posterior(posterior.draws, posterior.model)
    values = function_draws(every_draw, np.concatenate(parts))
    target = posterior.target
    quantity = target.name
    if target.classes:
        quantity = f"P({target.name} = {target.classes[-1]})"
        values = values[..., -1]
    values = values.reshape(chains, draws, -1)
    values = values[..., np.ptp(values, axis=(0, 1)) > 0]
    if not values.shape[2]:
        return None
    found = mixing(values)
    still = (np.ptp(values, axis=1) == 0).all(axis=0)  # rounding hides that R-hat has no bound there
    rhat = np.where(still | np.isnan(found.rhat), np.inf, found.rhat)
    order = np.argsort(-rhat, kind="stable")
    step = max(-(-draws // SHOWN_DRAWS), 1)
    return ChainFigures(
        quantity,
        None if target.classes else target.unit,
        _finite(rhat[order]),
        _finite(found.bulk_ess[order]),
        tuple(tuple(float(v) for v in chain) for chain in values[:, ::step, order[0]]),
        step,
        int(np.isinf(rhat).sum()),
    )


def _finite(values: np.ndarray) -> tuple[float, ...]:
    """Without R-hat that has no bound, and effective draws that cannot be known."""
    return tuple(float(value) for value in values if np.isfinite(value))


def diagnostics(found: ChainFigures | Posterior, *, ax: Axes | None = None) -> Axes:
    """Draw the quantity at the input where chains agree least, along every chain."""
    figures = _figures(found)
    ax, count = axes_of(ax), len(figures.traces)
    for index, trace in enumerate(figures.traces):
        ax.plot(
            np.arange(len(trace)) * figures.every + 1,
            trace,
            color=CLASSES[index % len(CLASSES)],
            ls=DASHES[index] if count <= len(DASHES) else "-",
            lw=0.9,
            alpha=0.85,
            label=f"chain {index + 1}" if count <= 4 else None,
        )
    label(ax, "draw", with_unit(figures.quantity, figures.unit))
    legend(ax)
    return ax


def agreement(found: ChainFigures | Posterior, *, ax: Axes | None = None) -> Axes:
    """Draw R-hat at every probe in order, beside the line that it should stay below."""
    figures = _figures(found)
    limit = Criteria().largest_rhat
    ax = axes_of(ax)
    ax.plot(np.arange(1, len(figures.rhat) + 1), figures.rhat, color=WITH, marker="o", **POINTS | {"ms": 3})
    ax.axhline(limit, color=INK, lw=1.2, ls="--")
    ax.annotate(
        f"should stay below {limit:g}",
        (0.02, limit),
        (0, 3),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        va="bottom",
        fontsize=8,
        **TEXT | {"color": MUTED},
    )
    shown = (limit, *figures.rhat)
    ax.set_ylim(min(0.998, *shown), max(limit + 0.004, *(value + 0.002 for value in shown)))
    label(ax, "inputs tried, the worst first", "R-hat")
    return ax


def _figures(found: ChainFigures | Posterior) -> ChainFigures:
    figures = found if isinstance(found, ChainFigures) else chain_figures(found)
    if figures is None:
        raise OCBNNError(
            "There are no chains to compare: the engine has none, or they are too short. The posterior's "
            "provenance says what was checked instead."
        )
    return figures
