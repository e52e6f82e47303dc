"""Rules in files: `rules.yaml`, a list of rules with name, rule, source, reason and tolerance.

The list may also stand under the key `rules:`, and a rule without more may be a plain text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import BaseModel, ConfigDict, StrictFloat, StrictInt, StrictStr, ValidationError

from ocbnn.errors import RuleError
from ocbnn.language.messages import did_you_mean, listed, quoted
from ocbnn.rules.parse import parse_rule

if TYPE_CHECKING:
    from os import PathLike

    from ocbnn.rules.constraint import Constraint
    from ocbnn.schema import Schema

LARGEST_FILE = 1_000_000
"""Bytes; a set of rules that people review is far below it."""


class RuleEntry(BaseModel):
    """One rule of a file."""

    model_config = ConfigDict(extra="forbid")

    name: StrictStr | None = None
    rule: StrictStr
    source: StrictStr | None = None
    reason: StrictStr | None = None
    tolerance: StrictFloat | StrictInt | None = None

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
            name=rule.name, rule=text, source=rule.source, reason=rule.reason, tolerance=rule.tolerance
        )

    def constraint(self, schema: Schema, line: int | None = None) -> Constraint:
        """What the entry says."""
        said = self.model_dump(exclude={"rule"})
        return parse_rule(self.rule, schema, **said, line=line)


FIELDS = tuple(RuleEntry.model_fields)


def load_rules(path: str | PathLike[str], schema: Schema) -> tuple[Constraint, ...]:
    """The constraints of a `rules.yaml`.

    Raises:
        RuleError: a file that cannot be read, with the file, the line and the field in words.
    """
    path = Path(path)
    try:
        return _constraints(_entries(path), schema)
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
    entries = [_dumped(rule, place, schema) for place, rule in enumerate(rules, start=1)]
    return yaml.safe_dump(entries, sort_keys=False, allow_unicode=True, width=100)


def _dumped(rule: Constraint, place: int, schema: Schema) -> dict[str, Any]:
    who = f"Rule {place}" if rule.name is None else f"The rule {quoted(rule.name)}"
    return RuleEntry.of(rule, schema, who).model_dump(exclude_none=True)


# From the file to entries -----------------------------------------------------------------------------------


def _entries(path: Path) -> list[tuple[RuleEntry, int]]:
    """Each rule of the file with the line it stands on."""
    listing = _listing(_document(_read(path)))
    return [_entry(node, place) for place, node in enumerate(listing, start=1)]


def _read(path: Path) -> str:
    try:
        if path.is_dir():
            raise RuleError("this is a folder; give the file with the rules in it.")
        if path.exists() and not path.is_file():
            raise RuleError("this is a device or a pipe, which is not read; give a file.")
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        raise RuleError("there is no such file.") from None
    except (OSError, ValueError) as error:
        raise RuleError(f"the file cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    if len(content) > LARGEST_FILE:
        raise RuleError(
            f"the file is larger than {LARGEST_FILE:,} bytes; rules for people to review are not."
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise RuleError("the file is not UTF-8 text. Save it as UTF-8.", line=line) from None


def _document(content: str) -> yaml.Node:
    try:
        node = yaml.compose(content, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise RuleError(
            f"the file is not well-formed YAML: {error.problem}. (A rule with `:` or `#` in it, or "
            "a backtick at its start, goes in double quotes, or after `rule: >` on a line of its own.)",
            line=None if mark is None else mark.line + 1,
        ) from None
    except yaml.YAMLError as error:
        raise RuleError(f"the file is not well-formed YAML: {str(error).splitlines()[0]}.") from None
    except RecursionError:
        raise RuleError("the file is nested too deeply to be a list of rules.") from None
    if node is None:
        raise RuleError("the file is empty. It holds a list of rules: `- rule: if … then …`.")
    return node


class _Loader(yaml.SafeLoader):
    """Refuses aliases: rules have no use for them, and a few can unfold to gigabytes."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise RuleError(
                "aliases (`*…`) are not read in files of rules; write it out.", line=mark.line + 1
            )
        return super().compose_node(parent, index)


def _listing(document: yaml.Node) -> list[yaml.Node]:
    line = document.start_mark.line + 1
    if isinstance(document, yaml.MappingNode):
        fields = _fields(document)
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


def _fields(node: yaml.MappingNode) -> dict[str, yaml.Node]:
    fields: dict[str, yaml.Node] = {}
    for key, value in node.value:
        name = str(key.value) if isinstance(key, yaml.ScalarNode) else "a key that is no text"
        if name in fields:
            raise RuleError(f"{quoted(name)} is given twice.", line=key.start_mark.line + 1)
        fields[name] = value
    return fields


def _entry(node: yaml.Node, place: int) -> tuple[RuleEntry, int]:
    line = node.start_mark.line + 1
    if isinstance(node, yaml.ScalarNode):
        fields: dict[str, yaml.Node] = {"rule": node}
    elif isinstance(node, yaml.MappingNode):
        fields = _fields(node)
    else:
        raise RuleError(f"rule {place} is a list; it has to be a text, or have the field `rule:`.", line=line)
    try:
        entry = RuleEntry.model_validate({name: _scalar(value) for name, value in fields.items()})
    except ValidationError as error:
        first = error.errors()[0]
        field = str(first["loc"][0])
        where = fields[field].start_mark.line + 1 if field in fields else line
        raise RuleError(_complaint(first["type"], field, place, first.get("input")), line=where) from None
    return entry, fields["rule"].start_mark.line + 1


def _scalar(node: yaml.Node) -> Any:
    """The node as text, number, truth value or None; what has parts of its own, as it is."""
    if not isinstance(node, yaml.ScalarNode):
        return node
    try:
        return yaml.constructor.SafeConstructor().construct_object(node)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, yaml.YAMLError):
        return str(node.value)


def _complaint(kind: str, field: str, place: int, given: Any) -> str:
    if kind == "missing":
        return f"rule {place} has no field `rule:` with the rule itself."
    if kind == "extra_forbidden":
        near = did_you_mean(field, FIELDS, quoted)
        return f"rule {place} has a field {quoted(field)}; known are {listed(map(quoted, FIELDS))}.{near}"
    what = "a number from 0 up to, but not including, 1" if field == "tolerance" else "text"
    shown = "a list or a mapping" if isinstance(given, yaml.Node) else quoted(str(given))
    quotes = "" if field == "tolerance" else " Put it in quotes."
    return f"`{field}` of rule {place} has to be {what}, not {shown}.{quotes}"


# From entries to constraints --------------------------------------------------------------------------------


def _constraints(entries: list[tuple[RuleEntry, int]], schema: Schema) -> tuple[Constraint, ...]:
    _refuse_duplicates([(entry.name, line) for entry, line in entries])
    return tuple(entry.constraint(schema, line) for entry, line in entries)


def _refuse_duplicates(named: list[tuple[str | None, int | None]]) -> None:
    names = Counter(name for name, _ in named if name is not None)
    for name, line in reversed(named):
        if name is not None and names[name] > 1:
            raise RuleError(f"two rules have the name {quoted(name)}; names tell rules apart.", line=line)
