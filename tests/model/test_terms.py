"""Terms against independent formulas, and the reasons for the defaults."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats

from ocbnn.errors import ModelError
from ocbnn.model.terms import (
    TERMS,
    Calibration,
    Dirichlet,
    Distance,
    GaussianMixture,
    NegativeExponential,
    OutputDensity,
    TargetDivergence,
)
from ocbnn.rules.kinds.bounds import Ends
from ocbnn.rules.kinds.classes import AllowedClasses
from ocbnn.rules.kinds.functions import Functions
from ocbnn.rules.requirement import Peaks, Shares
from ocbnn.schema import Target
from term_cases import BOUNDS, CASES, POINTS, PROBABILITY_BOUNDS, log_softmax, outputs_for, read_by

DRAWS = 50


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def score(term, case_name, value, strength):
    case = CASES[case_name]
    return np.asarray(term.log_density(case.requirement, case.demand, read_by(term, case, value), strength))


def breaks(case_name, outputs):
    """Which outputs, y or class probabilities, violate the rule."""
    case = CASES[case_name]
    return np.asarray(case.requirement.margin(case.demand, outputs)) > 0


def by_point(case_name, value, formula):
    """An independent formula of (value, point), one output at a time."""
    case = CASES[case_name]
    return np.array([[formula(draw[point], point, case.demand) for point in range(POINTS)] for draw in value])


@pytest.mark.parametrize("case_name", ["interval", "half-line", "gap", "intervals that vary"])
def test_distance_is_the_smoothed_distance_to_the_allowed_intervals(case_name):
    value = outputs_for(CASES[case_name], DRAWS)

    def formula(y, point, demand):
        pairs = [(a, b) for a, b in zip(demand.lower[point], demand.upper[point], strict=True) if a <= b]
        distance = min(max(a - y, 0.0, y - b) for a, b in pairs)
        return -7.0 * (np.sqrt(1 + (distance / 0.3) ** 2) - 1)

    expected = by_point(case_name, value, formula)
    np.testing.assert_allclose(
        score(Distance(0.3, lead=0.0), case_name, value, 7.0), expected, rtol=1e-10, atol=1e-12
    )


def test_distance_begins_its_lead_before_the_boundary():
    shift = 1.5 * 0.3 / np.sqrt(7.0)
    y = np.array([2.0 - shift - 0.01, 2.0 - shift + 0.01, 2.0, 2.4])
    demand = Ends(np.full((4, 1), -np.inf), np.full((4, 1), 2.0))
    with jax.enable_x64(True):
        actual = Distance(0.3).log_density(BOUNDS, demand, jax.numpy.asarray(y), 7.0)
    inside = np.maximum(y - 2.0 + shift, 0.0) / 0.3
    np.testing.assert_allclose(actual, -7.0 * (np.sqrt(1 + inside**2) - 1), rtol=1e-10, atol=1e-12)
    assert actual[0] == 0.0 > actual[1]


@pytest.mark.parametrize(("strength", "begins"), [(7.0, 7.0), (1000.0, 1000.0), (32_000.0, 1000.0)])
def test_a_wall_that_stays_begins_where_the_default_strength_has_it_however_strong(strength, begins):
    shift = 3.0 * 0.3 / np.sqrt(begins)
    y = np.array([2.0 - shift - 1e-6, 2.0 - shift + 1e-6, 2.1])
    demand = Ends(np.full((3, 1), -np.inf), np.full((3, 1), 2.0))
    term = Distance(0.3, lead=3.0, stays=True)
    with jax.enable_x64(True):
        actual = term.log_density(BOUNDS, demand, jax.numpy.asarray(y), strength)
    assert actual[0] == 0.0 > actual[1]
    inside = (0.1 + shift) / 0.3
    assert float(actual[2]) == pytest.approx(-strength * (np.sqrt(1 + inside**2) - 1), rel=1e-9)


def test_distance_of_a_probability_is_on_the_total_of_the_classes_named():
    value = outputs_for(CASES["probability bound of two"], DRAWS)

    def formula(log_p, point, demand):
        excess = max(np.exp(log_p[0]) + np.exp(log_p[2]) - 0.3, 0.0)
        return -7.0 * (np.sqrt(1 + (excess / 0.3) ** 2) - 1)

    expected = by_point("probability bound of two", value, formula)
    actual = score(Distance(0.3, lead=0.0), "probability bound of two", value, 7.0)
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-12)


def _soft_indicator(g, tau0=15.0, tau1=2.0):
    return 0.25 * (np.tanh(-tau0 * g) + 1) * (np.tanh(-tau1 * g) + 1)


@pytest.mark.parametrize("case_name", ["interval", "half-line", "gap", "intervals that vary"])
def test_negative_exponential_is_equation_6_summed_over_forbidden_intervals(case_name):
    value = outputs_for(CASES[case_name], DRAWS)

    def formula(y, point, demand):
        pairs = [(a, b) for a, b in zip(demand.lower[point], demand.upper[point], strict=True) if a <= b]
        ends = [-np.inf, *[end for pair in pairs for end in pair], np.inf]
        gaps = [(a, b) for a, b in zip(ends[::2], ends[1::2], strict=True) if a < b]
        penalties = [np.prod([_soft_indicator(g) for g in (a - y, y - b) if np.isfinite(g)]) for a, b in gaps]
        return -1e4 * sum(penalties)

    expected = by_point(case_name, value, formula)
    actual = score(NegativeExponential(), case_name, value, 1e4)
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-8)


def test_negative_exponential_of_functions_is_equation_6_itself():
    value = outputs_for(CASES["negative functions"], DRAWS)

    def formula(y, point, demand):
        radius = demand.columns["radius"][point]
        return -50.0 * _soft_indicator(y * y - radius**2) * _soft_indicator(-y - radius)

    expected = by_point("negative functions", value, formula)
    actual = score(NegativeExponential(), "negative functions", value, 50.0)
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-12)


def test_positive_functions_forbid_each_inequality_on_its_own_like_the_intervals_they_describe():
    value = jnp.asarray(outputs_for(CASES["interval"], DRAWS))
    functions = Functions((lambda x, y: -0.5 - y, lambda x, y: y - 0.75))
    demand = CASES["functions"].demand
    actual = NegativeExponential().log_density(functions, demand, value, 3.0)
    np.testing.assert_allclose(actual, score(NegativeExponential(), "interval", value, 3.0), rtol=1e-10)


def test_distance_of_classes_is_the_wall_on_the_log_odds_of_the_best_forbidden_class():
    value = outputs_for(CASES["two of three classes"], DRAWS)

    def formula(log_p, point, demand):
        u = max(log_p[2] - max(log_p[0], log_p[1]) + 1.5 / np.sqrt(7.0), 0.0)
        return -7.0 * (np.sqrt(1 + u**2) - 1)

    expected = by_point("two of three classes", value, formula)
    requirement, demand, _ = CASES["two of three classes"]
    term = Distance().calibrated(_setting(requirement, demand))
    assert term.reads_logs
    np.testing.assert_allclose(
        score(term, "two of three classes", value, 7.0), expected, rtol=1e-10, atol=1e-12
    )


def test_the_wall_of_classes_says_nothing_about_which_allowed_class():
    value = np.log([[0.9, 0.05, 0.05], [0.05, 0.9, 0.05], [0.2, 0.01, 0.3], [0.01, 0.2, 0.3]])
    scores = score(Distance(reads_logs=True), "two of three classes", value, 1e4)
    assert scores[0] == scores[1] == 0.0
    assert scores[2] == scores[3] < 0.0


@pytest.mark.parametrize("case_name", ["half-line", "interval", "gap", "one class", "two of three classes"])
@pytest.mark.parametrize("strength", [1e3, 1e5, 1e8])
def test_outputs_three_thicknesses_inside_are_left_alone_exactly(case_name, strength):
    """Law: a rule that is kept anyway changes nothing. Thicknesses are those of the term's own strength."""
    case = CASES[case_name]
    term = TERMS[case.requirement.default_term]
    assert term.default_strength == 1e3
    term = term.calibrated(_setting(case.requirement, case.demand))
    value = outputs_for(case, 2000)
    margin = np.asarray(case.requirement.margin(case.demand, value))
    kept = margin <= -3.0 * term.scale / np.sqrt(1e3)
    assert kept.mean() > 0.05
    assert np.all(score(term, case_name, value, strength)[kept] == 0.0)
    assert np.all(score(term, case_name, value, strength)[margin > 0] < 0.0)


