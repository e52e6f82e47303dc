"""What each picture draws: artists and their data, not pixels."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection, PolyCollection, QuadMesh
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ocbnn import plots
from ocbnn.checking.check import check_rules
from ocbnn.errors import OCBNNError
from ocbnn.model import Model
from ocbnn.plots.style import CLASSES, FORBIDDEN, INK, MARKERS, REGION, VERDICTS, WITH, WITHOUT
from ocbnn.posterior.calibration import Bin, Calibration
from ocbnn.posterior.draws import Posterior
from ocbnn.schema import Column, Schema, Target
from posterior_cases import class_constants, lines
from report_cases import SHAPE, classes, numbers


@pytest.fixture
def ax() -> Axes:
    return Figure().subplots()


def labelled(ax: Axes, label: str) -> Line2D:
    (line,) = [line for line in ax.lines if line.get_label() == label]
    return line


def of_colour(ax: Axes, colour: str) -> list[Line2D]:
    return [line for line in ax.lines if to_hex(line.get_color()) == colour]


def filled(ax: Axes, colour: str) -> list[PolyCollection]:
    areas = [each for each in ax.collections if isinstance(each, PolyCollection)]
    return [each for each in areas if len(each.get_facecolor()) and to_hex(each.get_facecolor()[0]) == colour]


def legend(ax: Axes) -> list[str]:
    found = ax.get_legend()
    assert found is not None
    return [text.get_text() for text in found.get_texts()]


def test_a_band_shows_mean_bands_rules_and_the_other_posterior(ax: Axes) -> None:
    case = numbers()
    assert plots.predictive_band(case.posterior, "x", without=case.without, ax=ax) is ax
    shown = plots.sliced(case.posterior, "x")
    mean = labelled(ax, "y")
    np.testing.assert_allclose(mean.get_xdata(), shown.positions)
    np.testing.assert_allclose(mean.get_ydata(), shown.curves[0].mean)
    assert len(filled(ax, WITH)) == 2
    assert len(filled(ax, REGION)) == 2
    hatched = [each for each in ax.collections if each.get_hatch()]
    assert len(hatched) == 2
    assert {to_hex(each.get_edgecolor()[0]) for each in hatched} == {FORBIDDEN}
    other = labelled(ax, "without the rules")
    assert other.get_linestyle() == "--"
    assert np.polyfit(other.get_xdata(), other.get_ydata(), 1)[0] == pytest.approx(2.0, abs=0.1)
    assert legend(ax).count("a rule applies") == legend(ax).count("forbidden there") == 1
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x", "y")


def test_the_forbidden_area_of_a_bound_begins_at_it(ax: Axes) -> None:
    plots.predictive_band(numbers().posterior, "x", rules=["if x > 1 then y <= 3"], ax=ax)
    (area,) = [each for each in ax.collections if each.get_hatch()]
    corners = area.get_paths()[0].vertices
    assert corners[:, 1].min() == pytest.approx(3.0)
    assert corners[:, 0].min() >= 1.0


def test_data_are_points_and_the_middle_of_the_bands_is_not_moved(ax: Axes) -> None:
    case = numbers()
    plots.predictive_band(case.posterior, "x", data=case.frame, ax=ax)
    points = labelled(ax, "data")
    assert case.frame is not None
    np.testing.assert_array_equal(points.get_xdata(), case.frame["x"])
    np.testing.assert_allclose(points.get_ydata(), case.frame["y"])
    assert "data" in legend(ax)
    assert ax.get_ylim()[0] <= case.frame["y"].min() < case.frame["y"].max() <= ax.get_ylim()[1]


def test_rows_of_several_classes_are_points_in_lines_of_their_own(ax: Axes) -> None:
    case = classes()
    assert case.frame is not None
    plots.predictive_band(case.posterior, "x", data=case.frame, ax=ax)
    for index, name in enumerate(("blue", "green", "red")):
        marker = MARKERS[index]
        (row,) = [line for line in ax.lines if line.get_marker() == marker and line.get_zorder() == 3]
        np.testing.assert_array_equal(row.get_xdata(), case.frame.loc[case.frame["label"] == name, "x"])


def test_levels_of_a_category_are_points_with_bars(ax: Axes) -> None:
    probabilities = np.random.default_rng(0).dirichlet([5, 5], SHAPE)
    posterior = class_constants(probabilities, ["if site = south then label = yes"], ("no", "yes"))
    plots.predictive_band(posterior, "site", ax=ax)
    mean = labelled(ax, "P(label = yes)")
    assert mean.get_marker() == "o"
    np.testing.assert_allclose(mean.get_ydata(), probabilities[..., 1].mean())
    assert [text.get_text() for text in ax.get_xticklabels()] == ["north", "south"]
    assert ax.get_ylim() == (-0.02, 1.02)


def test_several_classes_have_colours_and_dashes_of_their_own(ax: Axes) -> None:
    posterior = class_constants(np.random.default_rng(0).dirichlet([5, 5, 5], SHAPE))
    plots.predictive_band(posterior, "x", ax=ax)
    curves = [labelled(ax, f"P(label = {name})") for name in ("blue", "green", "red")]
    assert len({to_hex(curve.get_color()) for curve in curves}) == 3
    assert len({str(curve.get_linestyle()) for curve in curves}) == 3


def test_without_axes_new_ones_are_made() -> None:
    ax = plots.predictive_band(numbers().posterior, "x")
    assert isinstance(ax, Axes)


def plane() -> Schema:
    columns = tuple(Column(name, "continuous", (-2.0, 2.0)) for name in ("x1", "x2"))
    return Schema(columns, Target("label", "classification", ("left", "right")))


def test_class_regions_have_the_predicted_classes_colour_and_outline_rules(ax: Axes) -> None:
    model = Model.build(schema=plane(), hidden=(), rules=["if x1 > 1 and x2 > 0 then label = right"])
    draws = np.zeros((1, 8, model.size))
    draws[..., 0] = 3.0  # the logit of "right" is 3 · x1
    posterior = Posterior(draws, model)
    data = pd.DataFrame({"x1": [-1.0, 1.0], "x2": [0.5, 0.5], "label": ["left", "right"]})
    plots.class_regions(posterior, ("x1", "x2"), data=data, ax=ax)
    (mesh,) = [each for each in ax.collections if isinstance(each, QuadMesh)]
    colours = np.asarray(mesh.get_array()).reshape(81, 81, 4)
    assert to_hex(colours[40, 5, :3]) == CLASSES[0]
    assert to_hex(colours[40, 75, :3]) == CLASSES[1]
    assert colours[40, 40, 3] < colours[40, 0, 3]
    outlines = [each for each in ax.collections if not isinstance(each, QuadMesh | PathCollection)]
    assert len(outlines) == 1
    assert [tuple(map(float, line.get_xdata())) for line in ax.lines] == [(-1.0,), (1.0,)]
    assert legend(ax) == ["label = left", "label = right"]


def test_class_regions_of_a_number_or_over_a_category_are_errors() -> None:
    with pytest.raises(OCBNNError, match="predictive_band"):
        plots.class_regions(numbers().posterior, ("x", "x"))
    with pytest.raises(OCBNNError, match="category"):
        plots.class_regions(class_constants(np.full((1, 4, 3), 1 / 3)), ("x", "site"))


def test_satisfaction_shows_value_interval_tolerance_and_verdict(ax: Axes) -> None:
    case = numbers()
    assert case.without is not None
    found = check_rules(case.posterior, points=50, ascent=False)
    other = check_rules(case.without, case.posterior.rules, points=50, ascent=False)
    plots.satisfaction(found, other, ax=ax)
    for place, rule in enumerate(found):
        colour, marker = VERDICTS[rule.verdict]
        interval, value = [line for line in of_colour(ax, colour) if line.get_ydata()[0] == place]
        assert rule.epsilon_mean is not None
        assert value.get_marker() == marker
        assert value.get_xdata()[0] == max(rule.epsilon_mean.value, 1e-4)
        assert tuple(interval.get_xdata()) == (max(rule.epsilon_mean.low, 1e-4), rule.epsilon_mean.high)
    strokes = [line for line in of_colour(ax, INK) if len(line.get_xdata()) == 2]
    assert [line.get_xdata()[0] for line in strokes] == [rule.tolerance for rule in found]
    diamonds = [line.get_xdata()[0] for line in of_colour(ax, WITHOUT)]
    assert diamonds == [max(each.epsilon_mean.value, 1e-4) for each in other if each.epsilon_mean]
    assert [text.get_text() for text in ax.texts] == [rule.name for rule in found]
    assert ax.get_xscale() == "log"


@pytest.mark.parametrize("column", ["x", "site"])
def test_single_functions_of_the_prior_lie_over_its_bands(ax: Axes, column: str) -> None:
    model = class_constants(np.full((1, 2, 2), 0.5), ["if x > 1 then label = yes"], ("no", "yes")).model
    assert plots.prior_functions(model, column, functions=6, key=2, ax=ax) is ax
    found = plots.prior_sliced(model, column, functions=6, key=2)
    singly = [line for line in of_colour(ax, WITHOUT) if line.get_lw() < 1]
    np.testing.assert_allclose([line.get_ydata() for line in singly], found.functions)
    np.testing.assert_allclose(labelled(ax, "P(label = yes)").get_ydata(), found.shown.curves[0].mean)
    assert legend(ax).count("single functions") == 1
    assert len(filled(ax, REGION)) == (column == "x")


def test_prior_and_posterior_are_both_drawn(ax: Axes) -> None:
    generator = np.random.default_rng(0)
    prior = lines(*generator.normal(0.0, 1.0, (2, *SHAPE)))
    posterior = lines(*generator.normal(0.0, 0.1, (2, *SHAPE)))
    plots.prior_and_posterior(prior, posterior, "x", coverage=0.8, ax=ax)
    assert legend(ax) == ["prior, 80% band", "posterior, 80% band"]
    wide, narrow = (filled(ax, colour)[0].get_paths()[0].vertices[:, 1] for colour in (WITHOUT, WITH))
    assert np.ptp(wide) > 2 * np.ptp(narrow)


def test_the_rejection_curve_is_the_shares_given(ax: Axes) -> None:
    plots.rejection_curve([1, 10, 100], [[0.8, 0.4, 0.1], [0.7, 0.3, 0.0]], ["svgd", "hmc"], ax=ax)
    assert [list(line.get_ydata()) for line in ax.lines] == [[0.8, 0.4, 0.1], [0.7, 0.3, 0.0]]
    assert ax.get_xscale() == "log"
    assert legend(ax) == ["svgd", "hmc"]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["1", "10", "100"]
    with pytest.raises(OCBNNError, match="one share for each"):
        plots.rejection_curve([1, 10], [0.5, 0.4, 0.3])


def test_diagnostics_show_every_chain_where_they_agree_least(ax: Axes) -> None:
    generator = np.random.default_rng(0)
    slope = generator.normal(0.0, 0.1, (3, 400))
    slope[1] += 1.0  # at x = 0 the chains agree, far from it they do not
    posterior = lines(slope, generator.normal(1.0, 0.1, (3, 400)), ["if x > 1 then y <= 3"])
    found = plots.chain_figures(posterior)
    assert found is not None
    assert found.rhat[0] == max(found.rhat) > 1.5 > min(found.rhat)
    assert found.every == 2
    plots.diagnostics(found, ax=ax)
    assert len(ax.lines) == 3
    means = [np.mean(line.get_ydata()) for line in ax.lines]
    assert abs(means[1] - means[0]) > 10 * abs(means[2] - means[0])
    agreement = plots.agreement(found, ax=Figure().subplots())
    np.testing.assert_allclose(agreement.lines[0].get_ydata(), found.rhat)
    assert agreement.lines[1].get_ydata()[0] == 1.01


@pytest.mark.parametrize(("said", "limit"), [("converged", 1.01), ("settled", 1.05), ("not settled", 1.05)])
def test_chains_are_held_to_what_their_run_was_judged_by(said: str, limit: float) -> None:
    known = {"chains": True, "status": f"{said}: worst R-hat 1.03"}
    generator = np.random.default_rng(0)
    posterior = lines(generator.normal(0.0, 0.1, (2, 50)), generator.normal(1.0, 0.1, (2, 50)), [])
    found = plots.chain_figures(replace(posterior, provenance=known))
    assert found is not None
    assert found.limit == limit


def test_without_chains_there_is_nothing_to_compare() -> None:
    posterior = numbers().posterior
    particles = Posterior(posterior.draws[:1], posterior.model, {"chains": False})
    assert plots.chain_figures(particles) is None
    with pytest.raises(OCBNNError, match="no chains"):
        plots.diagnostics(particles)


def test_calibration_shows_bins_with_their_intervals(ax: Axes) -> None:
    bins = (Bin(0.1, 0.15, 0.05, 0.3, 20), Bin(0.8, 0.7, 0.5, 0.9, 20))
    found = Calibration("P(y = 1)", 40, bins, 0.075, Bin(0.9, 0.95, 0.8, 1.0, 40))
    plots.calibration({"with": found, "without": found}, ax=ax)
    (container, _) = ax.containers
    line, _, (bars,) = container
    np.testing.assert_allclose(np.transpose([line.get_xdata(), line.get_ydata()]), [(0.1, 0.15), (0.8, 0.7)])
    np.testing.assert_allclose([bar[:, 1] for bar in bars.get_segments()], [(0.05, 0.3), (0.5, 0.9)])
    assert ax.get_xlabel() == "predicted: P(y = 1)"
    assert legend(ax)[1:] == ["with (40 rows)", "without (40 rows)"]


def test_changes_are_arrows_from_without_to_with(ax: Axes) -> None:
    plots.changes([("one", 0.2, 0.9), ("two", 0.5, 0.5)], "P(a)", probability=True, ax=ax)
    arrows = [text for text in ax.texts if text.arrow_patch is not None]
    assert [(arrow.xyann[0], arrow.xy[0]) for arrow in arrows] == [(0.2, 0.9), (0.5, 0.5)]
    assert [line.get_xdata()[0] for line in of_colour(ax, WITH)] == [0.9, 0.5]
    assert [line.get_xdata()[0] for line in of_colour(ax, WITHOUT)] == [0.2, 0.5]
