"""A kind of rule is one file: three kinds that only this file knows go through the whole library.

A pair of inputs, all inputs of a population together, and a pair whose step is a coordinate of its own.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ocbnn
from ocbnn import AmortizedPrior, Constraint, FileError, Model, OCBNNRegressor, RuleError, lint
from ocbnn.amortize import Learning
from ocbnn.checking.check import check_rules
from ocbnn.checking.draws import DrawSet
from ocbnn.inference.engines.hmc import Hmc
from ocbnn.inference.prepare import Settings
from ocbnn.inference.strength import StrengthSearch
from ocbnn.inference.warmstart import WarmStart
from ocbnn.language.syntax import Sentence
from ocbnn.posterior.allowed import EnforcementError
from ocbnn.posterior.conflict import conflict
from ocbnn.posterior.draws import Posterior, function_draws
from ocbnn.regions import Box, Everywhere, Interval, Region
from ocbnn.report import gather, write
from ocbnn.rules import dump_rules, kinds, load_rules, parse_rule
from ocbnn.rules.kinds.bounds import Bounds
from ocbnn.rules.requirement import Requirement, Units
from ocbnn.schema import Schema, Target


@dataclass(frozen=True)
class NearItsNeighbour(Requirement):
    """Y is within `most` of y one unit further in x."""

    most: float
    inputs = 2
    in_words = False

    def cases(self, points: np.ndarray, schema: Schema, region: Region) -> np.ndarray:
        further = points.copy()
        further[:, schema.index("x")] += 1.0
        return np.stack([points, further], axis=1)

    def demand(self, cases: np.ndarray, schema: Schema, units: Units) -> Any:
        return (np.full(len(cases), self.most / units.scale),)

    def margin(self, demand: Any, values: Any) -> Any:
        difference = values[..., 1] - values[..., 0]
        return difference.__array_namespace__().abs(difference) - demand[0]

    def text(self, target_name: str = "y", names: Collection[str] = ()) -> str:
        return f"{target_name} within {self.most:g} of its neighbour"


@dataclass(frozen=True)
class MeanWithin(Requirement):
    """The mean of y over the region is between two numbers."""

    low: float
    high: float
    inputs = None
    in_words = False

    def demand(self, cases: np.ndarray, schema: Schema, units: Units) -> Any:
        ends = units.of(np.array([self.low, self.high]))
        return tuple(np.full(len(cases), end) for end in ends)

    def margin(self, demand: Any, values: Any) -> Any:
        mean = values.mean(axis=-1)
        xp = mean.__array_namespace__()
        return xp.where(demand[0] - mean > mean - demand[1], demand[0] - mean, mean - demand[1])

    def text(self, target_name: str = "y", names: Collection[str] = ()) -> str:
        return f"mean {target_name} from {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class NoSteeper(Requirement):
    """Y changes by at most `slope` per unit of x, over steps of 0.25 to 1."""

    slope: float
    inputs = 2
    coordinates = 1
    in_words = False

    def cases(self, points: np.ndarray, schema: Schema, region: Region) -> np.ndarray:
        start = points[:, : len(schema.columns)]
        end = start.copy()
        end[:, schema.index("x")] += 0.25 + 0.75 * points[:, -1]
        return np.stack([start, end], axis=1)

    def demand(self, cases: np.ndarray, schema: Schema, units: Units) -> Any:
        step = cases[:, 1, schema.index("x")] - cases[:, 0, schema.index("x")]
        return (self.slope * step / units.scale,)

    def margin(self, demand: Any, values: Any) -> Any:
        difference = values[..., 1] - values[..., 0]
        return difference.__array_namespace__().abs(difference) - demand[0]

    def text(self, target_name: str = "y", names: Collection[str] = ()) -> str:
        return f"{target_name} changes by at most {self.slope:g} per x"


KINDS: dict[str, Constraint] = {
    "pair": Constraint(Box({"x": Interval(-1.0, 1.0)}), NearItsNeighbour(1.5), name="pair", tolerance=0.05),
    "population": Constraint(Everywhere(), MeanWithin(0.5, 1.0), name="population", tolerance=0.05),
    "step": Constraint(Box({"x": Interval(-2.0, 1.0)}), NoSteeper(1.5), name="step", tolerance=0.05),
}
QUICK = Settings(
    warm=WarmStart(steps=200, searches=1),
    strength=StrengthSearch(rounds=8, effective=60.0, most=100, found=0, ratio=20.0),
)


def table() -> pd.DataFrame:
    """Y is 2 x and noise: steeper than two of the rules allow, its mean lower than the third wants."""
    generator = np.random.default_rng(0)
    x = generator.uniform(-2.0, 2.0, 40)
    return pd.DataFrame({"x": x, "z": generator.normal(size=40), "y": 2.0 * x + generator.normal(0, 0.3, 40)})


def fitted(rules: Any) -> OCBNNRegressor:
    frame = table()
    estimator = OCBNNRegressor(
        rules=rules,
        hidden=(),
        engine=Hmc(warmup=150, max_steps=60),
        chains=4,
        draws=150,
        preparation=QUICK,
        random_state=0,
        cores=1,
    )
    return estimator.fit(frame[["x", "z"]], frame["y"])


@pytest.fixture(scope="module", params=["pair", "population", pytest.param("step", marks=pytest.mark.slow)])
def fit(request: pytest.FixtureRequest) -> OCBNNRegressor:
    """A linear model: what is tried is the way of a rule, not what networks can do."""
    return fitted([KINDS[request.param]])


@pytest.fixture(scope="module")
def without() -> Posterior:
    """The same for every kind: a fit without rules."""
    return fitted(None).posterior_


def test_pilots_find_a_strength_and_the_rule_is_kept(fit: OCBNNRegressor, without: Posterior) -> None:
    (outcome,) = fit.outcomes_
    assert outcome.found_strength
    assert not outcome.unmet
    assert outcome.violation < 0.1
    assert check_rules(without, fit.rules_, ascent=False)[0].violation.value > 0.3


def test_a_check_is_what_brute_force_over_cases_gives(fit: OCBNNRegressor) -> None:
    (rule,) = fit.rules_
    (term,) = fit.posterior_.rules
    found = fit.check_rules(points=50, ascent=False)[0]
    points = term.fresh(50, 0)
    cases = rule.requirement.cases(points, fit.schema_, rule.region)
    demand = rule.requirement.demand(cases, fit.schema_, Units())
    shares = []
    for index, case in enumerate(cases):
        values = function_draws(fit.posterior_, case)
        one = tuple(array[index : index + 1] for array in demand)
        shares.append((rule.requirement.margin(one, values[:, None]) > 0).mean())
    assert found.violation.value == pytest.approx(np.mean(shares))
    assert found.points == len(points)


def test_the_search_finds_worse_points_where_points_can_be_searched_one_by_one(fit: OCBNNRegressor) -> None:
    found = fit.check_rules(points=50)[0]
    assert found.epsilon_worst is not None
    assert found.draws_violating is not None
    assert found.draws_violating.value >= found.epsilon_worst.low
    searched = fit.rules_[0].requirement.inputs is not None
    assert bool(found.points_found) == searched
    assert bool(found.worst_point) == searched


def test_draws_that_violate_are_rejected(fit: OCBNNRegressor) -> None:
    enforced = fit.enforce("draws", points=200)
    kept = enforced.check_rules(points=200, key=5)[0]
    assert kept.epsilon_mean is not None
    assert kept.epsilon_mean.value < 0.01
    assert 0 < enforced.rejection_.acceptance.value <= 1
    assert np.isfinite(enforced.predict(table()[["x", "z"]])).all()


def test_no_single_prediction_can_be_truncated_to_it(fit: OCBNNRegressor) -> None:
    with pytest.raises(EnforcementError, match="does not speak of each input alone"):
        fit.enforce("truncate")


def test_conflict_says_what_it_changes(fit: OCBNNRegressor, without: Posterior) -> None:
    frame = table()
    (found,) = conflict(fit.posterior_, without, held_out=frame, y=frame["y"], points=50)
    assert found.violation_without.value > found.violation_with.value
    assert found.change_inside > 0
    assert found.log_score is not None


def test_lint_accepts_it_beside_others(fit: OCBNNRegressor) -> None:
    frame = table()
    assert lint(fit.rules_, fit.schema_, frame) == ()
    twice = lint((*fit.rules_, *fit.rules_), fit.schema_, frame)
    assert [finding.kind for finding in twice] == ["implied"]


def test_a_kind_that_cannot_be_read_back_is_not_saved(fit: OCBNNRegressor, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot be written to a file"):
        fit.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_the_report_shows_it(fit: OCBNNRegressor, without: Posterior, tmp_path: Path) -> None:
    frame = table()
    evidence = gather(fit.posterior_, without=without, frame=frame, points=100)
    page = write(evidence, fit.posterior_, tmp_path / "report.html").read_text()
    assert fit.rules_[0].requirement.text("y") in page
    assert evidence.rules[0].check.verdict in page


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pair", "population"])
def test_a_prior_learns_it_by_draws_of_whole_functions(kind: str) -> None:
    frame = table()
    schema = Schema.infer(frame, target="y")
    rule = KINDS[kind]
    learning = Learning(steps=300, samples=16, starts=1)
    prior = AmortizedPrior.learn([rule], schema, hidden=(), noise=0.3, learning=learning, seed=0)
    (finding,) = prior.findings.rules
    untrained = Model(prior.network, prior.likelihood, prior.base, schema=schema)
    before = check_rules(DrawSet(prior.base.draws(500)[None], untrained), [rule], ascent=False)[0]
    assert finding.check.violation.value < 0.5 * before.violation.value


def test_no_other_module_knows_a_kind() -> None:
    """Branches on kinds cannot come back: nobody outside `rules/kinds` imports a kind or its demand.

    `Constraint.from_functions` makes one, and the parser asks the readers.
    """
    root = Path(ocbnn.__file__).parent
    kinds = {file.stem for file in (root / "rules" / "kinds").glob("*.py")} - {"__init__"}
    found = []
    for file in sorted(root.rglob("*.py")):
        place = file.relative_to(root)
        if place.parts[:2] == ("rules", "kinds"):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ocbnn.rules.kinds"):
                names = {alias.name for alias in node.names}
                found.append((str(place), names))
    assert len(kinds) >= 6
    assert found == [
        ("rules/constraint.py", {"Functions", "Inequality"}),
        ("rules/parse.py", {"read_requirement"}),
    ]


# A kind that is written as text ---------------------------------------------------------------------------


@dataclass(frozen=True)
class SmallInSize(Requirement):
    """|y| is at most a number; written `abs(y) <= 2`."""

    most: float

    def demand(self, cases: np.ndarray, schema: Schema, units: Units) -> Any:
        return (np.full(len(cases), units.of(-self.most)), np.full(len(cases), units.of(self.most)))

    def margin(self, demand: Any, values: Any) -> Any:
        xp = values.__array_namespace__()
        return xp.maximum(demand[0] - values, values - demand[1])

    def text(self, target_name: str = "y", names: Collection[str] = ()) -> str:
        return f"abs({target_name}) <= {self.most:g}"


def read_small(sentence: Sentence, tree: Any, target: Target) -> SmallInSize | None:
    found = re.fullmatch(rf"abs\((?:y|{target.name})\) <= ([\d.]+)", sentence.slice(tree).strip("`"))
    return SmallInSize(float(found[1])) if found else None


def test_a_kind_is_written_as_text_by_a_reader_and_its_row(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    schema = Schema.infer(pd.DataFrame({"x": [0.5, 1.5, 2.5], "y": [1.0, 2.0, 4.0]}), target="y")
    text = "if x > 1 then abs(y) <= 2"
    with pytest.raises(RuleError):
        parse_rule("if x > 1 then abs(y) <= z", schema)
    monkeypatch.setattr(kinds, "READERS", [read_small, *kinds.READERS])
    rule = parse_rule(text, schema, name="small")
    assert rule.requirement == SmallInSize(2.0)
    assert rule.text(schema) == text
    (tmp_path / "rules.yaml").write_text(dump_rules([rule], schema))
    assert load_rules(tmp_path / "rules.yaml", schema) == (rule,)
    assert isinstance(parse_rule("always y <= 2", schema).requirement, Bounds)
