"""What a model consists of, as plain values and named arrays, and back: networks, likelihoods, priors, terms.

Only the classes named here come out of a file: a saved model holds numbers and text, and no code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ocbnn.errors import FileError, RuleError
from ocbnn.model.conditional import RuleTerm
from ocbnn.model.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood, VaryingGaussian
from ocbnn.model.networks import MLP, Network
from ocbnn.model.priors import DiagonalGaussian, IsotropicGaussian, LayerScales, Prior
from ocbnn.model.provable import BOXES
from ocbnn.model.terms import TERMS
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.files import NO_RULES, dump_rules, parse_rules
from ocbnn.schema import Schema
from ocbnn.storage.arrays import Arrays, Declared
from ocbnn.storage.values import UnsavableError, exact, packed, restored, unpacked

NETWORKS: dict[str, type] = {"mlp": MLP}
LIKELIHOODS: dict[str, type] = {
    "gaussian": Gaussian,
    "varying-gaussian": VaryingGaussian,
    "bernoulli": Bernoulli,
    "categorical": Categorical,
}
TERM_KINDS: dict[str, type] = {name: type(term) for name, term in TERMS.items()}
MOST_WORK = 10_000_000
"""Points of a rule times characters of its text: a few seconds, whatever the rule says."""
Shapes = dict[str, tuple[int, ...]]


def pack_network(network: Network) -> dict[str, Any]:
    """The network's kind and widths."""
    return packed(network, NETWORKS, "network")


def unpack_network(values: Any, schema: Schema) -> MLP:
    """The network, if it takes what the table gives."""
    network: MLP = unpacked(values, NETWORKS, "network")
    if network.inputs != schema.width:
        raise FileError(f"The network has {network.inputs} inputs, but the table gives {schema.width}.")
    return network


def pack_likelihood(likelihood: Likelihood) -> dict[str, Any]:
    """The likelihood's kind and settings."""
    return packed(likelihood, LIKELIHOODS, "likelihood")


def unpack_likelihood(values: Any) -> Likelihood:
    """The likelihood that was packed."""
    likelihood: Likelihood = unpacked(values, LIKELIHOODS, "likelihood")
    return likelihood


# Base priors that have learnt nothing -----------------------------------------------------------------------


@dataclass(frozen=True)
class BaseValues:
    """A base prior without its arrays: N(0, scale²) where `scale` is a number; `layers` of learnt scales.

    `ordered`: whether an array says in which order the layers take their weights.
    """

    kind: Literal["isotropic", "diagonal", "layers"]
    scale: float | None = None
    layers: tuple[int, ...] = ()
    degrees: float | None = None
    names: tuple[str, ...] = ()
    ordered: bool = False


def pack_base(base: Prior) -> tuple[dict[str, Any], Arrays]:
    """A base prior as values and arrays."""
    if type(base) is DiagonalGaussian:
        return exact(BaseValues("diagonal")), pack_gaussian("prior", base)
    if type(base) is LayerScales:
        values = BaseValues(
            "layers",
            layers=base.layers,
            degrees=float(base.degrees),
            names=base.names,
            ordered=base.order is not None,
        )
        order = {} if base.order is None else {"prior.order": np.asarray(base.order, dtype=np.int64)}
        return exact(values), {"prior.scale": base.scale, **order}
    if type(base) is not IsotropicGaussian:
        raise UnsavableError(
            f"A base prior of the type {type(base).__name__} cannot be saved. Use one of ocbnn's own."
        )
    if np.ndim(base.scale):
        return exact(BaseValues("isotropic")), {"prior.scale": np.asarray(base.scale, dtype=np.float64)}
    return exact(BaseValues("isotropic", float(base.scale))), {}


def base_shapes(values: Any, size: int) -> Shapes:
    """The arrays that `pack_base` made of a prior over so many weights."""
    base = restored(BaseValues, values, "The base prior")
    if base.kind == "diagonal":
        return gaussian_shapes("prior", size)
    names = [] if base.scale is not None else ["prior.scale", *(["prior.order"] if base.ordered else [])]
    return dict.fromkeys(names, (size,))


