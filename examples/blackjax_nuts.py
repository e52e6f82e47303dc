"""A rule in a sentence, a posterior with BlackJAX's NUTS: the model is a log-density, nothing more.

Run it with `python examples/blackjax_nuts.py`. The data of the paper's Figure 1 leave the middle open; the
rule says what is known there. NumPyro takes the same as `NUTS(potential_fn=lambda w: -model.log_density(w))`.
"""

from __future__ import annotations

from typing import Any

import blackjax
import jax
import numpy as np
import optax
import pandas as pd

from ocbnn.model import Model

RULE = "if -0.3 <= x <= 0.3 then 2.5 <= y <= 3"


def build() -> Model:
    """Figure 1's six rows, ten units, and one rule in raw units."""
    x = np.array([-2.0, -1.8, -1.0, 1.0, 1.8, 2.0])
    frame = pd.DataFrame({"x": x, "y": -(x**4) + 3 * x**2 + 1})
    return Model.build(frame=frame, target="y", rules=[RULE], noise=0.1, strength=1000.0)


def warm_start(model: Model, key: jax.Array, steps: int = 1000) -> jax.Array:
    """Weights of high density: rules are stiff, and a chain that starts far away would crawl."""
    optimiser = optax.adam(0.02)
    gradient = jax.grad(lambda w: -model.log_density(w))

    def step(carry: tuple[jax.Array, Any], _: None) -> tuple[tuple[jax.Array, Any], None]:
        w, state = carry
        update, state = optimiser.update(gradient(w), state)
        return (w + update, state), None

    w = model.initial(key)
    (w, _), _ = jax.lax.scan(step, (w, optimiser.init(w)), length=steps)
    return w


def sample(model: Model, *, draws: int = 500, step_size: float = 0.005, seed: int = 0) -> jax.Array:
    """One chain of NUTS, `(draws, model.size)`; `blackjax.window_adaptation` would tune its step size."""
    start, run = jax.random.split(jax.random.key(seed))
    kernel = blackjax.nuts(model.log_density, step_size, np.ones(model.size))

    def step(state: Any, key: jax.Array) -> tuple[Any, jax.Array]:
        state, _ = kernel.step(key, state)
        return state, state.position

    _, positions = jax.lax.scan(step, kernel.init(warm_start(model, start)), jax.random.split(run, draws))
    return positions


def share_obeying(model: Model, positions: jax.Array) -> float:
    """Share of draws and points, across the region, at which the rule holds."""
    assert model.schema is not None
    target = model.schema.target
    assert target is not None
    x = model.schema.to_model(np.linspace(-0.3, 0.3, 21)[:, None])
    y = target.to_raw(jax.vmap(lambda w: model.function(w, x))(positions))
    return float(np.mean((y >= 2.5) & (y <= 3.0)))


def main(draws: int = 500) -> float:
    """Sample, and say how far the draws obey."""
    with jax.enable_x64(True):
        model = build()
        share = share_obeying(model, sample(model, draws=draws))
    print(f"`{RULE}` holds at {share:.1%} of draws and points")
    return share


if __name__ == "__main__":
    main()
