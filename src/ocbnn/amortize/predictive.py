"""The predictive of Φ_W(x), W ~ N(μ, σ²), as equally weighted Gaussians: one, or one for each sample.

| function | Gaussians | exact |
| --- | --- | --- |
| `linearized` | one: N(Φ_μ(x), gᵀ(σ² · g)), g = ∇_w Φ_w(x) at μ (paper, appendix B) | as σ → 0 |
| `sampled`, an `MLP` | one for each sample of hidden layers; given those, outputs are Gaussian | always |
| `sampled`, jointly | one for each draw of w, of no variance | always, of all inputs together |

Most rules speak of one input at a time. For these, `sampled` draws the hidden layers at each input on their
own: given a layer's values, the next pre-activations are independent Gaussians. A rule that compares inputs
needs the same w at all of them: `jointly`. Networks other than `MLP` are always sampled so.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ocbnn.model.networks import ACTIVATIONS, MLP, Network

SMALLEST_VARIANCE = 1e-12
"""Where an output is certain, a square root would have no gradient."""


class Predictive(NamedTuple):
    """Equally weighted Gaussians at each of T inputs, for each of k outputs, independent of one another."""

    mean: Float[Array, "S T k"]
    variance: Float[Array, "S T k"]

    def with_noise(self, noise: float) -> Predictive:
        """The predictive of an observation: σ_ε² is added, the square of the noise (errata D1)."""
        return self._replace(variance=self.variance + noise * noise)

    def draws(self, key: Array) -> Float[Array, "S T k"]:
        """One draw of the outputs from each Gaussian."""
        noise = jax.random.normal(key, self.mean.shape, self.mean.dtype)
        return self.mean + jnp.sqrt(self.variance + SMALLEST_VARIANCE) * noise


def linearized(
    network: Network, mean: Float[Array, " size"], sd: Float[Array, " size"], inputs: Float[Array, "T D"]
) -> Predictive:
    """N(Φ_μ(x), gᵀ(σ² · g)): the first-order expansion at μ, of mean Φ_μ(x) and not gᵀμ (errata D2).

    Gradients are (T, size); nothing of size × size exists (errata D6). μ's own gradient goes through g, too
    (errata D3).
    """

    def output(w: Array, x: Array) -> Array:
        return network.apply(w, x[None])[0, 0]

    value, g = jax.vmap(jax.value_and_grad(output), in_axes=(None, 0))(mean, inputs)
    return Predictive(value[None, :, None], ((g * g) @ (sd * sd))[None, :, None])


def sampled(
    network: Network,
    mean: Float[Array, " size"],
    sd: Float[Array, " size"],
    inputs: Float[Array, "T D"],
    key: Array,
    samples: int,
    *,
    jointly: bool = False,
) -> Predictive:
    """Reparameterised Monte Carlo: samples of everything but an MLP's last layer, which is integrated out.

    `jointly`: outputs of the same draws of w at all inputs, without variance; so for other networks too.
    """
    if jointly or not isinstance(network, MLP) or not network.plain:
        draws = mean + sd * jax.random.normal(key, (samples, mean.size), mean.dtype)
        outputs = jax.lax.map(lambda w: network.apply(w, inputs), draws)
        return Predictive(outputs, jnp.zeros_like(outputs))
    nonlinearity = ACTIVATIONS[network.activation].function
    means, variances = network.unravel(mean), network.unravel(sd * sd)
    values = jnp.broadcast_to(inputs, (samples, *inputs.shape)).reshape(-1, inputs.shape[-1])
    for number, ((weights, biases), (spread, bias_spread)) in enumerate(zip(means, variances, strict=True)):
        centre = values @ weights + biases
        variance = (values * values) @ spread + bias_spread
        if number < len(means) - 1:
            noise = jax.random.normal(jax.random.fold_in(key, number), centre.shape, centre.dtype)
            values = nonlinearity(centre + jnp.sqrt(variance + SMALLEST_VARIANCE) * noise)
    shape = (samples, len(inputs), network.outputs)
    return Predictive(centre.reshape(shape), variance.reshape(shape))
