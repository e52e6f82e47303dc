"""The settings files: every difference between the paper's text, its authors' code and us is a line of one.

A section is an experiment; its parts are options of what the library has:

    [fig1.model]         Model.build: points, reduction, corners, strength, noise, …
    [fig1.term]          how rules become densities: name, and options of the term
    [fig1.rules]         tolerance
    [fig1.engine]        name, and options of the engine
    [fig1.engines.svgd]  options of an engine wherever it is the one that is named
    [fig1.runs.svgd]     options of `infer` for that engine
    [fig1.run]           infer: chains, draws, thin, ess (draw until so many effective draws)
    [fig1.preparation]   warm (false: none), start (small, prior, base), searches, found, search (of a
                         strength; rounds, ratio, aim, effective, most), nodes
    [fig1.own]           numbers of the experiment itself
    [fig1.svgd.engine]   the same for one of several parts of an experiment
    [fig1.quick.run]     what a smoke run changes

`[common]` holds for all experiments.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from ocbnn.inference import ENGINES, Engine, Settings, StrengthSearch, WarmStart, ess
from ocbnn.model import TERMS, Term
from reproduce.outcome import PaperError, require_setting

PARTS = ("model", "term", "rules", "engine", "run", "preparation", "own")


@dataclass(frozen=True)
class Plan:
    """How a run is done.

    Attributes:
        model: options of `Model.build`.
        term: how rules become densities; None for each rule's default.
        tolerance: the violation accepted of every rule; each rule's own unless given.
        engine: with its settings.
        run: options of `infer`.
        preparation: what comes before the first draw.
        fixed_points: keep the points of rules as they are first drawn, as the paper does; engines on
            minibatches redraw them at every step otherwise.
        own: numbers of the experiment itself.
    """

    model: Mapping[str, Any]
    term: Term | None
    tolerance: float | None
    engine: Engine
    run: Mapping[str, Any]
    preparation: Settings
    fixed_points: bool
    own: Mapping[str, Any]


def plan(
    experiment: str,
    setting: str,
    *,
    quick: bool = False,
    part: str | Sequence[str] = (),
    engine: str | None = None,
) -> Plan:
    """The plan of an experiment, or of a part of it; later sections have the last word.

    Args:
        experiment: a section of the settings file.
        setting: which file.
        quick: with what smoke runs change.
        part: sections of the experiment, one after the other.
        engine: another engine than the one that is named there.
    """
    require_setting(setting)
    sections = _read(setting)
    if experiment not in sections:
        raise PaperError(f"The setting {setting!r} says nothing about {experiment!r}.")
    own = sections[experiment]
    layers = [sections.get("common", {}), own]
    for name in (part,) if isinstance(part, str) else part:
        if name not in own:
            raise PaperError(f"The setting {setting!r} says nothing about the part {name!r} of {experiment}.")
        layers.append(own[name])
    if quick:
        layers += [layer["quick"] for layer in tuple(layers) if "quick" in layer]
    named = [layer["engine"]["name"] for layer in layers if "name" in layer.get("engine", {})]
    chosen = engine or named[-1]
    merged: dict[str, dict[str, Any]] = {name: {} for name in PARTS}
    for layer in layers:
        for name in PARTS:
            if name != "engine":
                merged[name].update(layer.get(name, {}))
        merged["run"].update(layer.get("runs", {}).get(chosen, {}))
    return _plan({**merged, "engine": _engine_options(layers, chosen)})


def _engine_options(layers: Sequence[Mapping[str, Any]], chosen: str) -> dict[str, Any]:
    """Options of the chosen engine; those of another one mean nothing to it."""
    options: dict[str, Any] = {"name": chosen}
    for layer in layers:
        options.update(layer.get("engines", {}).get(chosen, {}))
        own = layer.get("engine", {})
        options.update(own if own.get("name", chosen) == chosen else {})
    return options


def _plan(options: Mapping[str, Mapping[str, Any]]) -> Plan:
    model, run = dict(options["model"]), dict(options["run"])
    fixed = bool(model.pop("fixed_points", False))
    most = run.pop("most_draws", 100_000)
    if "ess" in run:
        run["until"] = ess(run.pop("ess"), most=most)
    return Plan(
        model=model,
        term=_term(options["term"]),
        tolerance=options["rules"].get("tolerance"),
        engine=_engine(options["engine"]),
        run=run,
        preparation=_preparation(options["preparation"]),
        fixed_points=fixed,
        own=options["own"],
    )


def _term(options: Mapping[str, Any]) -> Term | None:
    if not options:
        return None
    settings = {key: tuple(v) if isinstance(v, list) else v for key, v in options.items() if key != "name"}
    return replace(TERMS[options["name"]], **settings)  # type: ignore[type-var]  # terms are dataclasses


def _engine(options: Mapping[str, Any]) -> Engine:
    settings = {key: value for key, value in options.items() if key != "name"}
    return ENGINES[options["name"]](**settings)


def _preparation(options: Mapping[str, Any]) -> Settings:
    given = dict(options)
    warm = given.pop("warm", True)
    search = given.pop("search", True)
    nodes = given.pop("nodes", True)
    start = given.pop("start", None)
    strength = {
        key: given.pop(key) for key in ("rounds", "ratio", "aim", "effective", "most") if key in given
    }
    return Settings(
        warm=WarmStart(**given) if warm else None,
        strength=StrengthSearch(**strength) if search else None,
        nodes=nodes,
        start=start,
    )


@cache
def _read(setting: str) -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / "settings" / f"{setting}.toml").read_text(encoding="utf-8"))
