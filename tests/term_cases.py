"""What rules can ask for at four points, and outputs to score there: shared by the tests of terms."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from ocbnn.language.expressions import Always, Number
from ocbnn.model.terms import TERMS, Term
from ocbnn.rules.kinds.bounds import Bounds, Ends
from ocbnn.rules.kinds.classes import AllowedClasses, Classes
from ocbnn.rules.kinds.distribution import ClassProbabilities, NormalDistribution, StatedClasses
from ocbnn.rules.kinds.functions import Columns, Functions
from ocbnn.rules.kinds.probability import ProbabilityBounds, ProbabilityTarget, StatedProbability
from ocbnn.rules.kinds.values import Values
from ocbnn.rules.requirement import Normals, Peaks, Requirement, Shares

POINTS = 4
INFINITY = np.inf


class Case(NamedTuple):
    requirement: Requirement
    demand: Any
    classes: int  # 0 for regression


def _rows(*values: float | bool) -> np.ndarray:
    return np.tile(np.asarray(values), (POINTS, 1))


def _circle(x: dict[str, Any], y: Any) -> Any:
    return y * y - x["radius"] ** 2


def _above(x: dict[str, Any], y: Any) -> Any:
    return -y - x["radius"]


RADII = {"radius": np.array([0.5, 1.0, 1.5, 2.0])}
IDENTITY = (np.zeros(POINTS), np.ones(POINTS))
BOUNDS = Bounds(Always())
PROBABILITY_BOUNDS = ProbabilityBounds((), Always())

CASES: dict[str, Case] = {
    "interval": Case(BOUNDS, Ends(_rows(-0.5), _rows(0.75)), 0),
    "half-line": Case(BOUNDS, Ends(_rows(0.3), _rows(INFINITY)), 0),
    "gap": Case(BOUNDS, Ends(_rows(-INFINITY, 1.0), _rows(-1.0, INFINITY)), 0),
    "intervals that vary": Case(
        BOUNDS,
        Ends(
            np.array([[-1.0, 1.0], [0.0, INFINITY], [-INFINITY, INFINITY], [-INFINITY, INFINITY]]),
            np.array([[-0.5, 2.0], [0.5, -INFINITY], [INFINITY, -INFINITY], [0.0, -INFINITY]]),
        ),
        0,
    ),
    "value": Case(
        Values(((Number(0.5), 1.0),), 0.2),
        Peaks(_rows(0.5), _rows(1.0), np.full(POINTS, 0.2)),
        0,
    ),
    "values": Case(
        Values(((Number(-0.4), 0.7), (Number(0.1), 0.2), (Number(2.0), 0.1)), 0.2),
        Peaks(_rows(-0.4, 0.1, 2.0), _rows(0.7, 0.2, 0.1), np.full(POINTS, 0.2)),
        0,
    ),
    "functions": Case(Functions((_circle, _above)), Columns(RADII, *IDENTITY), 0),
    "negative functions": Case(Functions((_circle, _above), negative=True), Columns(RADII, *IDENTITY), 0),
    "normals": Case(
        NormalDistribution(((0.6, Number(-1.0), Number(0.5)), (0.4, Number(1.0), Number(0.2)))),
        Normals(_rows(0.6, 0.4), _rows(-1.0, 1.0), _rows(0.5, 0.2)),
        0,
    ),
    "one class": Case(Classes((1,)), AllowedClasses(_rows(False, True)), 2),
    "two of three classes": Case(Classes(("a", "b")), AllowedClasses(_rows(True, True, False)), 3),
    "all classes": Case(Classes(("a", "b", "c")), AllowedClasses(_rows(True, True, True)), 3),
    "probability bound": Case(PROBABILITY_BOUNDS, Shares(_rows(False, True), _rows(0.95), _rows(1.0)), 2),
    "probability bound of two": Case(
        PROBABILITY_BOUNDS, Shares(_rows(True, False, True), _rows(0.0), _rows(0.3)), 3
    ),
    "probability target": Case(
        ProbabilityTarget((1,), Number(0.8)),
        StatedProbability(_rows(False, True), np.array([0.0, 0.2, 0.8, 1.0])),
        2,
    ),
    "class probabilities": Case(
        ClassProbabilities((Number(0.2), Number(0.5), Number(0.3)), ("a", "b", "c")),
        StatedClasses(_rows(0.2, 0.5, 0.3)),
        3,
    ),
}

PAIRS: list[tuple[str, str]] = [
    (term.name, name)
    for term in TERMS.values()
    for name, case in CASES.items()
    if term.scores(case.requirement, case.demand)
]


def term_of(name: str) -> Term:
    return TERMS[name]


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def read_by(term: Term, case: Case, value: Any) -> Any:
    """Outputs as the term takes them: class probabilities, unless it reads their logarithms."""
    return jnp.exp(value) if case.classes and not term.reads_logs else jnp.asarray(value)


def outputs_for(case: Case, draws: int, seed: int = 0, spread: float = 2.0) -> np.ndarray:
    """Random outputs (draws, points), or log-probabilities (draws, points, classes)."""
    generator = np.random.default_rng(seed)
    if case.classes == 0:
        return spread * generator.normal(size=(draws, POINTS))
    return log_softmax(spread * generator.normal(size=(draws, POINTS, case.classes)))
