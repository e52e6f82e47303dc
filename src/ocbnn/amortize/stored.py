"""An amortized prior as plain, validated values: by itself, or as the base prior of a saved model."""

from __future__ import annotations

from math import nan
from typing import Annotated

import numpy as np
from pydantic import Field

from ocbnn.amortize.findings import Findings, RuleFinding
from ocbnn.amortize.prior import AmortizedPrior
from ocbnn.checking.figures import Figure
from ocbnn.checking.results import Divergence, RuleCheck, verdict
from ocbnn.errors import FileError
from ocbnn.model.conditional import RuleTerm
from ocbnn.model.networks import MLP
from ocbnn.model.priors import DiagonalGaussian
from ocbnn.schema import Schema
from ocbnn.storing.parts import (
    Arrays,
    Count,
    Finite,
    Positive,
    StoredLikelihood,
    Strict,
    restored_likelihood,
    stored_likelihood,
)


class StoredRuleFinding(Strict):
    """A rule's findings; earlier versions wrote neither the interval of the violation nor how many points."""

    name: str
    tolerance: Finite
    claimed: Finite
    violation: Finite
    low: Finite | None = None
    high: Finite | None = None
    error: Finite
    multiplier: Finite
    points: Count = 0


class StoredFindings(Strict):
    """What the prior says of itself."""

    rules: Annotated[list[StoredRuleFinding], Field(max_length=10_000)]
    objective: str
    divergence: str
    observation: bool
    concentration: Positive
    kl: Finite
    band: Finite
    mean_sd: Finite


class StoredLearnt(Strict):
    """What makes a Gaussian an amortized prior; `rules` is how many it has learnt."""

    rules: Count
    likelihood: StoredLikelihood
    findings: StoredFindings


def stored_amortized(prior: AmortizedPrior) -> StoredLearnt:
    """The prior without its arrays, rules and network, which saved models store in their own places."""
    return StoredLearnt(
        rules=len(prior.learnt),
        likelihood=stored_likelihood(prior.likelihood),
        findings=StoredFindings.model_validate(
            vars(prior.findings) | {"rules": [_stored_finding(rule) for rule in prior.findings.rules]}
        ),
    )


def _stored_finding(finding: RuleFinding) -> StoredRuleFinding:
    check = finding.check
    return StoredRuleFinding(
        name=check.name,
        tolerance=check.tolerance,
        claimed=finding.claimed,
        violation=check.violation.value,
        low=check.violation.low,
        high=check.violation.high,
        error=check.error,
        multiplier=finding.multiplier,
        points=check.points,
    )


def restored_amortized(
    stored: StoredLearnt,
    gaussian: DiagonalGaussian,
    base: DiagonalGaussian,
    learnt: tuple[RuleTerm, ...],
    schema: Schema,
    network: MLP,
) -> AmortizedPrior:
    """The prior that was stored."""
    if not len(learnt) == stored.rules == len(stored.findings.rules) > 0:
        raise FileError("The rules that the prior has learnt are not those of its findings.")
    rules = tuple(map(_restored_finding, stored.findings.rules, learnt))
    findings = Findings(**stored.findings.model_dump() | {"rules": rules})
    likelihood = restored_likelihood(stored.likelihood)
    return AmortizedPrior(gaussian, base, learnt, schema, network, likelihood, findings)


def _restored_finding(stored: StoredRuleFinding, term: RuleTerm) -> RuleFinding:
    """The finding, with a check that has the figure its verdict is about and no others."""
    low = stored.violation - 2.0 * stored.error if stored.low is None else stored.low
    high = stored.violation + 2.0 * stored.error if stored.high is None else stored.high
    figure = Figure(stored.violation, low, high, nan)
    predictive = term.rule.is_predictive
    check = RuleCheck(
        name=stored.name,
        text=term.rule.text(term.schema),
        tolerance=stored.tolerance,
        verdict=verdict(figure, stored.tolerance),
        points=stored.points,
        epsilon_mean=None if predictive else figure,
        divergences={"total_variation": Divergence(figure, nan, {})} if predictive else {},
        error=stored.error,
    )
    return RuleFinding(check, stored.claimed, stored.multiplier)


def gaussian_arrays(names: tuple[str, str], gaussian: DiagonalGaussian) -> Arrays:
    """Mean and standard deviation under these names."""
    return dict(zip(names, (np.asarray(gaussian.mean), np.asarray(gaussian.sd)), strict=True))
