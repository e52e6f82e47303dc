"""A record of what rules mean, to refactor against: texts, regions, margins, densities, verdicts, findings.

`python tests/golden/record.py` writes it again; a commit that changes structure must not need that.
"""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd

from ocbnn import Constraint, Model, OCBNNError, Schema, lint, parse_rule
from ocbnn.schema import Column, Target

HERE = Path(__file__).parent
X = Column("x", "continuous", (-2.0, 2.0))
Z = Column("z", "continuous", (-3.0, 3.0), center=0.5, scale=1.5, transform="standardize")
AGE = Column("age", "integer", (18.0, 90.0), bounds=(0.0, 120.0))
WARD = Column("ward", "category", (0.0, 2.0), levels=("ICU", "surgery", "long stay"))
VENT = Column("vent", "binary", (0.0, 1.0))
SKILL = Column("skill", "continuous", (0.0, 1.0), bounds=(0.0, 1.0))
LACTATE = Column("lactate", "continuous", (0.5, 8.0), bounds=(0.0, np.inf), transform="log", scale=0.7)
Y = Target("y", "regression", center=1.0, scale=2.0, observed=(-3.0, 5.0))
RAW = Target("y", "regression", center=0.0, scale=1.0, observed=(-3.0, 5.0))
ACTION = Target("action", "classification", classes=(0, 1))
LABEL = Target("label", "classification", classes=("blue", "green", "red"))

NUMBERS = (
    "always y >= 0",
    "always y < 3",
    "always 1 <= y <= 2",
    "always not 1 <= y <= 2",
    "always y <= -1 or y >= 1",
    "always not (y < 0 or 1 < y < 2 or y > 4)",
    "always y = 2",
    "always y = 2 within 0.3",
    "always y = 2 (0.7) or y = 3 (0.3)",
    "always y in {0, 1, 2}",
    "always y = 1 within 0.5 or y > 3",
    "always not y = 2 within 0.5",
    "always y ~ Normal(1, 0.5)",
    "always y ~ Normal(0, 0.5) (0.3) or y ~ Normal(2, 0.2) (0.7)",
)
ON_X = (
    "if -0.3 <= x <= 0.3 then 2.5 <= y <= 3",
    "if x > 1 then y >= x",
    "if x < 0 or x > 1 then y <= 2 * x + 1",
    "if x != 0 then y >= -1",
    "if 0 < x < 1 then x - 1 <= y <= x + 1",
    "always x * y >= 0",
    "if x > 0 then y = x ^ 2 within 0.5",
    "if x > 0 then y = x (0.2) or y = -x (0.8)",
    "if x > 0 then y ~ Normal(2 * x, 0.1 + x)",
    "if x in {0, 1} then y > 0",
    "if not (x > 0 and x < 1) then y <= 4",
    "if abs(x) > 1 then y >= abs(x)",
    "if x ^ 2 < 1 then y <= 3",
    "if x > 0 then y >= 1 or y <= -x",
)
MIXED = (
    "if age > 60 then y >= 1",
    "if age >= 60 and ward = ICU then y <= 3",
    "if ward in {ICU, surgery} or vent = 1 then 0 <= y <= 2",
    "if x + z > 1 then y >= 0",
    "if x + 2 * z <= 1 and age < 50 then y <= z",
    "if x * z > 0.5 then y >= 0",
    "if age in {20, 30, 40} then y = 1 within 0.2",
    "if ward != 'long stay' then y ~ Normal(z, 1)",
    "if vent = 0 and x > z then y < 4",
    "if not ward = ICU then y >= age / 100",
)
TWO = (
    "always action = 1",
    "if {a} > 1 then action = 1",
    "if {a} > 1 then action != 1",
    "if {a} < 1 then P(action = 1) >= 0.9",
    "if {a} < 1 then P(action = 1) <= 0.3 or P(action = 1) >= 0.8",
    "if {a} > 1 then 0.2 <= P(action = 0) <= 0.4",
    "if {a} > 1 then not P(action = 1) < 0.5",
    "always P(action = 1) = 0.7",
    "if {a} > 1 then P(action = 1) = 0.5 within 0.1",
    "if {a} > 1 then action ~ Bernoulli(0.3)",
    "always action ~ Bernoulli({a} / 10)",
    "if {a} > 1 then P(action = 1) = {a} / 10",
    "if {a} > 1 then P(action = 1) >= {a} / 10",
    "if {a} > 1 and {a} < 2 then action in {{1}}",
)
THREE = (
    "always label = green",
    "always label in {blue, green}",
    "if x > 0 then label != red",
    "if x > 0 then not label in {blue, green}",
    "if x > 0 then P(label = red) >= 0.8",
    "always P(label in {blue, green}) <= 0.25",
    "always 0.3 <= P(label = blue) <= 0.4",
    "if x < 0 then P(label in {green, red}) = 0.6",
    "if x < 0 then label ~ Categorical(blue: 0.2, green: 0.5, red: 0.3)",
    "if x > 0 then P(label = red) <= x",
    "if x > 1 then label = red or label = blue",
    "if -1 < x < 1 then P(label = blue) = 0.5 within 0.2",
    "if x > 0 and x < 1 then label ~ Categorical(blue: x, green: 1 - x, red: 0)",
)
CLINIC = (
    *(text.format(a="lactate") for text in TWO),
    "if age > 60 and lactate > 4 then action = 1",
    "if ward = ICU or lactate > 6 then P(action = 1) >= 0.8",
    "if age + 10 * lactate > 100 then action = 1",
    "if vent = 1 then P(action = 1) = age / 120",
)


