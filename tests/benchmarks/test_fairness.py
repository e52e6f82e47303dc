"""Parity beside fairlearn's: figures of known predictions, and rules that are about the table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks.fairness import ASKED, RULES, Record, complete, gap, measure, picture, scored, summary, tasks
from ocbnn import Schema, parse_rule
from reproduce.data import compas

RACE = np.array([1, 1, 1, 1, 0, 0])
LABEL = np.array([1, 0, 0, 0, 1, 0])


@pytest.fixture
def table() -> pd.DataFrame:
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({name: generator.binomial(1, 0.5, 400) for name in compas.FEATURES})
    frame["priors_count"] = generator.integers(0, 12, 400)
    frame[compas.TARGET] = generator.binomial(1, 0.1 + 0.3 * frame[compas.RACE])
    return frame


def record(split: int, method: str, rule: str, asked: float | None, share: float) -> Record:
    figures = {"accuracy": 0.8, "called": 0.1, "mean": share / 2, "share": share, "seconds": 1.0}
    none = {"ends": None, "violation": None, "verdict": None, "status": None}
    return Record(split=split, method=method, rule=rule, asked=asked, **figures, **none)


def test_gaps_are_of_group_means_of_every_draw():
    values = np.array([[1.0, 0, 0, 0, 1, 0], [1, 1, 1, 1, 0, 0]])
    assert gap(values, RACE).tolist() == [-0.25, 1.0]


def test_calling_by_chance_has_an_expected_accuracy():
    test = pd.DataFrame({compas.RACE: RACE, compas.TARGET: LABEL})
    found = scored(np.full(6, 0.3), np.array([0.5, 0, 0, 0, 1, 1]), test)
    assert found == pytest.approx({"accuracy": 4.5 / 6, "called": 2.5 / 6, "mean": 0.0, "share": 0.125 - 1})


def test_every_rule_is_read(table):
    schema = Schema.infer(table, target=compas.TARGET)
    for words in RULES.values():
        parse_rule(words.format(0.02), schema)
    assert [task for task in tasks(ASKED) if task[1] == "share" and task[0] == "ocbnn"] == [
        ("ocbnn", "share", asked) for asked in ASKED
    ]


def test_a_bound_on_shares_brings_groups_together(table):
    pytest.importorskip("fairlearn")
    free, bound = (
        measure(table, 0, task) for task in (("boosting", "none", None), ("fairlearn", "share", 0.02))
    )
    assert abs(bound["share"]) < abs(free["share"])
    assert bound["called"] > 0


def test_the_summary_has_the_excess_over_what_is_asked_and_the_picture_a_panel_a_measure(tmp_path):
    records = [record(split, "ocbnn", "share", 0.05, 0.04 + 0.02 * split) for split in (0, 1)]
    records += [record(split, "boosting", "none", None, 0.2) for split in (0, 1)]
    part = record(2, "boosting", "none", None, 0.9)
    assert complete([*records, part]) == records
    told = list(summary(records))
    assert told[1].endswith("+0.000 ± 0.010")
    picture(records, tmp_path / "parity.png")
    assert (tmp_path / "parity.png").stat().st_size > 10_000
