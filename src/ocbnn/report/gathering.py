"""From posteriors and held-out rows to evidence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np
import pandas as pd

from ocbnn.errors import OCBNNError
from ocbnn.linting import lint
from ocbnn.plots.chains import chain_figures
from ocbnn.posterior.draws import Posterior
from ocbnn.posterior.satisfaction import POINTS, satisfaction
from ocbnn.report.choosing import bands, importances
from ocbnn.report.evidence import (
    VERSION,
    ColumnFacts,
    Estimate,
    Evidence,
    Json,
    RunFacts,
    TargetFacts,
    Warned,
    fingerprint,
)
from ocbnn.report.heldout import calibration_facts, held_out, performance
from ocbnn.report.ruling import rule_facts

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
    enforcement: Literal["truncate", "draws"] | None = None,
    sources: Mapping[str, str] | None = None,
) -> Evidence:
    """Everything a report says, as plain figures.

    Args:
        posterior: under the rules.
        without: of the same data without any rule, for what the rules change.
        frame: rows that neither has seen, for calibration and scores.
        y: their target; the frame's own column of that name unless given.
        seed: of the points that rules are checked at.
        points: how many for each rule.
        enforcement: how predictions are made to obey, where they are.
        sources: names of what went in, such as {"table": "patients.csv", "rules": "rules.yaml"}.
    """
    if without is not None and without.schema != posterior.schema:
        raise OCBNNError("The posterior without rules is of another table: fit both on the same rows.")
    if posterior.truncated:
        # The figures are of the model before that, as the page says.
        enforcement, posterior = enforcement or "truncate", replace(posterior, truncated=())
    rows = held_out(posterior, frame, y, seed)
    report = satisfaction(posterior, points=points, key=seed)
    other = None
    if without is not None and posterior.rules:
        other = satisfaction(without, posterior.rules, points=points, key=seed, ascent=False)
    else:
        without = None
    # What draws say of rows, also where enforcement would find nothing to predict.
    plain = replace(posterior, enforced=())
    importance = importances(plain, rows, seed)
    return Evidence(
        version=VERSION,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        fingerprint=fingerprint(posterior),
        target=_target(posterior),
        columns=_columns(posterior, importance),
        rules=rule_facts(posterior, report, without, other, rows, points, seed),
        overall_draws_violating=Estimate.of(
            None if report.overall is None else report.overall.draws_violating
        ),
        findings=_findings(posterior),
        bands=bands(plain, without, rows, importance, seed),
        run=_run(posterior),
        held_out_rows=0 if rows is None else len(rows),
        compared=without is not None,
        enforcement=enforcement or ("draws" if posterior.enforced else None),
        performance=None if rows is None else performance(plain, without, rows),
        calibration=None if rows is None else calibration_facts(plain, without, rows),
        sources={str(what): str(name) for what, name in (sources or {}).items()},
        provenance=_provenance(posterior),
    )


def _target(posterior: Posterior) -> TargetFacts:
    target = posterior.target
    return TargetFacts(target.name, target.task, target.unit, tuple(str(label) for label in target.classes))


def _columns(posterior: Posterior, importance: Mapping[str, float]) -> tuple[ColumnFacts, ...]:
    return tuple(
        ColumnFacts(
            column.name,
            column.kind,
            column.unit,
            None if column.kind == "category" else column.observed,
            tuple(str(level) for level in column.levels),
            importance[column.name],
        )
        for column in posterior.schema.columns
    )


def _findings(posterior: Posterior) -> tuple[Warned, ...]:
    """What lint has to say without looking at rows."""
    rules = [term.rule for term in posterior.rules]
    found = lint(rules, posterior.schema) if rules else ()
    return tuple(Warned(each.kind, each.severity, each.rules, each.text) for each in found)


def _run(posterior: Posterior) -> RunFacts:
    known = posterior.provenance
    checks: Mapping[str, Any] = known.get("diagnostics") or {}
    divergences = known.get("divergences")
    seconds = known.get("seconds") or {}
    chains, draws, _ = posterior.draws.shape
    return RunFacts(
        engine=known.get("engine"),
        status=without_place(str(known.get("status") or "origin unknown")),
        converged=known.get("converged"),
        checked=checks.get("checked"),
        draws=len(posterior.flat) if posterior.kept is not None else chains * draws,
        chains=chains,
        has_chains=posterior.has_chains,
        worst_rhat=checks.get("worst_rhat"),
        worst_effective=checks.get("worst_bulk_ess"),
        acceptance=tuple(float(rate) for rate in known.get("acceptance") or () if rate is not None),
        divergences=None if divergences is None else int(np.sum(divergences)),
        seconds=float(sum(seconds.values())) if seconds else None,
        figures=chain_figures(posterior),
    )


def without_place(status: str) -> str:
    """A verdict on convergence without the input it names, which may be a row of the table."""
    return re.sub(r" at (?!step ).*?(?= \(R-hat |, and [\d,]+ are asked for|, first in draw )", "", status)


def _provenance(posterior: Posterior) -> Json:
    return {name: value for name, value in posterior.provenance.items() if name not in LEFT_OUT}