@pytest.mark.parametrize(("reference", "other"), [(False, 1.5), (True, 8.5)])
def test_dirichlet_is_that_density_up_to_its_normaliser(reference, other):
    value = outputs_for(CASES["two of three classes"], DRAWS)
    density = scipy.stats.dirichlet([10.0, 10.0, other])
    probabilities = np.exp(value)
    expected = by_point("two of three classes", probabilities, lambda p, *_: density.logpdf(p / p.sum()))
    actual = score(Dirichlet(reference=reference), "two of three classes", value, 10.0)
    np.testing.assert_allclose(actual - actual[0], expected - expected[0], rtol=1e-10, atol=1e-9)


def test_gaussian_mixture_of_the_paper_is_the_log_of_a_weighted_sum_whose_variance_strength_divides():
    value = outputs_for(CASES["values"], DRAWS)

    def formula(y, point, demand):
        components = scipy.stats.norm.logpdf(y, demand.values[point], 0.1 / np.sqrt(2.0))
        return scipy.special.logsumexp(components, b=demand.weights[point])

    expected = by_point("values", value, formula)
    np.testing.assert_allclose(score(GaussianMixture(sigma=0.1), "values", value, 2.0), expected, rtol=1e-10)


@pytest.mark.parametrize("strength", [1.0, 9.0, 1e4])
@pytest.mark.parametrize("sigma", [None, 0.1])
def test_with_one_value_the_gaussian_has_half_the_margin_as_its_standard_deviation(sigma, strength):
    value = outputs_for(CASES["value"], DRAWS)
    expected = scipy.stats.norm.logpdf(value, 0.5, 0.1 / np.sqrt(strength))
    actual = score(GaussianMixture(sigma=sigma), "value", value, strength)
    np.testing.assert_allclose(actual, expected, rtol=1e-10)


