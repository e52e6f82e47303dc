"""The work behind `ocbnn fit` and `ocbnn demo`: hold rows out, fit with the rules and without, gather, save.

The model is saved as soon as there is one, and again with its twin and its figures, so that Ctrl-C or a crash
loses nothing that was done. Draws go to `<out>.run/` as they come; it is removed when all is done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocbnn.cli.command import InputError
from ocbnn.storage.files import discard
from ocbnn.storage.runs import RUN, is_run

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from ocbnn.cli.tables import Inputs
    from ocbnn.cli.voice import Voice
    from ocbnn.posterior.draws import Posterior
    from ocbnn.report.evidence import Evidence
    from ocbnn.schema import Schema

HELD_OUT = 0.2
FEWEST_ROWS = 50
"""Below this every row is needed for the fit, unless the share to hold out was asked for."""
LEFTOVERS = ".run"
RUNS = ("with_rules", "without_rules")


@dataclass(frozen=True)
class Plan:
    """What is asked of a fit.

    Attributes:
        out: the model's folder.
        options: of the estimator.
        hold_out: the share of rows kept from the fit; None for the default.
        compare: also fit without the rules.
        seed: of everything.
        resume: go on with an interrupted run.
        sources: names of the files that went in, for the report.
        points: fresh points at which each rule is measured.
        after_interruption: how the user can go on after Ctrl-C.
        command: what to type to fit the same model again, for the report.
    """

    out: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    hold_out: float | None = None
    compare: bool = True
    seed: int = 0
    resume: bool = False
    sources: Mapping[str, str] = field(default_factory=dict)
    points: int = 2000
    after_interruption: str = "The same command with --resume goes on to the end."
    command: str | None = None

    @property
    def leftovers(self) -> Path:
        """Where draws are kept while the fit goes on."""
        return self.out.with_name(self.out.name + LEFTOVERS)


@dataclass(frozen=True, eq=False)
class Fitted:
    """What came of it: the estimator, its twin without rules, the figures, and how many rows went where."""

    estimator: Any
    without: Posterior | None
    evidence: Evidence
    rows: int
    held_out: int

    @property
    def unmet(self) -> bool:
        """Whether any rule is shown not to be kept within its tolerance."""
        return any(outcome.unmet for outcome in self.estimator.outcomes_)


def fit_model(inputs: Inputs, plan: Plan, voice: Voice) -> Fitted:
    """Fit, compare, gather and save.

    Raises:
        KeyboardInterrupt: Ctrl-C; what there is was saved, and the message says how to go on.
        OCBNNError: what cannot be fitted, or a leftover of an earlier run that is in the way.
    """
    _check_leftovers(plan)
    source = inputs.source
    train, rest = split_rows(inputs, plan, voice)
    estimator = new_estimator(inputs, plan)
    try:
        X = train[list(inputs.schema.names)] if source is None else source
        fit = partial(estimator.fit, X, train[inputs.target] if source is None else inputs.target)
        with voice.hearing_warnings(but=("UNMET", "Not shown")):
            _kept_as_it_comes(fit, plan, "with_rules", voice)
        save_stage(plan, estimator)
        without = _twin(estimator, plan, voice)
        evidence = _gathered(estimator, without, rest, plan, voice)
        save_stage(plan, estimator, without, evidence)
    except BaseException:
        if plan.leftovers.exists() and not _worth_resuming(plan.leftovers):
            discard(plan.leftovers)
        raise
    try:
        discard(plan.leftovers)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"Interrupted at the very end; {plan.out} holds the whole model.") from None
    if source is not None:
        return Fitted(estimator, without, evidence, source.fitted, source.held_out)
    return Fitted(estimator, without, evidence, len(train), len(rest))


def new_estimator(inputs: Inputs, plan: Plan) -> Any:
    """The estimator for the table's task, unfitted; it knows levels and classes of all rows."""
    from ocbnn import OCBNNClassifier, OCBNNRegressor

    assert inputs.schema.target is not None
    kind = OCBNNClassifier if inputs.schema.target.task == "classification" else OCBNNRegressor
    return kind(
        rules=list(inputs.rules) or None,
        columns=None if inputs.adopted else _declared(inputs.schema, inputs.columns),
        random_state=plan.seed,
        **plan.options,
    )


