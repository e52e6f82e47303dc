"""Which columns a report shows, and at which case: the most important ones, and one for every rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from ocbnn import regions
from ocbnn.model.conditional import RuleTerm
from ocbnn.plots.slices import sliced
from ocbnn.posterior.draws import Posterior
from ocbnn.posterior.functions import function_blocks
from ocbnn.posterior.search import rule_name
from ocbnn.report.evidence import BandFacts
from ocbnn.report.heldout import HeldOut
from ocbnn.report.ruling import change_sizes
from ocbnn.schema import Schema

ROWS, DRAWS = 200, 100
"""Rows and draws that importance is measured with: it has to rank columns, not to estimate."""
FIRST, MOST = 3, 6
"""Columns shown for their importance alone, and in all."""
TYPICAL = 256


def importances(posterior: Posterior, rows: HeldOut | None, seed: int) -> dict[str, float]:
    """How far predictions move, on average, when a column's values are exchanged between cases.

    In units of y, or as total variation between class probabilities. Cases are held-out rows, or points of
    the observed ranges.
    """
    schema, generator = posterior.schema, np.random.default_rng(seed)
    if rows is None:
        coded = regions.sample(seed, regions.Everywhere(), schema, None, ROWS)
    else:
        coded = rows.coded[generator.permutation(len(rows))[:ROWS]]
    flat = posterior.flat
    draws = flat[np.unique(np.linspace(0, len(flat) - 1, min(DRAWS, len(flat))).astype(int))]
    before = _means(posterior, coded, draws)
    found = {}
    for index, name in enumerate(schema.names):
        moved = coded.copy()
        moved[:, index] = generator.permutation(moved[:, index])
        found[name] = float(change_sizes(_means(posterior, moved, draws), before).mean())
    return found


def _means(posterior: Posterior, coded: Float[np.ndarray, "n Q"], draws: np.ndarray) -> np.ndarray:
    return np.concatenate([values.mean(axis=0) for _, values in function_blocks(posterior, coded, draws)])


def bands(
    posterior: Posterior,
    without: Posterior | None,
    rows: HeldOut | None,
    importance: Mapping[str, float],
    seed: int,
) -> tuple[BandFacts, ...]:
    """Slices along the chosen columns, each through a typical case of a rule's region, or of the data."""
    found = []
    for name, term in chosen(posterior, importance):
        at = _raw(posterior.schema, typical_case(posterior, rows, term, seed))
        shown = sliced(posterior, name, at=at)
        other = None
        if without is not None:
            span = (shown.positions[0], shown.positions[-1])
            other = sliced(without, name, at=at, rules=(), coverage=(), span=span)
        found.append(BandFacts(shown, other, None if term is None else rule_name(term)))
    return tuple(found)


def chosen(posterior: Posterior, importance: Mapping[str, float]) -> list[tuple[str, RuleTerm | None]]:
    """Columns to show, each with the rule whose region its slice goes through.

    First the most important columns, each with a rule about it that was not shown yet; then the other rules,
    each along a column of its own: a number rather than a class, and one not shown yet where it has any.
    """
    schema = posterior.schema
    ranked = sorted(importance, key=lambda name: -importance[name])
    waiting = [term for term in posterior.rules if term.rule.region.columns()]
    result: list[tuple[str, RuleTerm | None]] = []
    for name in ranked[:FIRST]:
        about = [term for term in posterior.rules if name in term.rule.region.columns()]
        fresh = [term for term in about if term in waiting]
        term = next(iter(fresh or about), None)
        waiting = [other for other in waiting if other is not term]
        result.append((name, term))
    for term in waiting[: MOST - len(result)]:
        names = [name for name in ranked if name in term.rule.region.columns()]
        seen = [name for name, _ in result]
        names.sort(key=lambda name: (schema.column(name).kind in ("category", "binary"), name in seen))
        result.append((names[0], term))
    return result


def typical_case(
    posterior: Posterior, rows: HeldOut | None, term: RuleTerm | None, seed: int
) -> Float[np.ndarray, " Q"]:
    """A made-up case, coded: medians and most frequent levels of a rule's region, or of the rows.

    Columns that the rule names are those of the one point nearest to their medians, since medians of a
    region that is no box may lie outside of it.
    """
    schema = posterior.schema
    if term is None:
        points = (
            rows.coded
            if rows is not None
            else regions.sample(seed, regions.Everywhere(), schema, None, TYPICAL)
        )
        return _medians(schema, points)
    points = term.fresh(TYPICAL, seed)
    case = _medians(schema, points)
    ruled = [index for index, name in enumerate(schema.names) if name in term.rule.region.columns()]
    spread = points.std(axis=0)
    distance = np.abs(points - case) / np.where(spread > 0, spread, 1.0)
    nearest = points[np.argmin(distance[:, ruled].sum(axis=1))]
    case[ruled] = nearest[ruled]
    return case


def _medians(schema: Schema, points: Float[np.ndarray, "n Q"]) -> Float[np.ndarray, " Q"]:
    case = np.median(points, axis=0)
    for index, column in enumerate(schema.columns):
        if column.kind == "category":
            case[index] = np.bincount(points[:, index].astype(int)).argmax()
        elif column.kind != "continuous":
            case[index] = np.floor(case[index])
    return case


def _raw(schema: Schema, coded: Float[np.ndarray, " Q"]) -> dict[str, Any]:
    return {str(name): value for name, value in schema.decode(coded[None]).iloc[0].to_dict().items()}
