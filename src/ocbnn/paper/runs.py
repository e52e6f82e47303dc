"""One run: from a plan, rows and rules to a posterior, its figures, and a folder that `ocbnn.load` opens."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from ocbnn.amortize import AmortizedPrior, Learning
from ocbnn.checking.check import Rule, check_rules
from ocbnn.checking.convergence import mixing
from ocbnn.errors import OCBNNWarning
from ocbnn.estimators.files import save_posterior
from ocbnn.inference import infer
from ocbnn.inference.result import Result
from ocbnn.model.model import Model, unstandardized
from ocbnn.paper.plans import Plan
from ocbnn.paper.watching import one_fit
from ocbnn.posterior.draws import Posterior, Table, as_coded, function_draws
from ocbnn.rules.parse import parse_rule
from ocbnn.schema import Schema

SATISFACTION = ("epsilon_mean", "epsilon_worst", "draws_violating", "points_violating")


def build(
    plan: Plan,
    frame: pd.DataFrame,
    rules: Sequence[str] = (),
    *,
    seed: int,
    schema: Schema | None = None,
    **changes: Any,
) -> Model:
    """The plan's model of a table whose target is the column `y`; `changes` are options of `Model.build`."""
    schema = schema or Schema.infer(frame, target="y")
    said = [parse_rule(rule, schema, tolerance=plan.tolerance) for rule in rules]
    options: dict[str, Any] = {"frame": frame, "schema": schema, "key": seed, **plan.model}
    if not said:
        options.pop("strength", None)
    model = Model.build(**{**options, "rules": said, "term": plan.term if said else None, **changes})
    # Engines on minibatches redraw as many points as `drawn` says.
    return model.with_terms([replace(rule, drawn=0) for rule in model.terms]) if plan.fixed_points else model


def run(
    plan: Plan,
    frame: pd.DataFrame,
    rules: Sequence[str] = (),
    *,
    seed: int,
    probes: pd.DataFrame | None = None,
    **changes: Any,
) -> Posterior:
    """Draws of the plan's posterior.

    Args:
        plan: options of model, engine and run.
        frame: rows with the target `y`.
        rules: in words.
        seed: of points and draws.
        probes: raw rows at which convergence is judged.
        changes: options of `Model.build`, such as `prior_only=True`.
    """
    model = build(plan, frame, rules, seed=seed, **changes)
    options = dict(plan.run)
    if probes is not None:
        assert model.schema is not None
        options["probes"] = model.schema.to_model(model.schema.encode(probes))
    return Posterior.from_result(drawn(model, plan, seed=seed, **options))


def drawn(model: Model, plan: Plan, *, seed: int, **options: Any) -> Result:
    """Draws of a model by the plan's engine, as one of the fits that are counted.

    Raises:
        KeyboardInterrupt: Ctrl-C, also where some draws were there: figures are of whole runs.
    """
    with one_fit() as progress:
        result = infer(
            model, plan.engine, seed=seed, prepare_with=plan.preparation, progress=progress, **options
        )
    if not result.complete:
        raise KeyboardInterrupt
    return result


def save(out: Path, experiment: str, posteriors: Mapping[str, Posterior]) -> None:
    """Every run as a saved model, `out/<experiment>/<run>/`."""
    for name, posterior in posteriors.items():
        folder = out / experiment / name
        folder.parent.mkdir(parents=True, exist_ok=True)
        save_posterior(folder, posterior)