def _declared(schema: Schema, columns: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """What was declared, and what the held-out rows must share with the others: kinds, levels, classes."""
    declared: dict[str, dict[str, Any]] = {name: dict(options) for name, options in columns.items()}
    for column in schema.columns:
        own = declared.setdefault(column.name, {})
        own["kind"] = column.kind
        if column.kind == "category":
            own["levels"] = list(column.levels)
    if schema.target is not None and schema.target.classes:
        declared.setdefault(schema.target.name, {})["levels"] = list(schema.target.classes)
    return declared


def split_rows(inputs: Inputs, plan: Plan, voice: Voice) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows to fit, and those held out by chance: a share of each class, or of the groups.

    Raises:
        InputError: all rows are of one group, so that none can be held out.
    """
    import numpy as np

    frame, schema, share = inputs.frame, inputs.schema, plan.hold_out
    if inputs.source is not None:
        source = inputs.source
        voice.say(
            f"{source.held_out:,} of {source.rows:,} rows are held out of the fit. {len(source.rest):,} of "
            "them by chance say whether probabilities and intervals are honest (--hold-out 0 fits all)."
        )
        return source.train, source.rest
    if share is None:
        share = HELD_OUT if len(frame) >= FEWEST_ROWS else 0.0
        if not share:
            voice.say(
                f"{len(frame)} rows are too few to hold any out, so calibration is not measured.", "yellow"
            )
    target = schema.target
    assert target is not None
    strata = target.to_model(frame[target.name]) if target.classes else np.zeros(len(frame))
    generator = np.random.default_rng(plan.seed)
    # Rows of one unit are held out together; without groups each row is a unit of its own.
    units = np.arange(len(frame)) if inputs.groups is None else inputs.groups.factorize()[0]
    held = np.zeros(len(frame), dtype=bool)
    if inputs.groups is not None:
        held = np.isin(units, _held_groups(units, share, generator, str(inputs.groups.name)))
    else:
        for stratum in np.unique(strata):
            members = generator.permutation(np.flatnonzero(strata == stratum))
            held[members[: int(share * len(members))]] = True
    for name in schema.with_indicator:
        absent = frame[name].isna().to_numpy(dtype=bool)
        if not absent[~held].any():
            # The fit must have seen a missing value, or none can be predicted.
            held &= ~np.isin(units, units[absent])
    whole = ""
    if inputs.groups is not None:
        whole = f" ({len(np.unique(units[held])):,} whole groups of {inputs.groups.name})"
    if held.any():
        voice.say(
            f"{int(held.sum()):,} of {len(frame):,} rows{whole} are held out of the fit, to see on them "
            "whether probabilities and intervals are honest (--hold-out 0 fits all)."
        )
    return frame[~held], frame[held]


def _held_groups(units: np.ndarray, share: float, generator: np.random.Generator, name: str) -> np.ndarray:
    """The groups to hold out, by chance: a share of them, and at least one where any share is asked for."""
    import numpy as np

    known = np.unique(units)
    if share and len(known) < 2:
        raise InputError(
            f"--group {name}: all rows are of one group, so no group can be held out. Leave --group out, or "
            "say --hold-out 0."
        )
    count = min(max(round(share * len(known)), 1), len(known) - 1) if share else 0
    return generator.permutation(known)[:count]


def _kept_as_it_comes(run: Callable[..., Any], plan: Plan, name: str, voice: Voice) -> Any:
    """What a run gives, with its draws kept as they come, or those of an interrupted one gone on with.

    Raises:
        KeyboardInterrupt: before the first draw.
    """
    folder = plan.leftovers / name
    resume = plan.resume and (folder / RUN).exists()
    try:
        return run(progress=not voice.quiet, folder=folder, resume=resume)
    except KeyboardInterrupt:
        if _worth_resuming(plan.leftovers):
            said = f"Interrupted before the first draw was kept. {plan.after_interruption}"
        else:
            said = "Interrupted while preparing, of which nothing is kept. Nothing was written."
        raise KeyboardInterrupt(said) from None


def _complete(posterior: Posterior) -> bool:
    return bool(posterior.provenance.get("complete", True))


def save_stage(
    plan: Plan, estimator: Any, without: Posterior | None = None, evidence: Evidence | None = None
) -> None:
    """Save what there is; an interrupted run ends here.

    Raises:
        KeyboardInterrupt: the draws are fewer than asked for.
    """
    from ocbnn.estimators.folder import save

    save(plan.out, estimator, without, evidence)
    if not _complete(estimator.posterior_):
        how_far = str(estimator.posterior_.provenance["status"]).split(";")[0]
        raise KeyboardInterrupt(
            f"{how_far.capitalize()}; {plan.out} holds the model as far as it is. {plan.after_interruption}"
        )


def _twin(estimator: Any, plan: Plan, voice: Voice) -> Posterior | None:
    """The posterior of the same rows without any rule."""
    if not plan.compare or not estimator.posterior_.rules:
        return None
    voice.say("Fitting the same rows without the rules, to compare (--no-compare skips it).")
    with voice.hearing_warnings():
        twin: Posterior = _kept_as_it_comes(estimator.without_rules, plan, "without_rules", voice)
    if not _complete(twin):
        raise KeyboardInterrupt(
            f"Interrupted while fitting without the rules; {plan.out} holds the model with them. "
            f"{plan.after_interruption}"
        )
    return twin


def _gathered(
    estimator: Any, without: Posterior | None, rest: pd.DataFrame, plan: Plan, voice: Voice
) -> Evidence:
    from ocbnn.report import gather

    voice.say("Measuring: rules on fresh points, predictions on the rows held out.")
    try:
        with voice.hearing_warnings():
            return gather(
                estimator.posterior_,
                without=without,
                frame=rest if len(rest) else None,
                seed=plan.seed,
                points=plan.points,
                sources=plan.sources,
                command=plan.command,
            )
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"Interrupted while measuring; {plan.out} holds the model. {plan.after_interruption}"
        ) from None


def _check_leftovers(plan: Plan) -> None:
    if plan.resume and not plan.leftovers.exists():
        raise InputError(
            f"There is no interrupted run to resume: {plan.leftovers} does not exist. Leave --resume out."
        )
    foreign = [each for each in plan.leftovers.glob("*") if each.name not in RUNS or not is_run(each)]
    if foreign:
        raise InputError(
            f"{plan.leftovers} is where draws go until the fit is done, but it holds {foreign[0].name!r}, "
            "which is not of a run. Move it away, or give another --out."
        )
    if plan.leftovers.exists() and not plan.resume:
        raise InputError(
            f"{plan.leftovers} holds an interrupted run. Go on with it by the same command with --resume, or "
            "delete that folder to begin anew."
        )


def _worth_resuming(folder: Path) -> bool:
    return any(folder.rglob("*.safetensors"))
