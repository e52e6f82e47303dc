"""Rules in files: `rules.yaml`, a list of rules with name, rule, source, reason, tolerance, by and holds.

The list may also stand under the key `rules:`, and a rule without more may be a plain text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import BaseModel, ConfigDict, StrictFloat, StrictInt, StrictStr, ValidationError

from ocbnn.errors import RuleError
from ocbnn.language.syntax import listed, quoted
from ocbnn.rules.constraint import Holds
from ocbnn.rules.parse import parse_rule
from ocbnn.schema.reading import did_you_mean
from ocbnn.storage.documents import DocumentError, parse_yaml, read_yaml, yaml_fields, yaml_value

if TYPE_CHECKING:
    from os import PathLike

    from ocbnn.rules.constraint import Constraint
    from ocbnn.schema import Schema

NO_RULES = b"[]\n"
"""The file of a saved model without rules."""


class RuleEntry(BaseModel):
    """One rule of a file."""

    model_config = ConfigDict(extra="forbid")

    name: StrictStr | None = None
    rule: StrictStr
    source: StrictStr | None = None
    reason: StrictStr | None = None
    tolerance: StrictFloat | StrictInt | None = None
    by: StrictStr | None = None
    holds: Holds | None = None

    @classmethod
    def of(cls, rule: Constraint, schema: Schema, who: str = "The rule") -> RuleEntry:
        """The entry that reads as this rule; `who` names it in errors.

        Raises:
            RuleError: nothing that can be written reads as this rule.
        """
        if not rule.requirement.in_words:
            raise RuleError(
                f"{who} cannot be written to a file: its kind, such as Python functions, has no text that "
                "can be read back. Write it in words."
            )
        text = rule.text(schema)
        again = parse_rule(text, schema)
        if (again.region, again.condition, again.requirement) != (
            rule.region,
            rule.condition,
            rule.requirement,
        ):
            raise RuleError(
                f"{who} has a region of its own, not that of its condition; `{text}` would not say the same. "
                "Make it with `parse_rule`."
            )
        return cls(
            name=rule.name,
            rule=text,
            source=rule.source,
            reason=rule.reason,
            tolerance=rule.tolerance,
            by=rule.by,
            holds=rule.holds if rule.is_strict else None,
        )

    def constraint(self, schema: Schema, line: int | None = None) -> Constraint:
        """What the entry says."""
        said = self.model_dump(exclude={"rule", *([] if self.holds else ["holds"])})
        return parse_rule(self.rule, schema, **said, line=line)


FIELDS = tuple(RuleEntry.model_fields)


def load_rules(path: str | PathLike[str], schema: Schema) -> tuple[Constraint, ...]:
    """The constraints of a `rules.yaml`.

    Raises:
        RuleError: a file that cannot be read, with the file, the line and the field in words.
    """
    return _loaded(Path(path), lambda: read_yaml(path), schema)


def parse_rules(content: bytes, schema: Schema) -> tuple[Constraint, ...]:
    """The same for the content of a `rules.yaml` that was read already."""
    path = Path("rules.yaml")
    return _loaded(path, lambda: parse_yaml(content.decode(errors="replace"), path), schema)


def _loaded(path: Path, read: Callable[[], yaml.Node | None], schema: Schema) -> tuple[Constraint, ...]:
    try:
        entries = [_entry(node, place) for place, node in enumerate(_listing(read()), start=1)]
        _refuse_duplicates([(entry.name, line) for entry, line in entries])
        return tuple(entry.constraint(schema, line) for entry, line in entries)
    except DocumentError as error:
        raise RuleError(f"{path}: {error.message}", line=error.line) from None
    except RuleError as error:
        message = f"{path}: {error.message}"
        raise RuleError(message, rule=error.rule, position=error.position, line=error.line) from None


def dump_rules(rules: Iterable[Constraint], schema: Schema) -> str:
    """The rules as the text of a `rules.yaml`, canonical; `load_rules` gives the same constraints again.

    Raises:
        RuleError: a constraint that has no text, such as one made from Python functions.
    """
    rules = tuple(rules)
    _refuse_duplicates([(rule.name, None) for rule in rules])
    entries = []
    for place, rule in enumerate(rules, start=1):
        who = f"Rule {place}" if rule.name is None else f"The rule {quoted(rule.name)}"
        entries.append(RuleEntry.of(rule, schema, who).model_dump(exclude_none=True))
    return yaml.safe_dump(entries, sort_keys=False, allow_unicode=True, width=100)


# From the file to entries -----------------------------------------------------------------------------------


def _listing(document: yaml.Node | None) -> list[yaml.Node]:
    if document is None:
        raise RuleError("the file is empty. It holds a list of rules: `- rule: if … then …`.")
    line = document.start_mark.line + 1
    if isinstance(document, yaml.MappingNode):
        fields = yaml_fields(document)
        if set(fields) != {"rules"}:
            raise RuleError(
                "the file holds a list of rules, or one key `rules:` with that list; "
                f"it has {listed(map(quoted, fields)) if fields else 'no key at all'}.",
                line=line,
            )
        document = fields["rules"]
    if not isinstance(document, yaml.SequenceNode):
        raise RuleError("the file holds no list of rules. Begin each with `- rule: if … then …`.", line=line)
    if not document.value:
        raise RuleError("the list of rules is empty.", line=line)
    return list(document.value)


def _entry(node: yaml.Node, place: int) -> tuple[RuleEntry, int]:
    line = node.start_mark.line + 1
    if isinstance(node, yaml.ScalarNode):
        fields: dict[str, yaml.Node] = {"rule": node}
    elif isinstance(node, yaml.MappingNode):
        fields = yaml_fields(node)
    else:
        raise RuleError(f"rule {place} is a list; it has to be a text, or have the field `rule:`.", line=line)
    try:
        entry = RuleEntry.model_validate({name: yaml_value(value) for name, value in fields.items()})
    except ValidationError as error:
        first = error.errors()[0]
        field = str(first["loc"][0])
        where = fields[field].start_mark.line + 1 if field in fields else line
        raise RuleError(_complaint(first["type"], field, place, first.get("input")), line=where) from None
    return entry, fields["rule"].start_mark.line + 1


def _complaint(kind: str, field: str, place: int, given: Any) -> str:
    if kind == "missing":
        return f"rule {place} has no field `rule:` with the rule itself."
    if kind == "extra_forbidden":
        near = did_you_mean(field, FIELDS, quoted)
        return f"rule {place} has a field {quoted(field)}; known are {listed(map(quoted, FIELDS))}.{near}"
    if field == "holds":
        known = "`on average`, `everywhere`, `over rows` or `proved`"
        return f"`holds` of rule {place} is {known}, not {quoted(str(given))}."
    what = "a number from 0 up to, but not including, 1" if field == "tolerance" else "text"
    shown = "a list or a mapping" if isinstance(given, list | dict) else quoted(str(given))
    quotes = "" if field == "tolerance" else " Put it in quotes."
    return f"`{field}` of rule {place} has to be {what}, not {shown}.{quotes}"


def _refuse_duplicates(named: list[tuple[str | None, int | None]]) -> None:
    names = Counter(name for name, _ in named if name is not None)
    for name, line in reversed(named):
        if name is not None and names[name] > 1:
            raise RuleError(f"two rules have the name {quoted(name)}; names tell rules apart.", line=line)
