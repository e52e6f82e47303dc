"""The paper's tables are as its notes have them, and keep to, or break, the rules as they should."""

from __future__ import annotations

import numpy as np
import pytest

from ocbnn.rules.parse import parse_rule
from ocbnn.schema import Schema
from reproduce.data import toys


def test_figure_1_lies_on_its_curve_on_either_side_of_the_region():
    frame = toys.figure_1()
    np.testing.assert_allclose(frame["y"], -(frame["x"] ** 4) + 3 * frame["x"] ** 2 + 1)
    assert sorted(frame["x"].abs().unique()) == [1.0, 1.8, 2.0]


def test_figure_2_has_eight_rows_of_each_class_around_the_centres_and_none_in_the_box():
    frame = toys.figure_2()
    assert frame["y"].value_counts().to_dict() == {"red": 8, "green": 8, "blue": 8}
    for label, centre in toys.CENTRES.items():
        rows = frame.loc[frame["y"] == label, ["x1", "x2"]].to_numpy()
        # The mean of eight is within four of its standard errors.
        assert np.all(np.abs(rows.mean(axis=0) - centre) < 4 * toys.SPREAD / np.sqrt(8))
    schema = Schema.infer(frame, target="y")
    region = parse_rule(toys.FIGURE_2_RULE, schema).region
    assert not region.contains(schema.encode(frame), schema).any()
    assert frame.equals(toys.figure_2())


def test_figure_3a_keeps_to_its_rule():
    frame = toys.figure_3a()
    assert (frame["x"] * frame["y"] >= 0).all()


@pytest.mark.parametrize(("strict", "hired"), [(False, (9, 3)), (True, (8, 2))])
def test_figure_4_hires_group_0_from_far_lower_skill(strict, hired):
    frame = toys.figure_4(strict=strict)
    assert len(frame) == 20
    assert tuple(frame.groupby("x1")["y"].sum()) == hired


def test_figure_6_is_the_truth_with_the_noise_of_the_notes():
    frame = toys.figure_6()
    noise = frame["y"] - 5 * np.cos(frame["x"] / 1.7)
    np.testing.assert_allclose(noise, [0.4, 0.2, 0.7, -2.5, 0.6, 2.1])
