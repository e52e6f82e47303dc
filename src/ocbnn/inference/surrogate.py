"""A few weighted nodes that stand for all points of a rule in gradients.

An engine that accepts with the exact density may follow any deterministic gradient (`hmc.py`). A network is
smooth over a rule's region, so the mean of a term over many points is nearly its mean over few well-placed
ones: in one dimension the Gauss quadrature of the points' own empirical measure, in two or three a subset of
the points with non-negative weights that match its moments (Tchakaloff's theorem, found by NNLS). Quadrature
of the *uniform* density instead would belong to another posterior.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from jaxtyping import Float
from scipy.optimize import nnls

from ocbnn.model.conditional import RulePoints, RuleTerm

GAUSS_NODES = (8, 12, 16, 24, 32, 48)
MOMENT_DEGREES = {2: (5, 7, 9), 3: (4, 5)}


def candidate_nodes(rule: RuleTerm, points: RulePoints) -> list[RulePoints]:
    """Node sets for one rule from the fewest nodes on, each with less than half as many as there are points.

    Empty where the points vary in more than three inputs, or in one that is not continuous; also for rules
    that compare several inputs.
    """
    if not rule.rule.requirement.is_pointwise:
        return []
    inputs, weights = np.asarray(points.inputs, dtype=float), np.asarray(points.weights, dtype=float)
    varying = np.flatnonzero(np.ptp(inputs, axis=0) > 0)
    if not 1 <= len(varying) <= 3 or not _continuous(rule, points):
        return []
    sets: list[RulePoints | None]
    if len(varying) == 1:
        axis = int(varying[0])
        sets = [_gauss(rule, points, axis, k) for k in GAUSS_NODES if 2 * k < len(np.unique(inputs[:, axis]))]
    else:
        moving = inputs[:, varying]
        sets = [_subset(rule, points, moving, weights, d) for d in MOMENT_DEGREES[len(varying)]]
    return [nodes for nodes in sets if nodes is not None and 2 * len(nodes.inputs) < len(inputs)]


def _continuous(rule: RuleTerm, points: RulePoints) -> bool:
    coded = np.asarray(points.coded, dtype=float)
    varying = np.flatnonzero(np.ptp(coded, axis=0) > 0)
    return all(rule.schema.columns[i].kind == "continuous" for i in varying)


def _gauss(rule: RuleTerm, points: RulePoints, axis: int, count: int) -> RulePoints:
    inputs = np.asarray(points.inputs, dtype=float)
    places, weights = gauss_nodes(inputs[:, axis], np.asarray(points.weights, dtype=float), count)
    moved = np.repeat(inputs[:1], count, axis=0)
    moved[:, axis] = places
    return rule.at(rule.schema.to_raw(moved), weights=weights, strength=points.strength)


def gauss_nodes(
    places: Float[np.ndarray, " T"], weights: Float[np.ndarray, " T"], count: int
) -> tuple[Float[np.ndarray, " count"], Float[np.ndarray, " count"]]:
    """Gauss quadrature of the measure Σ weight·δ(place): exact for polynomials of degree 2·count − 1.

    The Jacobi matrix by Lanczos with full reorthogonalisation, then its eigenvalues (Golub & Welsch 1969).
    """
    basis = np.zeros((len(places), count))
    diagonal, off_diagonal = np.zeros(count), np.zeros(count)
    vector = np.sqrt(weights / weights.sum())
    for j in range(count):
        basis[:, j] = vector
        image = places * vector
        diagonal[j] = vector @ image
        for _ in range(2):  # twice is enough
            image = image - basis[:, : j + 1] @ (basis[:, : j + 1].T @ image)
        off_diagonal[j] = np.linalg.norm(image)
        vector = image / off_diagonal[j]
    jacobi = np.diag(diagonal) + np.diag(off_diagonal[:-1], 1) + np.diag(off_diagonal[:-1], -1)
    nodes, vectors = np.linalg.eigh(jacobi)
    return nodes, vectors[0] ** 2 * weights.sum()


def _subset(
    rule: RuleTerm, points: RulePoints, places: np.ndarray, weights: np.ndarray, degree: int
) -> RulePoints | None:
    chosen = matching_subset(places, weights, degree)
    if chosen is None:
        return None
    index, chosen_weights = chosen
    coded = np.asarray(points.coded, dtype=float)[index]
    return rule.at(coded, weights=chosen_weights, strength=points.strength)


def matching_subset(
    places: Float[np.ndarray, "T d"], weights: Float[np.ndarray, " T"], degree: int
) -> tuple[np.ndarray, Float[np.ndarray, " chosen"]] | None:
    """Indices and non-negative weights with the same moments up to a total degree; None where not found."""
    low, high = places.min(axis=0), places.max(axis=0)
    scaled = 2.0 * (places - low) / (high - low) - 1.0
    powers = [p for p in product(range(degree + 1), repeat=places.shape[1]) if sum(p) <= degree]
    if len(powers) >= len(places):
        return None
    chebyshev = np.stack([np.cos(k * np.arccos(np.clip(scaled, -1, 1))) for k in range(degree + 1)])
    moments = np.stack(
        [np.prod([chebyshev[k, :, axis] for axis, k in enumerate(power)], axis=0) for power in powers]
    )
    solution, residual = nnls(moments, moments @ weights)
    if residual > 1e-8 * weights.sum():
        return None
    index = np.flatnonzero(solution > 0)
    return index, solution[index]
