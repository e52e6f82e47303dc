"""The demo's five rules everywhere: worst cases by a search with ten times the budget, and what they cost.

    python -m benchmarks.everywhere [--seeds 3] [--holds everywhere] [--rows 2500]

For each seed one fit with the rules and one without. The worst case is found on half of the chains, by ten
searches that neither the fit nor its verdict has made, and estimated on the other half. The log loss is of
20,000 fresh rows of the generator. It fails where a worst case is above 5%, or the log loss more than 0.02
above that without rules.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace

import numpy as np
import pandas as pd

from ocbnn import OCBNNClassifier, Schema, load_rules
from ocbnn.checking.draws import margins_at
from ocbnn.checking.search import climb
from ocbnn.datasets import clinic
from ocbnn.posterior import Posterior

TOLERANCE, DEARER, FRESH, SEARCHES = 0.05, 0.02, 20_000, 10
TEMPERATURES = (31.0, 33.9, 34.7, 35.2, 37.0, 40.0)


def rows(count: int, seed: int) -> tuple[pd.DataFrame, pd.Series]:
    """Patients and what was done."""
    table = clinic.table(count, seed)
    return table.drop(columns=clinic.TARGET), table[clinic.TARGET]


def worst_cases(posterior: Posterior, key: int) -> dict[str, float]:
    """By rule the share of draws of the other half of the chains that violate it at the worst input found."""
    finding, estimating = (posterior.draws[half::2].reshape(-1, posterior.draws.shape[2]) for half in (0, 1))
    found = {}
    for term in posterior.rules:
        points = np.concatenate([climb(posterior, term, finding, key + search) for search in range(SEARCHES)])
        chosen = np.argmax((margins_at(posterior, finding, term, points) > 0).mean(axis=0))
        there = margins_at(posterior, estimating, term, points[[chosen]])
        found[term.rule.name or ""] = float((there > 0).mean())
    return found


def log_loss(model: OCBNNClassifier, X: pd.DataFrame, y: pd.Series) -> float:
    """Mean over the rows."""
    return float(-np.log(model.predict_proba(X)[np.arange(len(y)), y]).mean())


def curve(model: OCBNNClassifier, X: pd.DataFrame) -> str:
    """P(action) of an otherwise typical patient by temperature."""
    typical = X.median(numeric_only=True).to_dict() | {"ward": "medical"}
    cases = pd.DataFrame([typical | {"temperature": each} for each in TEMPERATURES])[list(X)]
    cases = cases.astype({"age": int, "prior_sepsis": int})
    chances = model.predict_proba(cases)[:, 1]
    return ", ".join(f"{chance:.2f} at {each:g}" for each, chance in zip(TEMPERATURES, chances, strict=True))


def main() -> int:
    """Fit, search, print; 1 where something is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--holds", default="everywhere")
    parser.add_argument("--rows", type=int, default=clinic.ROWS)
    given = parser.parse_args()
    X, y = rows(given.rows, clinic.SEED)
    fresh = rows(FRESH, clinic.SEED + 1)
    schema = Schema.infer(X, target=y, task="classification", columns=dict(clinic.COLUMNS))
    with clinic.rules_path() as path:
        loaded = load_rules(path, schema)
    rules = [replace(rule, holds=given.holds, tolerance=TOLERANCE) for rule in loaded]
    failed = False
    for seed in range(given.seeds):
        losses = []
        for asked in ([], rules):
            model = OCBNNClassifier(rules=asked, columns=clinic.COLUMNS, random_state=seed)
            began, worked = time.perf_counter(), time.process_time()
            model.fit(X, y)
            spent = f"{time.perf_counter() - began:.0f} s, {time.process_time() - worked:.0f} s of computing"
            losses.append(log_loss(model, *fresh))
            print(f"seed {seed}, {len(asked)} rules: {spent}; log loss {losses[-1]:.4f}; {curve(model, X)}")
            print(f"  {model.posterior_.provenance['status']}")
        for name, share in worst_cases(model.posterior_, 1_000 * (seed + 1)).items():
            failed |= share > TOLERANCE
            print(f"  {name}: violated by {100 * share:.1f}% of draws in the worst case found", flush=True)
        failed |= losses[1] > losses[0] + DEARER
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
