"""An amortized prior as plain, validated values: by itself, or as the base prior of a saved model."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import numpy as np
from pydantic import Field

from ocbnn.amortize.findings import Findings, RuleFinding
from ocbnn.amortize.prior import AmortizedPrior
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
    """A rule's findings."""

    name: str
    tolerance: Finite
    claimed: Finite
    violation: Finite
    error: Finite
    multiplier: Finite


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
            asdict(prior.findings) | {"rules": [asdict(rule) for rule in prior.findings.rules]}
        ),
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
    fields = stored.findings.model_dump()
    findings = Findings(**fields | {"rules": tuple(RuleFinding(**rule) for rule in fields["rules"])})
    likelihood = restored_likelihood(stored.likelihood)
    return AmortizedPrior(gaussian, base, learnt, schema, network, likelihood, findings)


def gaussian_arrays(names: tuple[str, str], gaussian: DiagonalGaussian) -> Arrays:
    """Mean and standard deviation under these names."""
    return dict(zip(names, (np.asarray(gaussian.mean), np.asarray(gaussian.sd)), strict=True))
