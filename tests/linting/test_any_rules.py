"""Whatever rules are written, lint answers, and its witnesses lie where it says."""

import numpy as np
import pandas as pd

from lint_cases import LINE, row_of
from ocbnn.errors import RuleError
from ocbnn.linting import lint
from ocbnn.rules.parse import parse_rule


class Writer:
    """Random rules on x and z: affine and curved, undefined in places, huge and tiny numbers."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def one_of(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def number(self):
        return self.one_of("0", "1", "-1", "2.5", "0.3", "1e-3", "1e6", "-7")

    def expression(self, depth=0):
        simple = self.one_of("x", "z", self.number())
        if depth > 1 or self.rng.random() < 0.55:
            return simple
        left, right = self.expression(depth + 1), self.expression(depth + 1)
        function = self.one_of("sin", "exp", "log", "abs", "sqrt")
        return self.one_of(
            f"({left} + {right})", f"({left} * {right})", f"({left} / {right})", f"{function}({left})"
        )

    def condition(self, depth=0):
        sign = self.one_of("<", "<=", ">", ">=", "<", ">", "=", "!=")
        if depth > 1 or self.rng.random() < 0.6:
            return f"{self.expression()} {sign} {self.expression()}"
        left, right = self.condition(depth + 1), self.condition(depth + 1)
        return self.one_of(f"({left} and {right})", f"({left} or {right})", f"not ({left})")

    def output(self):
        return self.one_of(
            f"{self.number()} <= y <= {self.number()}",
            f"y >= {self.expression()}",
            f"y < {self.expression()}",
            f"not {self.number()} < y < {self.number()}",
            f"y = {self.expression()} within 0.3",
            f"{self.expression()} * y >= {self.expression()}",
            f"y ~ Normal({self.expression()}, 0.5)",
            f"y = {self.number()} or y = {self.expression()}",
        )

    def rules(self, count):
        found = []
        while len(found) < count:
            try:
                found.append(parse_rule(f"if {self.condition()} then {self.output()}", LINE))
            except RuleError:
                continue
        return found


def test_no_set_of_rules_makes_lint_raise_and_every_witness_is_where_it_says():
    rng = np.random.default_rng(0)
    data = pd.DataFrame(rng.normal(size=(40, 3)), columns=["x", "z", "y"])
    anywhere = rng.uniform(-3, 3, size=(4000, 2))
    witnesses = 0
    for seed in range(20):
        rules = Writer(seed).rules(4)
        by_text = {rule.text(LINE): rule for rule in rules}
        for finding in lint(rules, LINE, data):
            concerned = [by_text[label] for label in finding.rules]
            if finding.kind == "empty-region" and finding.severity == "error":
                assert not concerned[0].region.contains(anywhere, LINE).any()
            if finding.witness is not None:
                witnesses += 1
                row = row_of(finding.witness, LINE)
                assert all(rule.region.contains(row, LINE)[0] for rule in concerned), str(finding)
    assert witnesses > 20
