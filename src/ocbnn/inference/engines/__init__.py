"""The table of engines, and which one suits a model.

A new engine is one file and one row here; the contract tests pick it up by themselves.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from ocbnn.errors import InferenceError
from ocbnn.inference.engines.base import Engine
from ocbnn.inference.engines.bbb import Bbb
from ocbnn.inference.engines.ensemble import Ensemble
from ocbnn.inference.engines.hmc import Hmc
from ocbnn.inference.engines.mclmc import Mclmc
from ocbnn.inference.engines.nuts import Nuts
from ocbnn.inference.engines.sgld import Sgld
from ocbnn.inference.engines.svgd import Svgd
from ocbnn.model import Model

ENGINES: dict[str, type[Engine]] = {
    "hmc": Hmc,
    "nuts": Nuts,
    "mclmc": Mclmc,
    "svgd": Svgd,
    "bbb": Bbb,
    "sgld": Sgld,
    "ensemble": Ensemble,
}

CHAINS = {"hmc": 8, "nuts": 4, "mclmc": 8, "svgd": 50, "bbb": 1, "sgld": 4, "ensemble": 20}
DRAWS = {"mclmc": 250}
"""Of each chain, where that is not 1,000: draws of mclmc have tens of steps between them."""

MOST_WORK = 2e6
"""Rows times weights, which a gradient of all rows costs: chains need some ten thousand of them, minutes."""
MOST_WEIGHTS = 5_000


@dataclass(frozen=True)
class UnknownEngine:
    """The engine of a saved model that this process does not have: code of its author's own."""

    name: str


def choose(engine: str | Engine, model: Model, *, along: bool = False) -> tuple[Engine, str]:
    """The engine asked for, or the one that suits the model's size, and why.

    Args:
        engine: a name, an engine, or "auto".
        model: whose size decides on "auto".
        along: whether draws are collected along chains until there are enough, which optimisers cannot.
    """
    if isinstance(engine, type):
        raise InferenceError(
            f"engine is {engine.__name__}, a class; give one with its settings: {engine.__name__}()."
        )
    if isinstance(engine, UnknownEngine):
        raise InferenceError(
            f"The model was fitted by the engine {engine.name!r}, which is code of its author's own and not "
            f"in the file. To fit again, set engine to it, or to one of {', '.join(ENGINES)}."
        )
    if not isinstance(engine, str | Engine):
        raise InferenceError(
            f'engine is "auto", one of {", ".join(ENGINES)}, or an engine with its settings, not {engine!r}.'
        )
    if not isinstance(engine, str):
        return engine, "given"
    if engine == "auto":
        return _suited(model, along)
    if engine not in ENGINES:
        close = difflib.get_close_matches(engine, ENGINES, 1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise InferenceError(f"There is no engine {engine!r}; choose one of {', '.join(ENGINES)}.{hint}")
    return ENGINES[engine](), "given"


def _suited(model: Model, along: bool) -> tuple[Engine, str]:
    rows = model.rows
    work = max(rows, 1) * model.size
    if model.stream is None and model.size <= MOST_WEIGHTS and work <= MOST_WORK:
        if along:
            return Hmc(), (
                f"hmc: {rows} rows and {model.size} weights are few enough for chains that are exact in the "
                "limit, and draws until an effective sample size are asked for"
            )
        return Mclmc(), (
            f"mclmc: {rows} rows and {model.size} weights are few enough for chains that see all rows"
        )
    if along:
        return Sgld(), (
            f"sgld: {rows} rows × {model.size} weights are too much for chains that see all rows, and draws "
            "until an effective sample size are asked for: its chains take minibatches and are approximate"
        )
    return Bbb(), (
        f"bbb: {rows} rows × {model.size} weights are too much for chains; a variational posterior takes "
        "minibatches"
    )


def default_draws(engine: Engine) -> int:
    """How many draws each chain keeps by default, or, of engines without chains, how many there are."""
    return DRAWS.get(engine.name, 1000)


def default_chains(engine: Engine) -> int:
    """How many chains, particles or networks an engine runs by default."""
    return CHAINS.get(engine.name, 4)