def _above(x: dict[str, Any], y: Any) -> Any:
    return 1.0 - y + 0.5 * x["x"]


def _below(x: dict[str, Any], y: Any) -> Any:
    return y * y - 4.0


def _first_class(x: dict[str, Any], y: Any) -> Any:
    return 0.4 - y[..., 0]


def _functions(schema: Schema) -> list[Constraint]:
    region = parse_rule(f"if x > 0 then {_anything(schema)}", schema).region
    if schema.target is not None and schema.target.classes:
        return [Constraint.from_functions(region, _first_class)]
    return [
        Constraint.from_functions(region, [_above, _below]),
        Constraint.from_functions(region, [_above, _below], negative=True),
    ]


def _anything(schema: Schema) -> str:
    assert schema.target is not None
    return f"{schema.target.name} = {schema.target.classes[0]}" if schema.target.classes else "y > 0"


MODELS: dict[str, tuple[Schema, tuple[str, ...], dict[str, Any]]] = {
    "line": (Schema((X,), Y), NUMBERS + ON_X, {"hidden": (5,), "noise": 0.3}),
    "raw line": (Schema((X,), RAW), NUMBERS + ON_X, {"hidden": (5,), "reduction": "sum"}),
    "deep": (Schema((X,), Y), NUMBERS[:6] + ON_X, {"hidden": (4, 4), "activation": "tanh"}),
    "mixed": (Schema((X, Z, AGE, WARD, VENT), Y), MIXED + ON_X, {"hidden": (5,), "noise": 1.0}),
    "wide": (Schema((X, Z, AGE, WARD, VENT), Y), NUMBERS + MIXED, {"hidden": (3, 3), "activation": "relu"}),
    "action": (Schema((X, LACTATE), ACTION), tuple(t.format(a="lactate") for t in TWO), {"hidden": (4,)}),
    "skill": (Schema((X, SKILL), ACTION), tuple(t.format(a="skill") for t in TWO), {"hidden": (4,)}),
    "clinic": (Schema((X, LACTATE, AGE, WARD, VENT), ACTION), CLINIC, {"hidden": (4,), "activation": "tanh"}),
    "colours": (Schema((X,), LABEL), THREE, {"hidden": (4,)}),
    "colours wide": (Schema((X, Z, WARD), LABEL), THREE, {"hidden": (4, 3), "corners": True}),
}
TERMS = {
    "regression": ("negative-exponential", "distance", "gaussian-mixture"),
    "classification": ("dirichlet", "distance", "target-probability"),
}
WRONG = (
    "y > 0",
    "if x > 0",
    "if x > 0 then",
    "always y",
    "always y > ",
    "if x then y > 0",
    "always y * y > 1",
    "if x > 0 then z > 1",
    "always w > 0",
    "if w > 0 then y > 0",
    "always y = 2 within -1",
    "always y != 2",
    "always y in {}",
    "always P(y = 1) > 0.5",
    "always y = 2 (0.7) or y = 3 (-0.3)",
    "always y ~ Normal(1, 0)",
    "always y ~ Normal(1)",
    "always y ~ Gamma(1, 2)",
    "always y ~ Bernoulli(0.5)",
    "always 1 < 2",
    "if x > 0 then x > 1",
    "always y > 0 and",
    "if (x > 0 then y > 0",
    "always y == 2",
    "always y > 1e400",
    "if x > 0 then y > 0 else y < 0",
    "always (y > 0",
    "if 1 < x then y > z",
    "always y between 3 and 4",
    "never y < 0",
    "if x is above 3 then y > 0",
    "if x > 3 mg then y > 0",
    "always not y = 2",
    "always y = 2 within 0.1 within 0.2",
    "always y = 2 (0.5) within 0.3 or y > 3",
    "if x > 0 then y = green",
)
WRONG_CLASSES = (
    "always label > 1",
    "always label = yellow",
    "always label in {blue, green, red}",
    "always label = x",
    "always P(label = blue) > 2",
    "always P(label = blue) >= 0.5 and P(label = red) <= 0.2",
    "always label ~ Normal(0, 1)",
    "always label ~ Categorical(blue: 0.5)",
    "always P(label = 3) > 0.5",
    "always label = blue within 0.1",
    "always label ~ Categorical(blue: 0.5, green: 0.6, red: 0.1)",
    "always label = blue and label = red",
    "always P(label = blue) != 0.5",
    "if x > 0 then label",
)