def _mixture(values, weights, margin, strength, places, term=None):
    """The density of a rule about several values at these places."""
    demand = Peaks(
        np.tile(values, (len(places), 1)), np.tile(weights, (len(places), 1)), np.full(len(places), margin)
    )
    term = term or TERMS[CASES["values"].requirement.default_term]
    scores = term.log_density(CASES["values"].requirement, demand, jnp.asarray(places), strength)
    return np.exp(np.asarray(scores))


@pytest.mark.parametrize("strength", [1.0, 3.0, 10.0, 1e3, 1e5])
@pytest.mark.parametrize(
    ("values", "weights"),
    [((2.0, 3.0), (0.7, 0.3)), ((3.0, 2.0), (0.05, 0.95)), ((-1.0, 2.0, 4.0), (0.1, 0.6, 0.3))],
)
def test_at_any_strength_each_value_has_the_mass_that_was_stated(values, weights, strength):
    """Under a flat base prior, by quadrature around each value; S4: 0.00025 instead of 0.3 at strength 10."""
    masses = []
    for value in values:
        places = value + np.linspace(-0.5, 0.5, 200_001) * min(1.0, 10.0 / np.sqrt(strength))
        density = _mixture(values, weights, 0.1, strength, places)
        masses.append(scipy.integrate.simpson(density, places))
    np.testing.assert_allclose(masses, weights, rtol=1e-9)


def test_less_strength_than_keeps_the_stated_shares_is_refused_for_several_values():
    """At s = 0.5 the share of 0.7 would be 0.58."""
    several, one = (_of_case(case, 0.5) for case in ("values", "value"))
    with pytest.raises(ModelError, match=r"at least 1, not 0\.5.*Give 1 or more"):
        GaussianMixture().calibrated(several)
    assert GaussianMixture().calibrated(one).sigma is None
    assert GaussianMixture(sigma=0.5).calibrated(several).sigma == 0.5
    assert GaussianMixture().calibrated(_of_case("values", 1.0)).sigma is None


@pytest.mark.parametrize("strength", [1.0, 10.0, 1e3])
def test_strength_narrows_every_component_as_its_square_root(strength):
    places = np.linspace(1.0, 4.0, 600_001)
    density = _mixture((2.0, 3.0), (0.7, 0.3), 0.2, strength, places)
    for value, widest in ((2.0, 0.1), (3.0, 0.1)):
        near = np.abs(places - value) < 0.5
        variance = np.average((places[near] - value) ** 2, weights=density[near])
        assert 0.5 * widest / np.sqrt(strength) < np.sqrt(variance) < 1.001 * widest / np.sqrt(strength)


