"""Rules that are not understood: each mistake has its own message, and a caret under the place."""

from __future__ import annotations

import pytest

from language_schemas import CLINIC, COLOURS, DOSES, HIRING, LINE, number
from ocbnn.errors import OCBNNError, RuleError
from ocbnn.rules import parse_rule
from ocbnn.schema import Schema, Target

# (schema, rule, a part of the message, what the caret points at)
WRONG = [
    # nothing, or not a rule
    (LINE, "", "The rule is empty", ""),
    (LINE, "  # only a comment", "The rule is empty", ""),
    (LINE, "y > 2", "begins with `if … then …` or `always …`, but this one with `y`", "y > 2"),
    (LINE, "x > 2 if y > 1", "begins with `if", "x > 2"),
    (LINE, "if x > 2", "Expected `then`", ""),
    (LINE, "if x > 2 and then y > 1", "Expected a column or a number", "then"),
    (LINE, "if x then y > 2", "Expected a comparison such as `<=`", "then"),
    (LINE, "if (x > 2 then y > 2", "Expected `)`", "then"),
    (LINE, "if x > 2) then y > 2", "but there is `)`", ")"),
    (LINE, "if x > 2, then y > 2", "Expected `then`", ", then"),
    (LINE, "always y >", "Expected a column or a number", ""),
    (LINE, "always y > 1 then y > 2", "but there is `then`", "then"),
    (LINE, "always y in (2, 3)", "Expected `{`", "(2"),
    (LINE, "always y in {2, 3", "Expected `}`", ""),
    (LINE, "always y in {}", "Expected a column or a number", "}"),
    # signs people use
    (LINE, "if x => 2 then y > 1", "Write `>=` rather than `=>`", "> 2"),
    (LINE, "if x > 2 && x < 3 then y > 1", "write `and`", "&&"),
    (LINE, "if x > 2 || x < 1 then y > 1", "write `or`", "||"),
    (LINE, "if !x > 2 then y > 1", "write `not`", "!x"),
    (LINE, "if x in [1, 2] then y > 1", "`{…}` for a set", "[1"),
    (LINE, "if 2x > 3 then y > 1", "A product is written out: `2 * x`", "x > 3"),
    (LINE, "if x > 2; then y > 1", "`;` has no meaning", ";"),
    (LINE, "if x > 2\0 then y > 1", "U+0000 has no meaning", "\0"),
    (LINE, 'always y = "two', 'The " opened here is not closed', '"two'),
    (LINE, "if `x > 2 then y > 1", "The ` opened here is not closed", "`x"),
    (LINE, "if blood pressure > 2 then y > 1", "goes in backticks", "pressure"),
    (LINE, "if x > 60% then y > 1", "`%` is understood for probabilities only. Write 0.6 or 60", "60%"),
    (LINE, "if x > 1e999 then y > 1", "`1e999` is too large", "1e999"),
    # names
    (
        CLINIC,
        "if creatinin > 2 then action = 1",
        "There is no column `creatinin`. Did you mean `creatinine`?",
        "creatinin",
    ),
    (CLINIC, "if CREATININE > 2 then action = 1", "Did you mean `creatinine`?", "CREATININE"),
    (LINE, "if weight > 2 then y > 1", "The columns are x", "weight"),
    (LINE, "if sinn(x) > 2 then y > 1", "`sinn` is not a function", "sinn"),
    (LINE, "always y = sinn(x)", "Did you mean `sin`?", "sinn"),
    (LINE, "if sin(x, 2) > 2 then y > 1", "`sin` takes one number", "sin"),
    (LINE, "if max(x) > 2 then y > 1", "`max` takes two or more", "max"),
    (LINE, "always y > exp()", "`exp` takes one number", "exp"),
    # conditions
    (LINE, "if y > 2 then y > 1", "`y` is the target: a condition is about inputs", "y > 2"),
    (CLINIC, "if age > 2 and action = 1 then action = 0", "`action` is the target", "action = 1"),
    (CLINIC, "if P(action = 1) > 0.5 then action = 1", "`P(…)` speaks of the target", "P("),
    (LINE, "if 1 < 2 then y > 1", "compares two numbers", "1 < 2"),
    (LINE, "if x = 2 within 0.5 then y > 1", "`within` is for what the target has to meet", "within"),
    (LINE, "if x = 2 (0.5) then y > 1", "weight in parentheses is for what the target", "(0.5)"),
    (LINE, "if x ~ Normal(0, 1) then y > 1", "belongs after `then`", "x ~"),
    # categories
    (
        COLOURS,
        "if ward = ICUU then label = green",
        "`ICUU` is not a level of ward; known are ICU, surgery and 'long stay'. Did you mean `ICU`?",
        "ICUU",
    ),
    (COLOURS, "if ward = 3 then label = green", "`3` is a number; expected a level of ward", "3 then"),
    (COLOURS, "if ward > ICU then label = green", "its levels have no order", "ward"),
    (
        COLOURS,
        "if ward + 1 > 2 then label = green",
        "ward is a category (ICU, surgery and 'long stay'), not a number",
        "ward",
    ),
    (
        COLOURS,
        "if ward = skill then label = green",
        "is the name of a column. If the label is meant, quote it: 'skill'",
        "skill",
    ),
    (COLOURS, "if ward = `ICU` then label = green", "Backticks are for columns", "`ICU`"),
    (
        COLOURS,
        "if ward in {ICU, 1 + 1} then label = green",
        "Expected a level of ward, not `1 + 1`",
        "1 + 1",
    ),
    (COLOURS, "if visits = 'many' then label = green", "is text where a number is needed", "'many'"),
    (COLOURS, "if visits = True then label = green", "There is no column `True`", "True"),
    # classes
    (
        COLOURS,
        "always label = red",
        "`red` is the name of a column. If the label is meant, quote it: 'red'",
        "red",
    ),
    (COLOURS, "always label = purple", "`purple` is not a class of label", "purple"),
    (COLOURS, "always label = purple", "declare all labels: columns={'label': {'levels': […]}}", "purple"),
    (
        COLOURS,
        "if ward = ER then label = green",
        "all labels: columns={'ward': {'levels': […]}}",
        "ER",
    ),
    (
        LINE,
        "always pressure > 2",
        "The target is called `y`, as one that comes without a name is",
        "pressure",
    ),
    (COLOURS, "always label = gren", "Did you mean `green`?", "gren"),
    (CLINIC, "always action = yes", "`yes` is not a class of action; known are 0 and 1", "yes"),
    (CLINIC, "always action > 0", "Classes have no order", "action"),
    (CLINIC, "always action + 1 = 1", "a rule speaks of action, a class, not of `action + 1`", "action"),
    (CLINIC, "always action = 1 (0.7) or action = 0 (0.3)", "no `within`, and no weights", "(0.7)"),
    (CLINIC, "always age > 2", "a rule speaks of action", "age"),
    (CLINIC, "always acton = 1", "Did you mean `action`?", "acton"),
    (CLINIC, "always action = 1 or action = 0", "allows every class", "action"),
    (CLINIC, "always action = 1 and action = 0", "nothing can obey", "action"),
    # numbers
    (LINE, "always y = green", "There is no column `green`", "green"),
    (LINE, "always abs(y) <= 2", "is not affine in the target", "abs(y)"),
    (LINE, "always y * y <= 2", "is not affine in the target", "y * y"),
    (LINE, "always 1 / y <= 2", "is not affine in the target", "1 / y"),
    (LINE, "always y ^ 2 = 4", "is not affine in the target", "y ^ 2"),
    (LINE, "always y != 2", "so forbidding one says nothing", "y != 2"),
    (LINE, "always not y = 2", "so forbidding one says nothing", "y = 2"),
    (LINE, "always y not in {1, 2}", "so forbidding one says nothing", "y not"),
    (LINE, "always y = 2 and y > 1", "A value stands beside other statements", "y = 2"),
    (LINE, "always not y != 2", "A value stands beside other statements", "y != 2"),
    (LINE, "always y in {1, 2} and y > 1", "A set of values stands alone", "y in"),
    (LINE, "always x > 1", "This says nothing about y", "x > 1"),
    (LINE, "always 0 <= x <= y", "This says nothing about y", "0 <="),
    (LINE, "always y - y > 1", "This says nothing about y", "y - y"),
    (LINE, "always y = x = 2", "one `=` at a time", "y = x"),
    (LINE, "always 1 < y = 2", "A chain has only", "1 < y"),
    (LINE, "always y = 1 / 0", "`1 / 0` is not a finite number", "1 / 0"),
    (LINE, "always y = 2 (0)", "A weight has to be above 0", "(0)"),
    (LINE, "always y = 2 (-1) or y = 3 (2)", "A weight has to be above 0", "(-1)"),
    (LINE, "always y = 2 (x) or y = 3 (2)", "A weight is a number, not `x`", "x)"),
    (LINE, "always y = 2 (1, 2)", "A weight is one number", "(1, 2)"),
    (LINE, "always y = 2 (0.7) or y = 3", "every value has a weight, or none", "y = 3"),
    (LINE, "always y = 2 (0.7) (0.3)", "one weight", "(0.3)"),
    (LINE, "always y > 2 (0.7)", "Weights are for values", "(0.7)"),
    (LINE, "always y > 2 within 1", "`within` is for values", "within"),
    (LINE, "always y = 2 within 0", "has to be above 0", "within"),
    (LINE, "always y = 2 within x", "`within` is a number, not `x`", "x"),
    (LINE, "always y = 2 within 1 or y = 3 within 2", "share one margin", "y = 3"),
    # probabilities and distributions
    (LINE, "always P(y = 1) > 0.5", "`P(…)` is for targets with classes", "P("),
    (HIRING, "always P(hired = 1) >= 1.2", "1.2 is not a probability", "1.2"),
    (HIRING, "always -0.1 <= P(hired = 1) <= 0.5", "-0.1 is not a probability", "-0.1"),
    (HIRING, "always P(hired = 1) = 120%", "1.2 is not a probability", "P("),
    (HIRING, "always P(hired = 2) = 0.5", "`2` is not a class of hired", "2)"),
    (HIRING, "always P(hired = 1) = 0.5 (1)", "A probability has no weight", "P("),
    (HIRING, "always P(hired = 1) > P(hired = 0)", "One rule bounds one probability", "P("),
    (HIRING, "always P(hired = 1) > 0.5 and P(hired = 0) > 0.2", "One rule bounds one probability", "P("),
    (
        HIRING,
        "always P(hired = 1) > 0.5 and hired > 1",
        "is a class, not a number, and stands beside a probability",
        "hired > 1",
    ),
    (HIRING, "always P(hired = 1) != 0.5", "`not P(…) = 0.5 within 0.1`", "P("),
    (LINE, "always y ~ Gamma(1, 2)", "`Normal(…)`, `Bernoulli(…)` and `Categorical(…)` are known", "Gamma"),
    (LINE, "always y ~ Norml(1, 2)", "Did you mean `Normal`?", "Norml"),
    (LINE, "always y ~ Normal(1)", "Write `Normal(mean, sd)`", "Normal"),
    (LINE, "always y ~ Normal(1, 0)", "standard deviation 0 has to be above 0", "0)"),
    (LINE, "always y ~ Normal(1, -2)", "standard deviation -2 has to be above 0", "-2"),
    (LINE, "always y ~ Normal(y, 1)", "cannot depend on the target", "Normal"),
    (LINE, "always y ~ Normal(1, 1) within 2", "`within` is for values", "within"),
    (LINE, "always x ~ Normal(1, 2)", "says how y is distributed, not `x`", "x ~"),
    (LINE, "always Normal(1, 2)", "Say what is distributed", "Normal"),
    (LINE, "always y ~ Normal(1, 2) and y > 1", "A distribution stands alone", "y ~"),
    (LINE, "always y ~ Normal(1, 2) or y > 1", "A distribution stands alone", "y > 1"),
    (LINE, "always y ~ Bernoulli(0.5)", "`Bernoulli` is for classes, but y is a number", "Bernoulli"),
    (LINE, "always y ~ Categorical(a: 1)", "`Categorical` is for classes", "Categorical"),
    (HIRING, "always hired ~ Normal(0, 1)", "`Normal` is for numbers, but hired has classes", "Normal"),
    (HIRING, "always hired ~ Bernoulli(1.5)", "1.5 is not a probability", "1.5"),
    (HIRING, "always hired ~ Bernoulli(0/0)", "`0 / 0` is not a finite number", "0/0"),
    (HIRING, "always hired ~ Bernoulli(0.5) (0.3)", "Nothing follows", "(0.3)"),
    (HIRING, "always hired ~ Bernoulli(0.5) or Bernoulli(0.3)", "only normals are mixed", "Bernoulli(0.3)"),
    (
        COLOURS,
        "always label ~ Bernoulli(0.5)",
        "`Bernoulli` is for two classes, but label has 3",
        "Bernoulli",
    ),
    (COLOURS, "always label ~ Categorical(0.5, 0.5)", "Name the class", "0.5, 0.5"),
    (COLOURS, "always label ~ Categorical()", "Name the classes", "Categorical"),
    (COLOURS, "always label ~ Categorical(green: 0.7, blue: 0.5)", "sum to 1.2, more than 1", "Categorical"),
    (
        COLOURS,
        "always label ~ Categorical(green: 0.2, blue: 0.5, 'red': 0.1)",
        "sum to 0.8, and no class is left",
        "Categorical",
    ),
    (
        COLOURS,
        "always label ~ Categorical(green: 0.2, green: 0.3)",
        "green has a probability already",
        "green: 0.3",
    ),
    # relations
    (LINE, "always y increses with x", "Did you mean `increases`?", "increses"),
    (LINE, "always y increases", "Relations are written `y increases with x`", "increases"),
    (LINE, "always y changes by at lest 2 per x", "`y changes by at most 2 per x`", "changes"),
    (LINE, "always y does not depend x", "`y does not depend on x`", "does"),
    (LINE, "always y increases with", "Expected a column", ""),
    (DOSES, "always y increases with dos", "There is no column `dos`. Did you mean `dose`?", "dos"),
    (DOSES, "always y increases with pressure", "`pressure` is the target", "pressure"),
    (DOSES, "always y increases with drug", "a category has no order", "drug"),
    (DOSES, "always y increases with drug", "`y with drug = a <= y with drug = b`", "drug"),
    (DOSES, "always y changes by at most 2 per drug", "a category has no order", "drug"),
    (DOSES, "always y changes by at most 0 per dose", "has to be above 0", "0 per"),
    (DOSES, "always y changes by at most age per dose", "is a number, not `age`", "age"),
    (DOSES, "always y changes by at most 2 per 0 dose", "The step after `per` has to be above 0", "0 dose"),
    (DOSES, "always 2 * y increases with dose", "is `pressure` alone, not `2 * y`", "2 *"),
    (DOSES, "always dose increases with age", "is `pressure` alone, not `dose`", "dose"),
    (DOSES, "always y does not depend on drug by more than 0", "has to be above 0", "0"),
    (DOSES, "always y does not depend on site", "has one level", "site"),
    (DOSES, "always not y increases with dose", "cannot be negated", "not"),
    (DOSES, "never y increases with dose", "cannot be negated", "never"),
    (DOSES, "always y increases with dose or y > 2", "cannot be joined by `or`", "y"),
    (DOSES, "always y increases with dose and y > 2", "Write another rule for this", "y > 2"),
    (DOSES, "if y increases with dose then y > 2", "belongs after `then`", "y inc"),
    (DOSES, "always y with drug = a = y with drug = b", "never exactly equal", "= y with"),
    (DOSES, "always y with drug = a != y with drug = b", "never exactly equal", "!="),
    (DOSES, "always y with drug = a > y with drug = b within 2", "`within` is for `=`", "2"),
    (DOSES, "always y with drug = a > y with drug = d", "`d` is not a level of drug", "d"),
    (DOSES, "always y with drug = a > y with drug = a", "two values of one column", "drug = a"),
    (DOSES, "always y with drug = a > y with smoker = 1", "two values of one column", "smoker"),
    (DOSES, "always y with drug = a, age = 3 > y with drug = b", "sets one column", "age"),
    (DOSES, "always y with visits = 1.5 > y with visits = 1", "visits cannot be 1.5", "1.5"),
    (DOSES, "always y with smoker = 2 > y with smoker = 1", "smoker cannot be 2", "2"),
    (DOSES, "if drug = a then y with drug = a > y with drug = b", "Leave drug out of the condition", "drug"),
    (COLOURS, "always label increases with x1", "`P(label = …)`", "label"),
    (
        COLOURS,
        "always P(label = blue) changes by at most 2 per x1",
        "cannot be a difference of probabilities",
        "2",
    ),
    (
        COLOURS,
        "always P(label = blue) with smoker = 1 > P(label = green) with smoker = 0",
        "Both sides of a contrast speak of the same",
        "P(label = green)",
    ),
    (DOSES, "always y is convex in drug", "a category has no order", "drug"),
    (DOSES, "always y is convex in smoker", "has two values", "smoker"),
    (DOSES, "always y is convx in dose", "`y is convex in x`", "is"),
    (DOSES, "always mean y is equal over age", "is a number and has no groups", "age"),
    (DOSES, "always mean y is equal over drug within 0", "has to be above 0", "0"),
    (DOSES, "always mean y is equal over drug and y rises with dose", "a rule of its own", "mean"),
    (DOSES, "always mean dose is equal over drug", "is `pressure` alone, not `dose`", "dose"),
    (DOSES, "always mean y > 3 is equal over drug", "`share y > … is equal over …`", ">"),
    (DOSES, "always share y is equal over drug", "`share y > … is equal over …`", "y"),
    (DOSES, "always share y < 3 is equal over drug", "Write `>`", "<"),
    (DOSES, "always share y > age is equal over drug", "is a number, not `age`", "age"),
    (DOSES, "always share y > 3 is equal over drug within 2", "A difference of two shares", "2"),
    (COLOURS, "always share P(label = blue) > 1 is equal over ward", "between 0 and 1", "1"),
    (DOSES, "always mean y equal over drug", "`mean y is equal over x within 2`", "equal"),
    # units
    (DOSES, "if dose > 3 g then y > 1", "`g` is not the unit here: dose is in mg", "g then"),
    (DOSES, "always y > 3 mg", "`mg` is not the unit here: pressure is in mmHg", "mg"),
    (DOSES, "if age > 3 years then y > 1", "columns={'age': {'unit': 'years'}}", "years"),
    (DOSES, "always y changes by at most 2 per 10 g dose", "`g` is not the unit here", "g dose"),
    (DOSES, "if 2 dose > 3 then y > 1", "A product is written out: `2 * dose`", "dose"),
    (DOSES, "if dose > 60% then y > 1", "`%` is understood for probabilities only", "60%"),
]


