"""Pictures: both formats, the same file for the same numbers."""

from __future__ import annotations

import numpy as np

from reproduce.data import toys
from reproduce.figures.fig2 import ACROSS, UP, far_points
from reproduce.pictures import draw, draw_band, draw_particles, forbid, frame_axes, key, line, plane


def test_a_picture_is_a_png_and_an_svg_that_do_not_change(small_prior, tmp_path):
    def paint(ax):
        frame_axes(ax, "a title", (-5.0, 5.0), (-10.0, 10.0))
        draw_band(ax, small_prior, line(-5.0, 5.0, 11), "OC-BNN")
        draw_particles(ax, small_prior, line(-5.0, 5.0, 11), "particles", baseline=True)
        forbid(ax, (-0.3, 0.3), [(-np.inf, 2.5), (3.0, np.inf)])
        key(ax)

    for name in ("one", "two"):
        draw(tmp_path, name, [paint])
    for kind in ("png", "svg"):
        first, second = ((tmp_path / f"{name}.{kind}").read_bytes() for name in ("one", "two"))
        assert first == second
        assert len(first) > 1000
    text = (tmp_path / "one.svg").read_text()
    for label in ("a title", "OC-BNN", "particles", "forbidden"):
        assert label in text


def test_the_plane_goes_row_by_row_from_below():
    at = plane((0.0, 1.0), (2.0, 3.0), 3)
    assert list(at["x1"][:3]) == [0.0, 0.5, 1.0]
    assert list(at["x2"][:3]) == [2.0, 2.0, 2.0]


def test_far_points_are_two_or_more_away_from_box_and_rows():
    frame = toys.figure_2()
    for x1, x2 in far_points(frame).to_numpy():
        outside = np.array([max(ACROSS[0] - x1, 0, x1 - ACROSS[1]), max(UP[0] - x2, 0, x2 - UP[1])])
        assert np.hypot(*outside) >= 2
        assert np.hypot(frame["x1"] - x1, frame["x2"] - x2).min() >= 2
