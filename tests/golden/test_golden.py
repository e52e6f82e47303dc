"""What rules mean has not changed since the record was made."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from golden.record import MODELS, path, record

CLOSE = 1e-7


def differences(before: Any, now: Any, place: str = "") -> list[str]:
    """Where two records differ by more than rounding."""
    if isinstance(before, dict) and isinstance(now, dict):
        keys = sorted({*before, *now})
        return [d for key in keys for d in differences(before.get(key), now.get(key), f"{place} · {key}")]
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        pairs = enumerate(zip(before, now, strict=True))
        return [d for i, (one, other) in pairs for d in differences(one, other, f"{place}[{i}]")]
    if isinstance(before, float | int) and isinstance(now, float | int):
        same = before == now or (math.isnan(before) and math.isnan(now))
        return (
            []
            if same or math.isclose(before, now, rel_tol=CLOSE, abs_tol=1e-9)
            else [f"{place}: {before} → {now}"]
        )
    return [] if before == now else [f"{place}: {before!r} → {now!r}"]


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_rules_mean_what_they_meant(name: str) -> None:
    before = json.loads(path(name).read_text())
    assert differences(before, json.loads(json.dumps(record(name)))) == []
