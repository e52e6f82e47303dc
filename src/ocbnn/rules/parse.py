"""From a sentence to a constraint. Nothing in it is ever evaluated as code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocbnn.errors import RuleError
from ocbnn.language.expressions import Always, Condition
from ocbnn.language.reading import read_condition
from ocbnn.language.syntax import Sentence, branches, parse
from ocbnn.regions import region_of
from ocbnn.rules.constraint import By, Constraint, Holds
from ocbnn.rules.kinds import read_requirement

if TYPE_CHECKING:
    from ocbnn.schema import Schema


def parse_rule(
    text: str,
    schema: Schema,
    *,
    name: str | None = None,
    source: str | None = None,
    reason: str | None = None,
    tolerance: float | None = None,
    by: By | None = None,
    holds: Holds = "on average",
    line: int | None = None,
) -> Constraint:
    """The constraint that a rule means.

    Args:
        text: the rule, such as `if creatinine > 2 and BUN > 40 then action = 1` (docs/rules.md).
        schema: what columns and target there are.
        name: what people call the rule.
        source: who says so, such as "KDIGO 2012, section 3".
        reason: why.
        tolerance: the share of violation that is accepted, in [0, 1); default: 0.01, for
            probabilistic rules 0.05.
        by: "construction" or "prior"; default: by construction where the network's form can keep the rule.
        holds: "on average" over its region; "everywhere": at the worst input that a search finds; "over
            rows": at the worst that is a row of the table in the columns that the condition does not name;
            "proved": at every input, draw by draw.
        line: the line of the file the rule came from, for errors.

    Raises:
        RuleError: a rule that cannot be understood, with a caret under the place.
    """
    if not isinstance(text, str):
        raise RuleError(f"A rule is text, not {type(text).__name__}.", line=line)
    if schema.target is None:
        raise RuleError(
            "The schema has no target for a rule to speak of. Infer it with `Schema.infer(frame, target=…)`.",
            line=line,
        )
    sentence = Sentence(text, schema, line)
    tree = parse(sentence)
    *conditions, stated = branches(tree)
    condition: Condition = read_condition(sentence, conditions[0]) if conditions else Always()
    requirement = read_requirement(sentence, stated, schema.target)
    try:
        rule = Constraint(
            region_of(condition, schema), requirement, condition, name, source, reason, tolerance, by, holds
        )
        rule.require_form(schema)
    except RuleError as error:
        raise sentence.error(error.message, conditions[0] if conditions else 0) from None
    _require_canonical_text(sentence, rule)
    return rule


def _require_canonical_text(sentence: Sentence, rule: Constraint) -> None:
    """Refuse a rule that is within the limits but whose canonical text, which is saved, is not."""
    written = rule.text(sentence.schema)
    try:
        if written != sentence.text:
            parse(Sentence(written, sentence.schema))
    except RuleError as error:
        raise sentence.error(f"In canonical form: {error.message}", 0) from None
