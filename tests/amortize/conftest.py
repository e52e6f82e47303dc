from __future__ import annotations

import pytest

from amortized_cases import LINE, SIGN_RULE, learnt
from ocbnn.amortize import AmortizedPrior


@pytest.fixture(scope="session")
def sign_prior() -> AmortizedPrior:
    """Figure 3a's rule in a network of four units; its author accepts much, so that learning is short."""
    from dataclasses import replace

    from ocbnn.rules.parse import parse_rule

    rule = replace(parse_rule(SIGN_RULE, LINE, name="sign"), tolerance=0.1)
    return learnt([rule], LINE)
