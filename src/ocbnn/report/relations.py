"""Pictures of rules that compare outputs: curves along a column for cases of the region, means of groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from ocbnn import plots
from ocbnn.checking.draws import evenly, rule_name
from ocbnn.language.expressions import Probability, text
from ocbnn.model.conditional import RuleTerm
from ocbnn.posterior.draws import Posterior
from ocbnn.report.evidence import Evidence
from ocbnn.report.pictures import Picture, drawn
from ocbnn.report.sentences import number
from ocbnn.rules.requirement import Groups

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ocbnn.report.sections import Material
    from ocbnn.schema import Label

NAME = "relations"
CASES, STEPS, DRAWS = 6, 41, 200


def gathered(material: Material) -> list[dict[str, Any]] | None:
    """Curves and group means of every rule that compares outputs, never what rows hold; None without any."""
    found: list[dict[str, Any]] = []
    for term in material.posterior.rules:
        for column, classes in term.rule.requirement.along():
            found.append(_curves(material, term, column, classes))
        groups = term.rule.requirement.groups()
        if groups is not None:
            found.append(_groups(material, term, groups))
    return found or None


def pictures(evidence: Evidence) -> tuple[Picture, ...]:
    """One for each column that a rule compares outputs along, and for each set of groups."""
    figures: Sequence[dict[str, Any]] = evidence.further.get(NAME) or ()
    return tuple(_picture(each, index) for index, each in enumerate(figures, 1))


def _models(material: Material) -> dict[str, Posterior]:
    models = {"with the rules": material.posterior}
    return models if material.without is None else {**models, "without the rules": material.without}


def _answers(
    posterior: Posterior, coded: Float[np.ndarray, "n Q"], classes: tuple[Label, ...]
) -> Float[np.ndarray, "draws n"]:
    """What some draws say, raw: y, or the total probability of the classes."""
    values = posterior.values(coded, posterior.flat[evenly(len(posterior.flat), DRAWS)])
    if not classes:
        return values
    return np.asarray(values[..., [posterior.classes.index(label) for label in classes]].sum(axis=-1))


def _quantity(posterior: Posterior, classes: tuple[Label, ...]) -> str:
    name = posterior.target.name
    return text(Probability(classes), name) if classes else name


def _curves(material: Material, term: RuleTerm, column: str, classes: tuple[Label, ...]) -> dict[str, Any]:
    """The mean function along a column, for cases of the region, where the column stays inside of it."""
    schema, index = term.schema, term.schema.index(column)
    described, limits = schema.column(column), term.rule.region.limits(schema)
    low, high, codes = limits.low[index], limits.high[index], limits.codes[index]
    positions = np.linspace(low, high, STEPS) if codes is None else np.asarray(codes)
    if described.kind == "integer":
        positions = np.unique(np.round(positions))
    cases = np.repeat(term.fresh_inputs(CASES, material.seed), len(positions), axis=0)
    cases[:, index] = np.tile(positions, CASES)
    inside = term.rule.region.contains(cases, schema).reshape(CASES, -1)
    curves = {}
    for label, posterior in _models(material).items():
        means = _answers(posterior, cases, classes).mean(axis=0).reshape(CASES, -1)
        curves[label] = [
            [float(value) if there else None for value, there in zip(*each, strict=True)]
            for each in zip(means, inside, strict=True)
        ]
    return {
        "rule": rule_name(term),
        "column": column,
        "unit": described.unit,
        "labels": [str(described.levels[int(code)]) for code in positions] if described.levels else [],
        "positions": [float(value) for value in positions],
        "quantity": _quantity(material.posterior, classes),
        "curves": curves,
    }


def _groups(material: Material, term: RuleTerm, compared: Groups) -> dict[str, Any]:
    """Mean, and 5% and 95% quantiles over draws, of each group's mean, or share, over the rule's rows."""
    schema, (column, classes, above) = term.schema, compared
    rows = term.fresh_inputs(material.points, material.seed)
    groups, described = rows[:, schema.index(column)], schema.column(column)
    known = np.unique(groups)
    means = {}
    for label, posterior in _models(material).items():
        answers = _answers(posterior, rows, classes)
        if above is not None:
            answers = answers > above
        by_group = np.stack([answers[:, groups == group].mean(axis=1) for group in known])
        ends = np.quantile(by_group, [0.05, 0.95], axis=1)
        means[label] = [
            [float(value) for value in each] for each in zip(by_group.mean(axis=1), *ends, strict=True)
        ]
    quantity = _quantity(material.posterior, classes)
    names = [str(described.levels[int(code)]) if described.levels else f"{code:g}" for code in known]
    return {
        "rule": rule_name(term),
        "column": column,
        "groups": [f"{column} = {name}" for name in names],
        "rows": [int((groups == group).sum()) for group in known],
        "quantity": f"mean {quantity}" if above is None else f"share of {quantity} > {number(above)}",
        "means": means,
    }


def _picture(figures: dict[str, Any], index: int) -> Picture:
    rule, quantity, name = figures["rule"], figures["quantity"], f"relation-{index}"
    if "groups" in figures:
        means = figures["means"]["with the rules"]
        said = "; ".join(
            f"{group}: {number(mean)} over {rows} rows"
            for group, rows, (mean, _, _) in zip(figures["groups"], figures["rows"], means, strict=True)
        )

        def bars(ax: Axes) -> object:
            return plots.group_means(figures["groups"], figures["means"], quantity, ax=ax)

        return Picture(
            drawn(bars, name, 1.2 + 0.46 * len(means)),
            f"“{rule}”: {quantity} in each group of the rule's rows; bars hold 90% of draws. "
            f"With the rules, {said}.",
            f"{quantity[0].upper()}{quantity[1:]} by group. {said}.",
        )

    def lines(ax: Axes) -> object:
        return plots.case_curves(
            figures["positions"],
            figures["curves"],
            plots.style.with_unit(figures["column"], figures["unit"]),
            quantity,
            labels=figures["labels"],
            ax=ax,
        )

    return Picture(
        drawn(lines, name),
        f"“{rule}”: how {quantity} goes with {figures['column']} in {CASES} made-up cases of the region, all "
        "else held. Each line is a mean over draws.",
        f"Lines: {quantity} against {figures['column']}, one for each of {CASES} cases.",
    )
