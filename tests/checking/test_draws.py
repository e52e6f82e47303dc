"""Which draws are left out together, and which half finds what the other estimates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ocbnn.checking.draws import draw_groups, halves
from posterior_cases import constants


def test_groups_left_out_are_the_chains_or_where_there_are_few_stretches_of_them():
    kept = np.ones((5, 6), dtype=bool)
    kept[2], kept[0, :3] = False, False
    chains = constants(np.zeros((5, 6))).with_kept(kept)
    np.testing.assert_array_equal(draw_groups(chains), np.repeat([0, 1, 2, 3], [3, 6, 6, 6]))
    np.testing.assert_array_equal(draw_groups(constants(np.zeros((2, 10)))), np.repeat(np.arange(10), 2))


def test_halves_share_no_draw_and_say_how_they_were_made():
    chains = constants(np.zeros((4, 10)))
    one = constants(np.zeros((1, 10)))
    particles = replace(one, provenance={"chains": False})
    for posterior, words in ((chains, "half of the chains"), (one, "first half"), (particles, "every other")):
        finding, estimating, how = halves(posterior)
        assert not (finding & estimating).any()
        assert (finding | estimating).all()
        assert finding.sum() == estimating.sum()
        assert words in how
    assert not halves(chains).finding[1].any()
    kept = np.zeros((4, 10), dtype=bool)
    kept[2] = True
    assert (halves(chains.with_kept(kept)).finding <= kept).all()
