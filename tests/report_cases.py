"""Posteriors set by hand, with and without rules, and rows: what reports and pictures are tried on."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from ocbnn.model import Model
from ocbnn.posterior.draws import Posterior
from ocbnn.rules.parse import parse_rule
from ocbnn.schema import Column, Schema, Target
from posterior_cases import class_constants, lines

NASTY = "<script>alert(1)</script>"
SHAPE = (4, 30)


class Case(NamedTuple):
    posterior: Posterior
    without: Posterior | None
    frame: pd.DataFrame | None


def numbers() -> Case:
    """Lines of slope 0.5 that keep `y <= 3` and break `y >= 1`; without rules of slope 2; 120 rows."""
    generator = np.random.default_rng(0)
    slope, intercept = generator.normal(0.0, 0.05, (2, *SHAPE))
    rules = ["if x > 1 then y <= 3", "if -1 <= x <= 0 then y >= 1"]
    x = generator.uniform(-2, 2, 120)
    frame = pd.DataFrame({"x": x, "y": 1 + 0.5 * x + 0.3 * generator.normal(size=120)})
    return Case(lines(0.5 + slope, 1 + intercept, rules), lines(2 + slope, 1 + intercept), frame)


def classes() -> Case:
    """Three classes with the same probabilities everywhere, a class rule and a bound on a probability."""
    generator = np.random.default_rng(1)
    rules = ["if x > 1 then label in {blue, green}", "if site = north then P(label = red) <= 0.5"]
    frame = pd.DataFrame(
        {
            "x": generator.uniform(-2, 2, 60),
            "site": generator.choice(["north", "south"], 60),
            "label": generator.choice(["blue", "green", "red"], 60, p=[0.6, 0.3, 0.1]),
        }
    )
    posterior = class_constants(generator.dirichlet([12, 6, 2], SHAPE), rules)
    return Case(posterior, class_constants(generator.dirichlet([6, 6, 6], SHAPE)), frame)


def no_rules() -> Case:
    generator = np.random.default_rng(2)
    return Case(lines(*generator.normal(1.0, 0.1, (2, *SHAPE))), None, None)


def alone() -> Case:
    """Rules, and nothing to compare with."""
    return Case(numbers().posterior, None, None)


def unsettled() -> Case:
    """A run that did not converge, and says which rule it could not keep."""
    case = numbers()
    provenance = {
        **case.posterior.provenance,
        "engine": "hmc",
        "status": "not converged: chain 2 of 4 disagrees at x = 1 (R-hat 1.300); run longer or more chains",
        "converged": False,
        "diagnostics": {"checked": "R-hat and effective draws of 4 chains", "worst_rhat": 1.3},
        "divergences": [0, 3, 0, 0],
        "seconds": {"sample": 12.0},
        "versions": {"ocbnn": "0"},
        "settings": {"warmup": 50},
        "unmet": [
            {"name": "if -1 <= x <= 0 then y >= 1", "violation": 0.5, "reason": "the data stand against it"}
        ],
    }
    return case._replace(posterior=replace(case.posterior, provenance=provenance))


def frozen() -> Case:
    """Chains that never move, each at a line of its own."""
    slope, intercept = (
        np.repeat(np.linspace(low, low + 1, SHAPE[0])[:, None], SHAPE[1], 1) for low in (0, 1)
    )
    return Case(lines(slope, intercept, ["if x > 1 then y <= 3"]), None, None)


REFUSED = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]"


def odd(name: str, text: str) -> Case:
    """Names that a user may choose: `name` of a column and of the target, `text` of everything else."""
    label = re.sub(REFUSED, "?", text)  # a schema refuses such labels; rules and units may hold them
    columns = (
        Column("x", "continuous", (-2.0, 2.0), unit=text),
        Column(name, "category", (0.0, 1.0), levels=(label, "b")),
    )
    schema = Schema(columns, Target(f"t{name}", "classification", (label, "yes"), unit=text))
    rule = parse_rule("if x > 1 then y = yes", schema, name=text, source=text, reason=text)
    known = {"chains": True, "status": text, "converged": True, "engine": text, "settings": {text: text}}
    models = [Model.build(schema=schema, hidden=(), rules=rules) for rules in ([rule], [])]
    draws = 0.2 * np.random.default_rng(3).normal(size=(2, 10, models[0].size))
    frame = pd.DataFrame(
        {"x": np.linspace(-2, 2, 20), name: [label, "b"] * 10, f"t{name}": [label, "yes"] * 10}
    )
    return Case(Posterior(draws, models[0], known), Posterior(draws - 0.5, models[1], known), frame)


def nasty() -> Case:
    """Every name that a user can choose is markup: of columns, levels, classes, target, units, rules."""
    columns = (
        Column(NASTY, "continuous", (-2.0, 2.0), unit="<b>mg</b>"),
        Column("plain & <i>", "category", (0.0, 1.0), levels=(f"a{NASTY}", "b")),
    )
    schema = Schema(columns, Target(f"t{NASTY}", "classification", (f"no{NASTY}", f"yes{NASTY}")))
    rule = parse_rule(
        f"if `{NASTY}` > 1 then y = 'yes{NASTY}'",
        schema,
        name=f"rule {NASTY}",
        source=f"book {NASTY}",
        reason=f"because {NASTY} $x_1$ $",
    )
    model = Model.build(schema=schema, hidden=(), rules=[rule])
    draws = 0.2 * np.random.default_rng(3).normal(size=(*SHAPE, model.size))
    known = {"chains": True, "status": f"settled {NASTY}", "converged": True, "engine": NASTY}
    bare = Model.build(schema=schema, hidden=())
    frame = pd.DataFrame(
        {
            NASTY: np.linspace(-2, 2, 40),
            "plain & <i>": [f"a{NASTY}", "b"] * 20,
            f"t{NASTY}": [f"no{NASTY}"] * 20 + [f"yes{NASTY}"] * 20,
        }
    )
    return Case(Posterior(draws, model, known), Posterior(draws - 0.5, bare, known), frame)


CASES = {
    "numbers": numbers,
    "classes": classes,
    "no rules": no_rules,
    "alone": alone,
    "unsettled": unsettled,
    "frozen": frozen,
    "nasty": nasty,
}