@pytest.mark.parametrize("strength", [0.2, 1.0, 7.0, 1e4])
def test_components_have_the_same_density_at_their_margins(strength):
    places = (-0.6, -0.2, -0.1, 0.3, 1.8, 2.2)
    margins = [float(score(GaussianMixture(), "values", np.full(POINTS, y), strength)[0]) for y in places]
    np.testing.assert_allclose(margins, margins[0], rtol=1e-10)


def test_values_that_almost_touch_keep_their_masses_up_to_what_they_share():
    """Margins of 0.5 around 2 and 3 meet at 2.5, two standard deviations from the lighter value."""
    places = np.linspace(0.0, 5.0, 500_001)
    density = _mixture((2.0, 3.0), (0.7, 0.3), 0.5, 1.0, places)
    share = density[places < 2.5].sum() / density.sum()
    assert 0.7 <= share <= 0.7 / (1.0 - 0.3 * scipy.stats.norm.sf(2.0))


def test_target_probability_is_the_negative_divergence_from_what_is_asked():
    value = outputs_for(CASES["class probabilities"], DRAWS)
    expected = by_point(
        "class probabilities",
        value,
        lambda log_p, point, demand: -40.0 * scipy.stats.entropy(demand.probability[point], np.exp(log_p)),
    )
    np.testing.assert_allclose(
        score(TargetDivergence(), "class probabilities", value, 40.0), expected, rtol=1e-9
    )
    value = outputs_for(CASES["probability target"], DRAWS)
    expected = by_point(
        "probability target",
        value,
        lambda log_p, point, demand: (
            -40.0
            * scipy.stats.entropy([1 - demand.probability[point], demand.probability[point]], np.exp(log_p))
        ),
    )
    np.testing.assert_allclose(
        score(TargetDivergence(), "probability target", value, 40.0), expected, rtol=1e-9
    )


def test_output_density_is_the_log_of_the_mixture():
    value = outputs_for(CASES["normals"], DRAWS)

    def formula(y, point, demand):
        components = scipy.stats.norm.logpdf(y, demand.mean[point], demand.sd[point])
        return scipy.special.logsumexp(components, b=demand.weight[point])

    expected = by_point("normals", value, formula)
    np.testing.assert_allclose(score(OutputDensity(), "normals", value, 1.0), expected, rtol=1e-10)


def _mean_under(log_term):
    """Mean of w ~ N(0, 1) × exp(log_term(w)), by quadrature over a grid fine enough for its kinks."""
    grid = np.linspace(-8.0, 8.0, 400_001)
    log_density = -0.5 * grid**2 + np.asarray(log_term(jnp.asarray(grid)))
    density = np.exp(log_density - log_density.max())
    return scipy.integrate.simpson(grid * density, grid) / scipy.integrate.simpson(density, grid)


def _half_line_term(term, strength):
    def log_term(w):
        demand = Ends(np.zeros((w.shape[0], 1)), np.full((w.shape[0], 1), np.inf))
        return term.log_density(BOUNDS, demand, w, strength)

    return log_term


def _share_under(strength):
    """Mean probability of the allowed class for a logit ~ N(0, 1), and the truncated one, by quadrature."""
    requirement, demand, _ = CASES["one class"]
    logit = np.linspace(-8.0, 8.0, 400_000).reshape(-1, POINTS)
    value = log_softmax(np.stack([np.zeros_like(logit), logit], axis=-1))
    term = TERMS[requirement.default_term].calibrated(_setting(requirement, demand))
    base = np.exp(-0.5 * logit**2)
    scored, kept = base * np.exp(score(term, "one class", value, strength)), base * (logit > 0)
    probability = scipy.special.expit(logit)
    return np.average(probability, weights=scored), np.average(probability, weights=kept)


