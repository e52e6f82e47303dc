"""Everything a report says, gathered from posteriors and held-out rows as plain figures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float

from ocbnn import regions
from ocbnn.checking.check import check_rules
from ocbnn.checking.draws import POINTS, evenly, raw_point, rule_name
from ocbnn.checking.results import RuleChecks
from ocbnn.errors import OCBNNError
from ocbnn.linting import lint
from ocbnn.model.conditional import RuleTerm
from ocbnn.plots.figures import chain_figures
from ocbnn.plots.slices import sliced
from ocbnn.posterior.conflict import change_sizes
from ocbnn.posterior.draws import Posterior, function_blocks
from ocbnn.proof import Proofs, asked_proofs, with_proofs
from ocbnn.report import sections
from ocbnn.report.evidence import (
    VERSION,
    BandFacts,
    Evidence,
    ProofFacts,
    RuleFacts,
    RunFacts,
    fingerprint,
)
from ocbnn.report.facts import (
    HeldOut,
    calibration_facts,
    held_out,
    noise_facts,
    performance,
    prior_facts,
    rule_facts,
)
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
    coded = _cases(schema, rows, seed, ROWS)
    if rows is not None:
        coded = coded[generator.permutation(len(rows))[:ROWS]]
    draws = posterior.flat[evenly(len(posterior.flat), DRAWS)]
    before = _means(posterior, coded, draws)
    found = {}
    for index, name in enumerate(schema.names):
        moved = coded.copy()
        moved[:, index] = generator.permutation(moved[:, index])
        found[name] = float(change_sizes(_means(posterior, moved, draws), before).mean())
    return found


def _cases(schema: Schema, rows: HeldOut | None, seed: int, count: int) -> Float[np.ndarray, "n Q"]:
    """Held-out rows, or points of the observed ranges."""
    if rows is not None:
        return rows.coded
    return regions.sample(seed, regions.Everywhere(), schema, None, count)


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
        at = raw_point(posterior.schema, typical_case(posterior, rows, term, seed))
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
    region other than a box may lie outside it.
    """
    schema = posterior.schema
    if term is None:
        cases = _cases(schema, rows, seed, TYPICAL)
        whole = cases[schema.complete(cases)]
        return _medians(schema, whole if len(whole) else _cases(schema, None, seed, TYPICAL))
    points = term.fresh_inputs(TYPICAL, seed)
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


def unseen_labels(schema: Schema, rows: HeldOut) -> dict[str, int]:
    """By column, how many rows have a label that the fit has not seen."""
    counts = schema.unseen(rows.coded).sum(axis=0)
    return {name: int(count) for name, count in zip(schema.names, counts, strict=True) if count}


LEFT_OUT = ("schema", "rules", "diagnostics", "status")
"""Parts of a posterior's provenance that evidence has in its own words."""