def digest(array: Any) -> str:
    """A short hash of numbers up to rounding."""
    rounded = np.round(np.asarray(array, dtype=float), 9) + 0.0
    return hashlib.sha256(np.ascontiguousarray(rounded).tobytes()).hexdigest()[:16]


def record(name: str) -> dict[str, Any]:
    """Everything of one model."""
    schema, texts, options = MODELS[name]
    rules: list[Any] = [parse_rule(text, schema) for text in texts]
    rules += _functions(schema) if "x" in schema.names else []
    found = {f"{i} {rule.text(schema)}": of_rule(rule, schema, options) for i, rule in enumerate(rules)}
    together = [str(finding) for finding in lint(rules, schema)]
    wrong = WRONG if not (schema.target and schema.target.classes) else WRONG_CLASSES
    return {"rules": found, "lint": together, "errors": {text: _error(text, schema) for text in wrong}}


def of_rule(rule: Constraint, schema: Schema, options: dict[str, Any]) -> dict[str, Any]:
    """Everything of one rule under one model."""
    generator = np.random.default_rng(0)
    result: dict[str, Any] = {"text": rule.text(schema), "region": rule.region.text()}
    result["findings"] = [str(finding) for finding in lint([rule], schema)]
    result["against data"] = _against_data(rule, schema)
    model = _tried(lambda: Model.build(schema=schema, rules=[rule], points=12, **options))
    if isinstance(model, str):
        return result | {"model": model}
    term = model.terms[0]
    fresh = term.fresh(40, 1)
    result["points"] = digest(term.points.coded)
    result["fresh"] = digest(fresh)
    result["everywhere"] = int(rule.region.contains(_grid(schema), schema).sum())
    result["margins"] = _margins(rule, schema, fresh[:5], generator)
    result["density"] = _density(model, generator)
    result["strength"] = float(term.points.strength)
    for other in TERMS[schema.target.task if schema.target else "regression"]:
        result[f"density {other}"] = _other_term(rule, schema, options, other)
    result["checked"] = _checked(model)
    return result


def _against_data(rule: Constraint, schema: Schema) -> list[str]:
    frame = schema.decode(_grid(schema)[:120])
    assert schema.target is not None
    generator = np.random.default_rng(3)
    if schema.target.classes:
        frame[schema.target.name] = generator.choice(np.asarray(schema.target.classes), len(frame))
    else:
        frame[schema.target.name] = generator.normal(1.0, 2.0, len(frame))
    return [str(finding) for finding in lint([rule], schema, pd.DataFrame(frame))]