def test_the_default_term_of_classes_tends_to_the_truncated_prior():
    """S7: Beta, whose demanded log-odds grew with strength, gave 0.784, 0.958 and 0.994 for 0.675."""
    means, (truncated, *_) = zip(*(_share_under(s) for s in (1e1, 1e2, 1e3, 1e4, 1e5, 1e6)), strict=True)
    assert truncated == pytest.approx(0.675, abs=2e-4)
    errors = np.abs(np.array(means) - truncated)
    assert np.all(np.diff(errors) < 0)
    # Like bounds on y, by 1/√strength once the wall is thin.
    np.testing.assert_allclose(errors[3:] / errors[2:-1], 10**-0.5, rtol=0.15)
    assert errors[2] < 2e-3


def test_distance_converges_to_the_truncated_density_as_strength_grows():
    truncated = np.sqrt(2 / np.pi)
    strengths = (1e2, 1e4, 1e6, 1e8)
    errors = [abs(_mean_under(_half_line_term(Distance(), s)) - truncated) for s in strengths]
    # The mass outside shrinks like 1/√strength: a factor of ten per step.
    assert errors[0] < 0.1
    assert all(later < 0.15 * earlier for earlier, later in itertools.pairwise(errors))


def test_negative_exponential_does_not_converge_to_it_which_is_why_it_is_no_default():
    means = [_mean_under(_half_line_term(NegativeExponential(), s)) for s in (1e2, 1e4, 1e6)]
    np.testing.assert_allclose(means, [0.89, 0.98, 1.08], atol=0.005)


def test_distance_pulls_arbitrarily_far_inside_where_the_exponential_is_flat():
    far = jnp.full(POINTS, -50.0)

    def slope(term):
        case = CASES["half-line"]
        return jax.grad(lambda y: jnp.sum(term.log_density(case.requirement, case.demand, y, 1.0)))(far)

    assert np.all(np.asarray(slope(Distance())) > 0.99)
    assert np.all(np.asarray(slope(NegativeExponential())) == 0.0)


def test_dirichlet_scores_a_breaking_output_above_an_obeying_one_which_is_why_it_is_no_default():
    obeying, breaking = np.log([0.98, 0.01, 0.01]), np.log([0.3, 0.3, 0.4])
    value = np.stack([obeying, breaking, obeying, breaking])
    scores = score(Dirichlet(), "two of three classes", value, 10.0)
    np.testing.assert_allclose(scores[:2], [-43.9, -22.1], atol=0.05)
    assert list(breaks("two of three classes", np.exp(value))[:2]) == [False, True]


def test_dirichlet_orders_two_classes_rightly():
    value = outputs_for(CASES["one class"], 500)
    broken = breaks("one class", np.exp(value))
    # Dir(1.5, 10) has its mode at 0.95 for the allowed class and falls from there to the vertex.
    inside = value[..., 1] < np.log(9.0 / 9.5)
    scores = score(Dirichlet(), "one class", value, 10.0)
    assert scores[~broken & inside].min() >= scores[broken].max()


def test_negative_exponential_orders_outputs_of_a_half_line_rightly():
    value = outputs_for(CASES["half-line"], 500)
    broken = breaks("half-line", value)
    scores = score(NegativeExponential(), "half-line", value, 1e4)
    assert scores[~broken].min() >= scores[broken].max()


def test_a_sum_of_gaussians_scores_a_breaking_output_above_an_obeying_one_which_is_why_they_are_levelled():
    demand = Peaks(np.array([[0.0, 2.02]]), np.array([[0.5, 0.5]]), np.array([1.0]))
    obeying, breaking = jnp.asarray([-1.0]), jnp.asarray([1.01])
    rule = CASES["values"].requirement
    assert list(rule.margin(demand, np.array([[-1.0], [1.01]]))[:, 0] > 0) == [False, True]
    paper, ours = GaussianMixture(sigma=0.5), GaussianMixture()
    assert paper.log_density(rule, demand, obeying, 1.0) < paper.log_density(rule, demand, breaking, 1.0)
    assert ours.log_density(rule, demand, obeying, 1.0) > ours.log_density(rule, demand, breaking, 1.0)


def _of_case(case_name, strength):
    return _setting(CASES[case_name].requirement, CASES[case_name].demand, strength=strength)


def _setting(requirement, demand, *, bounded=True, strength=10.0, target=None):
    return Calibration(requirement, demand, target or Target("y", "regression"), bounded, strength)


