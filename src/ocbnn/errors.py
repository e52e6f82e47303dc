"""One family of errors. Each message is a sentence: what was given, what was expected, what to do."""

from __future__ import annotations


class OCBNNError(Exception):
    """Anything ocbnn refuses; catch this to catch them all."""


class SchemaError(OCBNNError, ValueError):
    """A table that cannot be read as described: a missing column, an unseen category, a NaN."""


class RegionError(OCBNNError, ValueError):
    """A region that cannot be sampled, with the condition that is to blame."""


class ModelError(OCBNNError, ValueError):
    """A network, likelihood or prior that cannot be built as asked."""


class FileError(OCBNNError, ValueError):
    """A saved model that cannot be written, or is damaged, too new, or not what it says."""


class ResourceError(OCBNNError, MemoryError):
    """Something that would take more memory or time than there is, with the estimate and the limit."""


class UnmetRuleError(OCBNNError, RuntimeError):
    """A fitted model that does not keep a rule within its tolerance, where that was asked for."""


class OCBNNWarning(UserWarning):
    """Something the user should know, and can go on without heeding: an unmet rule, doubtful units."""


class InconclusiveWarning(OCBNNWarning):
    """A fit that does not show what it should: draws that have not converged, or too few to judge a rule."""


class RuleError(OCBNNError, ValueError):
    """A rule that cannot be understood, shown with a caret under the place.

    Attributes:
        message: the cause and the remedy, without the rule.
        rule: the rule's text, where there is one.
        position: the 0-based offset in `rule` that the caret points at.
        line: the 1-based line of the file the rule came from, where it came from a file.
    """

    def __init__(
        self, message: str, *, rule: str | None = None, position: int | None = None, line: int | None = None
    ) -> None:
        # A message may quote the rule, which may hold any character.
        self.message = "".join(c if c.isprintable() or c == "\n" else "·" for c in message)
        self.rule, self.position, self.line = rule, position, line
        super().__init__(self._shown())

    def _shown(self) -> str:
        where = "" if self.line is None else f"line {self.line}: "
        if self.rule is None:
            return where + self.message
        if self.position is None:
            return f"{where}{self.message}\n  {self.rule}"
        start = self.rule.rfind("\n", 0, self.position) + 1
        end = self.rule.find("\n", self.position)
        shown = self.rule[start : len(self.rule) if end < 0 else end]
        offset = self.position - start
        if len(shown) > 160:  # a caret is no help at the end of a wall of text
            cut = max(0, offset - 80)
            shown, offset = shown[cut : cut + 160], offset - cut
        printable = "".join(c if c.isprintable() else "·" for c in shown)
        return f"{where}{self.message}\n  {printable}\n  {' ' * offset}^"


class InferenceError(OCBNNError, RuntimeError):
    """A run that cannot start or go on, with the part of the density that is to blame."""
