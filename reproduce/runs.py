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

from ocbnn import AmortizedPrior, Constraint, Model, OCBNNWarning, Schema, infer, parse_rule
from ocbnn.amortize import Learning
from ocbnn.checking import check_rules, mixing
from ocbnn.estimators import save_posterior
from ocbnn.inference import Result
from ocbnn.posterior import Posterior, function_blocks, function_draws
from reproduce.plans import Plan
from reproduce.progress import one_fit

SATISFACTION = ("epsilon_mean", "epsilon_worst", "draws_violating", "points_violating")
Figures = dict[str, Any]


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
    if not plan.fixed_points:
        return model
    return replace(model, terms=tuple(replace(term, drawn=0) for term in model.terms))


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


def with_and_without(
    plan: Plan,
    frame: pd.DataFrame,
    rules: Sequence[str],
    *,
    seed: int,
    probes: pd.DataFrame | None = None,
    priors: bool = False,
) -> dict[str, Posterior]:
    """The posterior without the rules and with them; where `priors`, both priors too."""
    found: dict[str, Posterior] = {}
    for prefix, options in (("", {}), ("prior", {"prior_only": True})) if priors else (("", {}),):
        for name, said in (("baseline", ()), ("ocbnn", rules)):
            label = name if not prefix else prefix if said else f"{prefix}_{name}"
            found[label] = run(plan, frame, said, seed=seed, probes=probes, **options)
    return found


def learnt_prior(
    plan: Plan, rules: Sequence[Constraint], schema: Schema, *, seed: int, **changes: Any
) -> AmortizedPrior:
    """The amortized prior of these rules for the plan's network.

    Options are the plan's own numbers: `objective`, `observation`, `noise`, `divergence`, `concentration`,
    `sampler`, and of learning `paper_steps` (the paper's early stopping) and `initial_scale`, or `steps`,
    `starts`. `changes` are further options of `AmortizedPrior.learn`.
    """
    own = plan.own
    if "paper_steps" in own:
        learning = Learning.paper(int(own["paper_steps"]), own.get("initial_scale", 1.0))
    else:
        learning = Learning(**{name: own[name] for name in ("steps", "starts") if name in own})
    chosen = ("objective", "observation", "divergence", "concentration", "sampler")
    options: dict[str, Any] = {name: own[name] for name in chosen if name in own}
    options["noise"] = own.get("noise", plan.model.get("noise"))
    hidden, activation = tuple(plan.model["hidden"]), plan.model["activation"]
    with warnings.catch_warnings(), one_fit():
        # The paper's way does not keep its rules, which the figures show; its warnings are for users.
        warnings.simplefilter("ignore", OCBNNWarning)
        return AmortizedPrior.learn(
            rules,
            schema,
            hidden=hidden,
            activation=activation,
            learning=learning,
            seed=seed,
            **{**options, **changes},
        )


def with_learnt_prior(
    plan: Plan, rule: str, frame: pd.DataFrame, schema: Schema, probes: pd.DataFrame, *, seed: int
) -> tuple[dict[str, Posterior], Figures]:
    """The rows without a rule, the rows under a prior that has learnt it, that prior by itself; its figures.

    All of it is in raw units, as the paper has it.
    """
    raw = Model.build(schema=schema, standardize=False).schema
    assert raw is not None
    prior = learnt_prior(plan, [parse_rule(rule, raw, tolerance=plan.tolerance)], raw, seed=seed)
    common: dict[str, Any] = {"seed": seed, "probes": probes}
    learnt: dict[str, Any] = {**common, "schema": prior.schema, "base": prior}
    found = {
        "baseline": run(plan, frame, schema=schema, **common),
        "ocbnn": run(plan, frame, **learnt),
        "prior": run(plan, frame, prior_only=True, **learnt),
    }
    return found, {"kl": prior.findings.kl, "concentration": prior.findings.concentration}