def _grid(schema: Schema) -> np.ndarray:
    generator = np.random.default_rng(5)
    columns = []
    for column in schema.columns:
        low, high = column.observed
        values = generator.uniform(low, high, 300)
        columns.append(values if column.kind == "continuous" else np.round(values))
    return np.stack(columns, axis=1)


def _outputs(schema: Schema, points: int, generator: np.random.Generator) -> np.ndarray:
    assert schema.target is not None
    if schema.target.classes:
        return generator.dirichlet(np.ones(len(schema.target.classes)), (4, points))
    return generator.normal(1.0, 2.0, (6, points))


def _margins(
    rule: Constraint, schema: Schema, coded: np.ndarray, generator: np.random.Generator
) -> list[float] | str:
    outputs = _outputs(schema, len(coded), generator)
    found = _tried(lambda: rule.requirement.margin(rule.demand(coded, schema), outputs))
    return found if isinstance(found, str) else _numbers(found)


def _density(model: Model, generator: np.random.Generator) -> list[float]:
    w = generator.normal(0.0, 1.0, model.size)
    with jax.enable_x64(True):
        value, gradient = jax.value_and_grad(model.log_density)(jax.numpy.asarray(w))
    gradient = np.asarray(gradient)
    return [float(value), float(np.linalg.norm(gradient)), *_numbers(gradient[:4])]


def _other_term(rule: Constraint, schema: Schema, options: dict[str, Any], term: str) -> list[float] | str:
    def built() -> Any:
        model = Model.build(schema=schema, rules=[rule], points=12, term=term, **options)
        return _density(model, np.random.default_rng(1))

    return _tried(built)


def _checked(model: Model) -> dict[str, Any]:
    """Verdict and figures on draws of a known cloud, without the search by ascent."""
    from ocbnn.checking.check import check_rules
    from ocbnn.posterior.draws import Posterior
    from ocbnn.posterior.enforce import reject, truncate

    draws = 0.7 * np.random.default_rng(2).normal(size=(2, 40, model.size))
    posterior = Posterior(draws, model, {"chains": True})
    (found,) = check_rules(posterior, points=60, key=3, ascent=False)
    result: dict[str, Any] = {"verdict": found.verdict, "tolerance": found.tolerance, "points": found.points}
    for label in ("epsilon_mean", "epsilon_worst", "draws_violating", "points_violating", "mass_outside"):
        figure = getattr(found, label)
        result[label] = None if figure is None else _numbers(figure)
    result["divergences"] = {
        label: [*_numbers(each.mean), float(each.worst)] for label, each in found.divergences.items()
    }
    result["worst"] = {label: str(value) for label, value in found.worst_point.items()}
    rejection = _tried(lambda: reject(posterior, points=60, key=3, ascent=False))
    result["rejected"] = rejection if isinstance(rejection, str) else list(rejection.by_rule.values())
    rows = _grid(model.schema)[:6]  # type: ignore[arg-type]
    predicted = _tried(lambda: truncate(posterior).predict(rows, coverage=None))
    if isinstance(predicted, str):
        return result | {"truncated": predicted}
    shown = predicted.probabilities if predicted.probabilities is not None else predicted.point
    return result | {"truncated": _numbers(shown)}


def _tried(make: Any) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return make()
        except OCBNNError as error:
            return f"{type(error).__name__}: {error}"


def _error(text: str, schema: Schema) -> str:
    found = _tried(lambda: parse_rule(text, schema))
    return found if isinstance(found, str) else f"parsed: {found.text(schema)}"


def _numbers(values: Any) -> list[float]:
    return [float(value) for value in np.asarray(values, dtype=float).ravel()]


def path(name: str) -> Path:
    return HERE / f"{name.replace(' ', '_')}.json"


if __name__ == "__main__":
    for each in sys.argv[1:] or MODELS:
        path(each).write_text(json.dumps(record(each), indent=0, ensure_ascii=False) + "\n")