def test_alpha_below_one_is_refused_with_an_unbounded_activation():
    requirement, demand, _ = CASES["one class"]
    with pytest.raises(ModelError, match=r"α = 0.15 < 1.*bounded activation"):
        Dirichlet().calibrated(_setting(requirement, demand, bounded=False, strength=1.0))
    with pytest.raises(ModelError, match=r"α = 0.05"):
        Dirichlet(alpha=(10.0, 0.05)).calibrated(_setting(requirement, demand, bounded=False))
    assert Dirichlet().calibrated(_setting(requirement, demand, bounded=False)) == Dirichlet()


def test_alpha_below_one_is_floored_with_a_warning_and_a_bounded_activation():
    requirement, demand, _ = CASES["one class"]
    with pytest.warns(UserWarning, match=r"α = 0.05.*floored"):
        term = Dirichlet(alpha=(10.0, 0.05)).calibrated(_setting(requirement, demand))
    logits = np.array([0.0, 5.0, 50.0, 5000.0])
    value = log_softmax(np.stack([logits, np.zeros(POINTS)], axis=-1))
    scores = np.asarray(term.log_density(requirement, demand, jnp.asarray(value), 1.0))
    assert scores[2] == pytest.approx(-0.95 * np.log(1e-3), rel=1e-10)
    assert scores[3] == pytest.approx(scores[2], rel=1e-10)
    assert scores[1] == pytest.approx(9.0 * value[1, 0] - 0.95 * value[1, 1], rel=1e-10)


@pytest.mark.parametrize(
    ("make", "cause"),
    [
        (lambda: Dirichlet(c=1.0), "strictly between 0 and 1"),
        (lambda: Dirichlet(alpha=(1.0, 0.0)), "positive"),
        (
            lambda: Dirichlet(alpha=(1.0, 2.0, 3.0)).calibrated(_setting(*CASES["one class"][:2])),
            "3 entries.*2 classes",
        ),
    ],
)
def test_dirichlet_settings_that_make_no_sense_are_refused(make, cause):
    with pytest.raises(ModelError, match=cause):
        make()


@pytest.mark.parametrize(
    ("requirement", "demand", "scale"),
    [
        (BOUNDS, Ends(np.array([[0.0]]), np.array([[0.25]])), 0.25),
        (BOUNDS, Ends(np.array([[0.0]]), np.array([[40.0]])), 1.0),
        (BOUNDS, Ends(np.array([[0.0]]), np.array([[np.inf]])), 1.0),
        (BOUNDS, Ends(np.array([[0.5]]), np.array([[0.5]])), 1.0),
        (BOUNDS, Ends(np.array([[-np.inf, 1.0]]), np.array([[0.0, 1.5]])), 0.5),
        (BOUNDS, Ends(np.array([[0.0, np.inf]]), np.array([[0.5, -np.inf]])), 0.5),
        (CASES["value"].requirement, Peaks(np.zeros((1, 1)), np.ones((1, 1)), np.array([0.2])), 0.2),
        (PROBABILITY_BOUNDS, Shares(np.array([[False, True]]), np.array([[0.95]]), np.array([[1.0]])), 0.05),
        (PROBABILITY_BOUNDS, Shares(np.array([[False, True]]), np.array([[1.0]]), np.array([[1.0]])), 0.01),
        (CASES["one class"].requirement, AllowedClasses(np.array([[True, False]])), 1.0),
    ],
)
def test_a_rule_measures_distances_in_its_own_scale(requirement, demand, scale):
    assert requirement.scale(demand) == pytest.approx(scale, rel=1e-12)
    assert Distance().calibrated(_setting(requirement, demand)).scale == pytest.approx(scale, rel=1e-12)


def test_raw_units_undo_the_standardisation_of_the_target():
    target = Target("y", "regression", center=5.0, scale=4.0)
    demand = Ends(np.array([[0.5]]), np.array([[0.75]]))  # 7 to 8 in raw units
    term = NegativeExponential(raw=True).calibrated(_setting(BOUNDS, demand, target=target))
    raw = 7.3
    expected = -(_soft_indicator(raw - 7.0) + _soft_indicator(8.0 - raw))
    actual = term.log_density(BOUNDS, demand, jnp.asarray([(raw - 5.0) / 4.0]), 1.0)
    assert float(actual[0]) == pytest.approx(expected, rel=1e-10)


def test_terms_are_named_as_in_their_table():
    assert all(name == term.name for name, term in TERMS.items())