def save_all(folder: Path, fitted: Mapping[str, Any]) -> None:
    """Posteriors, or estimators, as folders `folder/<name>/` that `ocbnn.load` opens."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, each in fitted.items():
        if isinstance(each, Posterior):
            save_posterior(folder / name, each)
        else:
            each.save(folder / name)


def measured(
    out: Path,
    drawn: Mapping[str, Posterior],
    rules: Sequence[str],
    frame: pd.DataFrame,
    probes: pd.DataFrame,
    own: Callable[[Posterior], Mapping[str, Any]] = lambda posterior: {},
    *,
    seed: int,
) -> dict[str, Figures]:
    """Save every run as `out/<run>/`; give its figures, and those of the experiment itself.

    A run whose name begins with "prior" has seen no rows, so it has no fit.
    """
    save_all(out, drawn)
    return {
        name: {
            **figures_of(posterior, rules, None if name.startswith("prior") else frame, probes, seed=seed),
            **own(posterior),
        }
        for name, posterior in drawn.items()
    }


def figures_of(
    posterior: Posterior,
    rules: Sequence[str] | None,
    frame: pd.DataFrame | None,
    probes: pd.DataFrame,
    *,
    seed: int,
    points: int = 1000,
) -> Figures:
    """What every run is measured by: how well it mixed, how far it keeps rules, and how well it fits rows.

    Args:
        posterior: the run.
        rules: in words; None for the model's own.
        frame: the rows with the target `y`; None where the run has seen none.
        probes: inputs at which mixing is judged.
        seed: of the points that rules are checked at.
        points: how many of them.
    """
    return {
        **mixing_figures(posterior, probes),
        **rule_figures(posterior, rules, seed=seed, points=points),
        "fit_rmse": None if frame is None else fit_rmse(posterior, frame),
    }


def mixing_figures(posterior: Posterior, probes: pd.DataFrame) -> Figures:
    """Worst R-hat and effective draws of Φ over the probes; None where draws are not of chains."""
    if not posterior.has_chains:
        return {"rhat_worst": None, "ess_worst": None}
    chains, draws, _ = posterior.draws.shape
    values = function_draws(posterior, probes).reshape(chains, draws, len(probes), -1)
    if posterior.classes:
        values = values[..., 1:]  # the first class has what the others leave
    found = mixing(values.reshape(chains, draws, -1))
    return {"rhat_worst": float(np.max(found.rhat)), "ess_worst": float(np.min(found.bulk_ess))}


def rule_figures(
    posterior: Posterior, rules: Sequence[str] | None = None, *, seed: int = 0, points: int = 1000
) -> Figures:
    """The four figures of satisfaction, of all deterministic rules together."""
    overall = check_rules(posterior, rules, points=points, key=seed).overall
    found = {name: getattr(overall, name) for name in SATISFACTION}
    return {name: None if figure is None else figure.value for name, figure in found.items()}


def fit_rmse(posterior: Posterior, frame: pd.DataFrame) -> float:
    """Root mean square of the distance between the posterior mean of Φ and the rows' y.

    For classes: between their mean probabilities and 1 for the class of the row, 0 for others.
    """
    means = function_draws(posterior, frame).mean(axis=0)
    observed = frame["y"].to_numpy()
    if posterior.classes:
        observed = (observed[:, None] == np.array(posterior.classes)).astype(float)
    return float(np.sqrt(np.mean((means - observed) ** 2)))


def band(
    posterior: Posterior, at: pd.DataFrame, coverage: float = 0.95
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Ends of the central credible band of Φ, without noise."""
    low, high = np.quantile(function_draws(posterior, at), [0.5 - coverage / 2, 0.5 + coverage / 2], axis=0)
    return low, high


def class_probabilities(posterior: Posterior, at: pd.DataFrame) -> Float[np.ndarray, "n classes"]:
    """Posterior mean probabilities."""
    return np.concatenate([values.mean(axis=0) for _, values in function_blocks(posterior, at)])
