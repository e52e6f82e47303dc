"""Compiled programs are shared by what lowers to the same text, and by nothing else."""

import jax
import jax.numpy as jnp
import numpy as np

from ocbnn.inference.density import density_of, fixed_context
from ocbnn.model.programs import compiled
from small_runs import figure_1b

MANY = np.random.default_rng(0).normal(size=5000).astype(np.float32)


def total(weights):
    return compiled(jax.jit(lambda x: jnp.sum(x * weights)).lower(jnp.ones(5000)))


def test_programs_that_differ_in_one_of_many_constants_are_two():
    other = MANY.copy()
    other[4321] += 1.0
    assert total(MANY) is total(MANY.copy())
    assert total(other) is not total(MANY)
    assert float(total(other)(jnp.ones(5000)) - total(MANY)(jnp.ones(5000))) > 0.9


def log_density(density, w, context):
    return density.log_density(w, context)


def test_two_models_of_one_shape_share_their_programs_and_one_of_other_noise_does_not():

    def program(**changes):
        model = figure_1b(**changes)
        return density_of(model).compiled(log_density, (), jnp.zeros(model.size), fixed_context(model))

    assert program() is program()
    assert program(noise=0.2) is not program()