def gather(
    posterior: Posterior,
    *,
    without: Posterior | None = None,
    frame: pd.DataFrame | None = None,
    y: Any = None,
    seed: int = 0,
    points: int = POINTS,
    enforcement: Literal["truncate", "draws", "proved"] | None = None,
    proofs: Proofs | None = None,
    sources: Mapping[str, str] | None = None,
    command: str | None = None,
) -> Evidence:
    """Everything a report says, as results of checks and plain figures.

    Args:
        posterior: under the rules.
        without: of the same data without any rule, for what the rules change.
        frame: rows that neither has seen, for calibration and scores.
        y: their target; default: the frame's own column of that name.
        seed: of the points that rules are checked at.
        points: how many for each rule.
        enforcement: how predictions are made to obey, where they are.
        proofs: what is proved of the posterior's rules; default: of those that ask for it, proved now.
        sources: names of what went in, such as {"table": "patients.csv", "rules": "rules.yaml"}.
        command: what to write to fit the same model again.

    Raises:
        OCBNNError: `without` is of another table, or the rows lack their target.
    """
    if without is not None and without.schema != posterior.schema:
        raise OCBNNError("The posterior without rules is of another table: fit both on the same rows.")
    if posterior.truncated:
        # The figures are of the model before that, as the page says.
        enforcement, posterior = enforcement or "truncate", replace(posterior, truncated=())
    without = without if posterior.rules else None
    rows = held_out(posterior, frame, y, seed)
    checks = check_rules(posterior, points=points, key=seed)
    proofs = asked_proofs(posterior, None, proofs, key=seed)
    if proofs is not None:
        checks = with_proofs(posterior, checks, proofs)
    other = None
    if without is not None:
        other = check_rules(without, posterior.rules, points=points, key=seed, ascent=False)
    # What draws say of rows, also where enforcement would find nothing to predict.
    plain = replace(posterior, enforced=())
    importance = importances(plain, rows, seed)
    terms = [term.rule for term in posterior.rules]
    material = sections.Material(posterior, without, rows, points, seed)
    own = [(each.name, each.gather(material)) for each in sections.SECTIONS if each.gather is not None]
    return Evidence(
        version=VERSION,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        fingerprint=fingerprint(posterior),
        schema=posterior.schema,
        importance=importance,
        rules=_with_proofs(rule_facts(posterior, checks, without, other, rows, points, seed), proofs),
        draws_violating=None if checks.overall is None else checks.overall.draws_violating,
        findings=tuple(lint(terms, posterior.schema)) if terms else (),
        bands=bands(plain, without, rows, importance, seed),
        run=_run(posterior),
        held_out_rows=0 if rows is None else len(rows),
        unseen={} if rows is None else unseen_labels(posterior.schema, rows),
        compared=without is not None,
        enforcement=enforcement or ("draws" if posterior.enforced else None),
        performance=None if rows is None else performance(plain, without, rows),
        calibration=None if rows is None else calibration_facts(plain, without, rows),
        prior=prior_facts(plain, max(importance, key=lambda name: importance[name]), seed),
        noise=noise_facts(posterior, _cases(posterior.schema, rows, seed, ROWS)),
        sources={str(what): str(name) for what, name in (sources or {}).items()},
        provenance={name: known for name, known in posterior.provenance.items() if name not in LEFT_OUT},
        further={name: figures for name, figures in own if figures is not None},
        command=command,
    )


def with_proof(evidence: Evidence, posterior: Posterior, proofs: Proofs) -> Evidence:
    """Evidence that was gathered before anything was proved, with what is proved now."""
    checks = with_proofs(posterior, RuleChecks(tuple(rule.check for rule in evidence.rules), None), proofs)
    rules = zip(evidence.rules, checks, strict=True)
    judged = tuple(replace(rule, check=check) for rule, check in rules)
    return replace(evidence, rules=_with_proofs(judged, proofs))


def _with_proofs(rules: tuple[RuleFacts, ...], proofs: Proofs | None) -> tuple[RuleFacts, ...]:
    """The rules with what is proved of each of them."""
    known = {
        each.text: ProofFacts(**each.counts, over=each.over, reason=each.reason) for each in proofs or ()
    }
    return tuple(replace(rule, proof=known.get(rule.check.text)) for rule in rules)


def _run(posterior: Posterior) -> RunFacts:
    known = posterior.provenance
    checks: Mapping[str, Any] = known.get("diagnostics") or {}
    divergences = known.get("divergences")
    seconds = known.get("seconds") or {}
    return RunFacts(
        engine=known.get("engine"),
        status=without_place(str(known.get("status") or "origin unknown")),
        converged=known.get("converged"),
        checked=checks.get("checked"),
        draws=len(posterior.flat),
        chains=len(posterior.draws),
        has_chains=posterior.has_chains,
        worst_rhat=checks.get("worst_rhat"),
        worst_effective=checks.get("worst_bulk_ess"),
        acceptance=tuple(float(rate) for rate in known.get("acceptance") or () if rate is not None),
        divergences=None if divergences is None else int(np.sum(divergences)),
        # "total" counts all phases.
        seconds=float(seconds.get("total", sum(seconds.values()))) if seconds else None,
        figures=chain_figures(posterior),
    )


def without_place(status: str) -> str:
    """A verdict on convergence without the input it names, which may be a row of the table."""
    return re.sub(r",? at (?!step ).*?(?= \(R-hat |, and [\d,]+ are asked for|, first in draw )", "", status)
