"""Where a run is judged: inputs at which the networks' functions are compared, and words for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from ocbnn import regions
from ocbnn.errors import InferenceError
from ocbnn.model import Model
from ocbnn.schema import Schema
from ocbnn.seeds import seed_for

SHOWN_COLUMNS = 4
"""Columns of a probe that a sentence names."""


def probe_inputs(model: Model, count: int = 128, seed: int = 0) -> Float[np.ndarray, "count D"]:
    """Model inputs at which a run is judged: half of them rows, half points of the rules' regions.

    Where there are fewer rows than that, points of the observed ranges join them.
    """
    generator = np.random.default_rng(seed_for(seed, "probes", count))
    rules = model.rules
    parts = []
    for index, rule in enumerate(rules):
        share = (count // 2) // len(rules) + (index < (count // 2) % len(rules))
        coded = regions.sample(generator, rule.rule.region, rule.schema, rule.data, share, rule.sampler)
        parts.append(rule.schema.to_model(coded))
    rest = count - sum(map(len, parts))
    if model.data is not None:
        rows = np.asarray(model.data.inputs)
        chosen = generator.choice(len(rows), size=min(rest, len(rows)), replace=False)
        parts.append(rows[np.sort(chosen)])
        rest -= len(chosen)
    if rest and model.schema is not None:
        coded = regions.sample(generator, regions.Everywhere(), model.schema, None, rest)
        parts.append(model.schema.to_model(coded))
    if not sum(map(len, parts)):
        raise InferenceError(
            "The model has neither rows nor a schema, so nothing says at which inputs to judge a run; "
            "give it probes=…, model inputs (n, D)."
        )
    return np.concatenate(parts)


def probe_places(
    model: Model, probes: Float[np.ndarray, "probes D"], quantities: int, further: Sequence[str] = ()
) -> Callable[[int], str]:
    """The words for each quantity: its probe in raw units, and its class where there are several.

    The last quantities may be `further` ones, that have names.
    """
    schema = model.schema
    functions = quantities - len(further)
    each = max(functions // max(len(probes), 1), 1)

    def place(quantity: int) -> str:
        if quantity >= functions:
            return further[quantity - functions]
        probe, part = divmod(quantity, each)
        there = _raw_words(schema, probes[probe])
        if each == 1 or schema is None or schema.target is None:
            return there
        if not schema.target.classes:
            return f"{there} for the noise of {schema.target.name}" if part else there
        return f"{there} for {schema.target.name} = {schema.target.classes[part]}"

    return place


def _raw_words(schema: Schema | None, probe: Float[np.ndarray, " D"]) -> str:
    if schema is None:
        shown = ", ".join(f"{value:.3g}" for value in probe[:SHOWN_COLUMNS])
        return f"model input ({shown}{', …' if len(probe) > SHOWN_COLUMNS else ''})"
    row = schema.decode(schema.to_raw(np.asarray(probe, dtype=float)[None])).iloc[0]
    words = [
        f"{name} = {value:.3g}" if isinstance(value, float) else f"{name} = {value}"
        for name, value in list(row.items())[:SHOWN_COLUMNS]
    ]
    return ", ".join(words) + (", …" if len(row) > SHOWN_COLUMNS else "")
