"""Captions say what to see, with the figures that are drawn."""

from collections.abc import Callable
from dataclasses import replace

from ocbnn.report import Evidence, pictures

Gathered = Callable[[str], Evidence]


def test_a_band_tells_the_means_inside_each_rule_with_and_without(evidence_of: Gathered) -> None:
    evidence = evidence_of("numbers")
    caption = pictures.band_pictures(evidence)[0].caption
    shown = evidence.bands[0].shown
    for zone in shown.zones:
        assert f"Where “{zone.rule}” applies, the mean lies between" in caption
    assert caption.count("without the rules it would lie between") == len(shown.zones) == 2


def test_bands_of_several_classes_tell_where_rules_apply(evidence_of: Gathered) -> None:
    first, second = pictures.band_pictures(evidence_of("classes"))
    assert "“if x > 1 then label in {blue, green}” applies in" in first.caption
    assert "The other columns stay at: site" in first.caption
    assert "probability of each label" in second.alternative


def test_without_rules_a_band_says_so(evidence_of: Gathered) -> None:
    (band,) = pictures.band_pictures(evidence_of("no rules"))
    assert "No rule applies here" in band.caption


def test_calibration_tells_how_far_points_are_off(evidence_of: Gathered) -> None:
    everywhere, parts = pictures.calibration_pictures(evidence_of("numbers"))
    assert "With the rules, the mean distance is" in everywhere.caption
    assert "Where rules apply, the mean distance is" in parts.caption
    assert pictures.calibration_pictures(evidence_of("alone")) == ()


def test_the_rules_picture_tells_every_figure_in_words(evidence_of: Gathered) -> None:
    evidence = evidence_of("numbers")
    (picture,) = pictures.rules_pictures(evidence)
    for rule in evidence.rules:
        assert rule.name in picture.alternative
    assert "Diamonds" in picture.caption
    (alone,) = pictures.rules_pictures(evidence_of("alone"))
    assert "Diamonds" not in alone.caption
    assert pictures.rules_pictures(evidence_of("no rules")) == ()
    assert pictures.changes_pictures(evidence_of("alone")) == ()


def test_chains_that_stand_still_apart_are_counted_too(evidence_of: Gathered) -> None:
    figures = evidence_of("frozen").run.figures
    assert figures is not None
    assert figures.rhat == ()
    assert figures.unbounded > 0
    traces, agreement = pictures.run_pictures(evidence_of("frozen"))
    assert f"{figures.unbounded} of {figures.unbounded} do not here" in agreement.caption
    assert "has no bound" in agreement.alternative
    assert traces.alternative.startswith("4 lines")


def test_chains_that_disagree_are_counted(evidence_of: Gathered) -> None:
    figures = evidence_of("unsettled").run.figures
    assert figures is not None
    _, agreement = pictures.run_pictures(evidence_of("unsettled"))
    beyond = sum(value > 1.01 for value in figures.rhat)
    assert ("All of them do here" if not beyond else f"{beyond} of {len(figures.rhat)}") in agreement.caption
    unknown = replace(evidence_of("unsettled").run, figures=None)
    assert pictures.run_pictures(replace(evidence_of("unsettled"), run=unknown)) == ()