def learnt_prior(
    plan: Plan, rules: Sequence[str], schema: Schema, *, seed: int, data: pd.DataFrame | None = None
) -> AmortizedPrior:
    """The amortized prior of these rules for the plan's network, in raw units as everything of the paper's.

    Options are the plan's own numbers: `objective`, `observation`, `noise`, `divergence`, `concentration`,
    and of learning `paper_steps` (the paper's early stopping) and `initial_scale`, or `steps`, `starts`.
    """
    own = plan.own
    raw = unstandardized(schema)
    if "paper_steps" in own:
        learning = Learning.paper(int(own["paper_steps"]), own.get("initial_scale", 1.0))
    else:
        learning = Learning(**{name: own[name] for name in ("steps", "starts") if name in own})
    options = {
        name: own[name]
        for name in ("objective", "observation", "divergence", "concentration", "sampler")
        if name in own
    }
    with warnings.catch_warnings(), one_fit():
        # The paper's way does not keep its rules, which the figures show; its warnings are for users.
        warnings.simplefilter("ignore", OCBNNWarning)
        return AmortizedPrior.learn(
            [parse_rule(rule, raw, tolerance=plan.tolerance) for rule in rules],
            raw,
            hidden=plan.model["hidden"],
            activation=plan.model["activation"],
            noise=own.get("noise", plan.model.get("noise")),
            data=data,
            learning=learning,
            seed=seed,
            **options,
        )


def under_learnt_prior(
    plan: Plan, prior: AmortizedPrior, frame: pd.DataFrame, schema: Schema, probes: pd.DataFrame, *, seed: int
) -> dict[str, Posterior]:
    """The rows without a rule, the rows under a prior that has learnt it, and that prior by itself."""
    common: dict[str, Any] = {"seed": seed, "probes": probes}
    learnt: dict[str, Any] = {**common, "schema": prior.schema, "base": prior}
    return {
        "baseline": run(plan, frame, schema=schema, **common),
        "ocbnn": run(plan, frame, **learnt),
        "prior": run(plan, frame, prior_only=True, **learnt),
    }


def learnt_prior_figures(
    drawn: Mapping[str, Posterior],
    rule: str,
    frame: pd.DataFrame,
    probes: pd.DataFrame,
    own: Callable[[Posterior], Mapping[str, float | None]],
    *,
    seed: int,
) -> dict[str, dict[str, float | None]]:
    """Of each run: how well it mixed, keeps the rule and fits the rows, and the figure's own."""
    return {
        name: {
            **mixing_figures(posterior, probes),
            **rule_figures(posterior, [rule], seed=seed),
            "fit_rmse": None if name == "prior" else fit_rmse(posterior, frame),
            **own(posterior),
        }
        for name, posterior in drawn.items()
    }


def mixing_figures(posterior: Posterior, probes: Table) -> dict[str, float | None]:
    """Worst R-hat and effective draws of Φ over the probes; None where draws are not of chains."""
    if not posterior.has_chains:
        return {"rhat_worst": None, "ess_worst": None}
    chains, draws, _ = posterior.draws.shape
    values = function_draws(posterior, as_coded(posterior, probes)).reshape(chains, draws, -1)
    if posterior.classes:  # a class says what the others leave
        values = values.reshape(chains, draws, -1, len(posterior.classes))[..., 1:].reshape(chains, draws, -1)
    found = mixing(values)
    return {"rhat_worst": float(np.max(found.rhat)), "ess_worst": float(np.min(found.bulk_ess))}


def rule_figures(
    posterior: Posterior, rules: Sequence[Rule] | None = None, *, seed: int = 0, points: int = 1000
) -> dict[str, float | None]:
    """The four figures of satisfaction, of all deterministic rules together."""
    overall = check_rules(posterior, rules, points=points, key=seed).overall
    found = {name: getattr(overall, name) for name in SATISFACTION}
    return {name: None if figure is None else figure.value for name, figure in found.items()}


def fit_rmse(posterior: Posterior, frame: pd.DataFrame) -> float:
    """Root mean square of the distance between the posterior mean of Φ and the rows' y.

    For classes: between their mean probabilities and 1 for the class of the row, 0 for others.
    """
    means = function_draws(posterior, as_coded(posterior, frame)).mean(axis=0)
    observed = frame["y"].to_numpy()
    if posterior.classes:
        observed = (observed[:, None] == np.array(posterior.classes)).astype(float)
    return float(np.sqrt(np.mean((means - observed) ** 2)))


def band(
    posterior: Posterior, table: Table, coverage: float = 0.95
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Ends of the central credible band of Φ, without noise."""
    draws = function_draws(posterior, as_coded(posterior, table))
    low, high = np.quantile(draws, [0.5 - coverage / 2, 0.5 + coverage / 2], axis=0)
    return low, high