def unpack_base(values: Any, arrays: Mapping[str, np.ndarray], size: int) -> Prior:
    """The base prior that was packed."""
    base = restored(BaseValues, values, "The base prior")
    if base.kind == "diagonal":
        return unpack_gaussian("prior", arrays)
    if base.kind == "layers":
        if base.degrees is None or sum(base.layers) != size:
            raise FileError(f"The layers of the base prior do not have the network's {size} weights.")
        order = arrays["prior.order"] if base.ordered else None
        return LayerScales(base.layers, arrays["prior.scale"], base.degrees, order, base.names)
    return IsotropicGaussian(size, arrays["prior.scale"] if base.scale is None else base.scale)


def pack_gaussian(name: str, gaussian: DiagonalGaussian) -> Arrays:
    """Mean and standard deviation under this name."""
    return {f"{name}.mean": np.asarray(gaussian.mean), f"{name}.sd": np.asarray(gaussian.sd)}


def gaussian_shapes(name: str, size: int) -> Shapes:
    """The arrays of a Gaussian over so many weights."""
    return {f"{name}.mean": (size,), f"{name}.sd": (size,)}


def unpack_gaussian(name: str, arrays: Mapping[str, np.ndarray]) -> DiagonalGaussian:
    """The Gaussian that was packed under this name."""
    return DiagonalGaussian(arrays[f"{name}.mean"], arrays[f"{name}.sd"])


# Rules ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TermValues:
    """A rule's term without its words, which are in rules.yaml, and its points, which are arrays.

    `name` is the rule's own where rules.yaml, in which a name stands once, had to give it another.
    """

    term: dict[str, Any]
    strength: float
    strength_is_free: bool
    reduction: Literal["sum", "mean"]
    sampler: str | None
    drawn: int
    corners: int
    name: str | None = None

    def __post_init__(self) -> None:
        if not self.strength > 0 or min(self.drawn, self.corners) < 0:
            raise FileError("a strength is not positive, or a number of points is negative")


def pack_terms(
    terms: Sequence[RuleTerm], names: Sequence[str | None], schema: Schema
) -> tuple[bytes, list[dict[str, Any]], Arrays]:
    """The rules in words (rules.yaml), under these names, their terms, and their points.

    Raises:
        UnsavableError: a rule of Python functions, or a term that is not the library's.
        FileError: a rule whose words do not read as the same rule.
    """
    values, arrays = [], {}
    for index, (term, name) in enumerate(zip(terms, names, strict=True)):
        if not term.rule.requirement.in_words:
            raise UnsavableError(
                f"Rule {index + 1} cannot be written to a file: its kind, such as Python functions, has no "
                "text that can be read back. Write it in words."
            )
        require_affordable(term.rule, index, len(term.points.coded), schema)
        record = TermValues(
            packed(term.term, TERM_KINDS, "term"),
            float(np.asarray(term.points.strength)),
            term.strength_is_free,
            term.reduction,
            term.sampler,
            term.drawn,
            term.corners,
            None if name == term.rule.name else term.rule.name,
        )
        values.append(exact(record))
        arrays[f"rules.{index}.points"] = np.asarray(term.points.coded, dtype=np.float64)
        arrays[f"rules.{index}.weights"] = np.asarray(term.points.weights, dtype=np.float64)
        if term.points.boxes is not None:
            arrays[f"rules.{index}.boxes"] = term.points.boxes.table
    renamed = [replace(term.rule, name=name) for term, name in zip(terms, names, strict=True)]
    try:
        return dump_rules(renamed, schema).encode() if renamed else NO_RULES, values, arrays
    except RuleError as error:
        raise FileError(f"The rules cannot be saved: {error}") from None
    except UnicodeEncodeError:
        raise FileError(
            "The rules cannot be saved: a name or text in them has half of a character (a lone surrogate), "
            "which no file can hold. Correct it."
        ) from None


def unpack_rules(content: bytes, values: Sequence[Any], schema: Schema) -> tuple[Constraint, ...]:
    """The rules of a rules.yaml, if there are as many as terms."""
    rules = () if content == NO_RULES else parse_rules(content, schema)
    if len(rules) != len(values):
        raise FileError(f"rules.yaml has {len(rules)} rules, but there are {len(values)} terms.")
    return rules


