"""The instrument of the laws: it sees a defect at one probe, in the mean or in the band, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from law_fits import Answers, difference, log_odds, unseen

FITS, PROBES = 8, 10


def noisy(seed: int, spread: float = 0.1, at: int | None = None, more: float = 1.0) -> Answers:
    """Answers of fits that differ by this many posterior standard deviations, at one probe by more."""
    generator = np.random.default_rng(seed)
    wide = np.where(np.arange(PROBES) == at, more, 1.0) * spread
    sd = np.geomspace(0.1, 2.0, PROBES)
    mean = sd * (3.0 + wide * generator.normal(size=(FITS, PROBES)))
    return Answers(mean, sd * np.exp(0.5 * wide * generator.normal(size=(FITS, PROBES))))


def test_ways_of_fitting_that_are_alike_have_no_difference_that_is_known_precisely():
    found = [difference(noisy(seed), noisy(1000 + seed)) for seed in range(200)]
    assert sum(each.precise for each in found) > 180
    assert sum(not each.none for each in found) <= 2


@pytest.mark.parametrize("probe", range(PROBES))
def test_a_defect_at_one_probe_is_seen_in_the_mean_and_in_the_band(probe):
    one, other = noisy(0), noisy(1)
    assert difference(one, other).precise
    assert unseen(one, other) == []
    assert difference(one, other).none
    assert not difference(one, other.moved(0.6, probe)).none
    assert not difference(one, other.narrowed(0.6, probe)).none


def test_one_probe_that_is_known_poorly_is_enough_for_a_law_to_say_nothing():
    one, other = noisy(0, 0.06, at=4, more=5.0), noisy(1, 0.06, at=4, more=5.0)
    assert np.median(difference(one, other).mean_error) < 0.075
    assert not difference(one, other).precise
    assert ("mean", 4) in unseen(one, other)


def test_every_class_is_probed():
    p = np.random.default_rng(0).dirichlet(np.ones(3), size=(50, 4))
    found = log_odds(p)
    assert found.shape == (50, 12)
    np.testing.assert_allclose(found[:, 0], np.log(p[:, 0, 0] / (1 - p[:, 0, 0])))
    assert log_odds(p[..., :2] / p[..., :2].sum(axis=-1, keepdims=True)).shape == (50, 4)
    np.testing.assert_array_equal(log_odds(p[..., 0]), p[..., 0])