@pytest.mark.parametrize(("schema", "rule", "part", "at"), WRONG)
def test_each_mistake_has_its_message_and_its_place(schema, rule, part, at):
    with pytest.raises(RuleError) as caught:
        parse_rule(rule, schema, line=12)
    error = caught.value
    assert part in error.message
    assert isinstance(error, OCBNNError)
    assert (error.rule, error.line) == (rule, 12)
    assert error.position is not None
    assert rule[error.position :].startswith(at) if at else error.position in (0, len(rule))
    assert str(error).startswith("line 12: ")


def test_the_caret_stands_under_the_word():
    with pytest.raises(RuleError) as caught:
        parse_rule("if creatinin > 2 then action = 1", CLINIC, line=3)
    assert str(caught.value) == (
        "line 3: There is no column `creatinin`. Did you mean `creatinine`?\n"
        "  if creatinin > 2 then action = 1\n"
        "     ^"
    )


TERMINALS = ("PAR", "BRACE", "COMMA", "NAME", "NUMBER", "_THEN", "_AND", "$END", "Token(")


def test_no_message_names_a_terminal_of_the_grammar():
    for schema, rule, _, _ in WRONG:
        with pytest.raises(RuleError) as caught:
            parse_rule(rule, schema)
        for terminal in (
            "RPAR",
            "LPAR",
            "RBRACE",
            "LBRACE",
            "NAME",
            "NUMBER",
            "_THEN",
            "_AND",
            "$END",
            "Token(",
        ):
            assert terminal not in caught.value.message


def test_a_rule_is_text_about_a_target():
    with pytest.raises(RuleError, match="A rule is text, not int"):
        parse_rule(3, LINE)
    with pytest.raises(RuleError, match="has no target"):
        parse_rule("always y > 2", Schema((number("x"),)))


def test_the_one_class_that_occurs_says_nothing_and_the_others_can_be_declared():
    schema = Schema((number("x"),), Target("died", "classification", classes=(0,)))
    with pytest.raises(RuleError, match="levels"):
        parse_rule("always died = 0", schema)