def term_shapes(declared: Mapping[str, Declared], rules: Sequence[Constraint], schema: Schema) -> Shapes:
    """The arrays of the rules' points: their number is free, the rest is not."""
    shapes: Shapes = {}
    for index, rule in enumerate(rules):
        points = declared.get(f"rules.{index}.points")
        width = len(schema.columns) + rule.requirement.coordinates
        if points is None or len(points.shape) != 2 or points.shape[1] != width:
            raise FileError(f"The points of rule {index + 1} are missing or of the wrong shape.")
        require_affordable(rule, index, points.shape[0], schema)
        shapes[f"rules.{index}.points"] = points.shape
        shapes[f"rules.{index}.weights"] = (1,) if rule.requirement.inputs is None else points.shape[:1]
        boxes = declared.get(f"rules.{index}.boxes")
        if boxes is not None:
            if (
                len(boxes.shape) != 2
                or boxes.shape[0] > BOXES
                or boxes.shape[1] != 1 + 2 * len(schema.columns)
            ):
                raise FileError(f"The boxes of rule {index + 1} are of the wrong shape.")
            shapes[f"rules.{index}.boxes"] = boxes.shape
    return shapes


def require_affordable(rule: Constraint, index: int, points: int, schema: Schema) -> None:
    """Refuse a rule that would take minutes to load: its points times the length of its text are the work.

    Raises:
        FileError: with the estimate and the limit.
    """
    length = len(rule.text(schema))
    if points * length > MOST_WORK:
        raise FileError(
            f"Rule {index + 1} has {points:,} points and a text of {length:,} characters: placing it takes "
            f"{points * length:,} steps, more than the limit of {MOST_WORK:,}. Score it at fewer points, or "
            "write it shorter."
        )


def unpack_terms(
    values: Sequence[Any],
    rules: Sequence[Constraint],
    schema: Schema,
    network: Network,
    arrays: Mapping[str, np.ndarray],
) -> tuple[RuleTerm, ...]:
    """The rules with their terms, points and boxes.

    Samplers that start from rows start from the points drawn for the rule: training rows are not in the file,
    and corners and points that a search has found are no rows one could meet.
    """
    terms = []
    for index, (each, rule) in enumerate(zip(values, rules, strict=True)):
        points, weights = arrays[f"rules.{index}.points"], arrays[f"rules.{index}.weights"]
        term = _unpack_term(each, rule, schema, points, weights)
        if f"rules.{index}.boxes" in arrays:
            term = term.to_be_proved(network)
            assert term.provable is not None
            boxes = term.provable.of_table(arrays[f"rules.{index}.boxes"])
            term = replace(term, points=term.points._replace(boxes=boxes))
        terms.append(term)
    return tuple(terms)


def _unpack_term(
    values: Any, rule: Constraint, schema: Schema, points: np.ndarray, weights: np.ndarray
) -> RuleTerm:
    known = restored(TermValues, values, "The term of a rule")
    if known.drawn + known.corners > len(points):
        raise FileError("A rule has fewer points than were drawn for it.")
    rule = rule if known.name is None else replace(rule, name=known.name)
    kind = unpacked(known.term, TERM_KINDS, "term of a rule")
    # Points are placed by a rule term, and a rule term needs points: begin with none.
    empty = RuleTerm(rule, schema, kind, None, known.reduction)  # type: ignore[arg-type]
    return replace(
        empty,
        points=empty.at(points, weights=weights, strength=known.strength),
        sampler=known.sampler,
        data=points[: known.drawn or None, : len(schema.columns)],
        drawn=known.drawn,
        corners=known.corners,
        strength_is_free=known.strength_is_free,
    )


def require_shapes(declared: Mapping[str, Declared], expected: Shapes) -> None:
    """Refuse arrays that are missing, superfluous or of another shape.

    Raises:
        FileError: with the first such array.
    """
    for name in sorted({*declared, *expected}):
        if name not in declared:
            raise FileError(f"The array {name!r} is missing.")
        shape = declared[name].shape
        if shape != expected.get(name):
            raise FileError(f"The array {name!r} has the shape {shape}, which fits nothing here.")
