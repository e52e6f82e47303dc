"""Rules in files: what is read, what is refused and where, and that writing and reading agree."""

from __future__ import annotations

import pytest

from language_schemas import CLINIC, COLOURS, LINE
from ocbnn.errors import RuleError
from ocbnn.regions import Everywhere
from ocbnn.rules import Constraint, dump_rules, load_rules, parse_rule
from ocbnn.storage.documents import LARGEST_INPUT

FULL = """\
# what the clinic agreed on
- name: act on failing kidneys
  rule: if creatinine > 2 and BUN > 40 and urine < 30 then action = 1
  source: "KDIGO 2012, section 3"
  reason: three signs together
  tolerance: 0.02
- rule: >
    if lactate > 4
    then P(action = 1) >= 0.95   # in a block, colons and quotes need no care
- if age < 20 then action = 0
"""


@pytest.fixture
def write(tmp_path):
    def write(content):
        path = tmp_path / "rules.yaml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def refused(path, schema=CLINIC):
    with pytest.raises(RuleError) as caught:
        load_rules(path, schema)
    return caught.value


def test_rules_are_read_with_all_they_carry(write):
    first, second, third = load_rules(write(FULL), CLINIC)
    assert first == parse_rule(
        "if creatinine > 2 and BUN > 40 and urine < 30 then action = 1",
        CLINIC,
        name="act on failing kidneys",
        source="KDIGO 2012, section 3",
        reason="three signs together",
        tolerance=0.02,
    )
    assert second == parse_rule("if lactate > 4 then P(action = 1) >= 0.95", CLINIC)
    assert third == parse_rule("if age < 20 then action = 0", CLINIC)


def test_the_list_may_stand_under_rules_and_after_a_byte_order_mark(write):
    expected = (parse_rule("always action = 1", CLINIC, tolerance=0),)
    assert load_rules(write("rules:\n- rule: always action = 1\n  tolerance: 0\n"), CLINIC) == expected
    assert load_rules(write(b"\xef\xbb\xbf- {rule: always action = 1, tolerance: 0}"), CLINIC) == expected
    assert load_rules(str(write("- {rule: always action = 1, tolerance: 0}")), CLINIC) == expected


def test_written_rules_read_back_as_the_same(write):
    rules = [
        parse_rule(
            "if x > 2 then y ~ Normal(3, 0.5)",
            LINE,
            name="a: #1",
            source="'ja'",
            reason="größer",
            tolerance=0.1,
        ),
        parse_rule("if 4 <= x <= 5 then y = 2 (0.7) or y = 3 (0.3)", LINE),
        parse_rule("always not 1 <= y <= 2.5", LINE, name="yes", tolerance=0),
    ]
    assert load_rules(write(dump_rules(rules, LINE)), LINE) == tuple(rules)
    coloured = [parse_rule("if ward = 'long stay' and `odd ``name``` > 1 then label = 'red'", COLOURS)]
    assert load_rules(write(dump_rules(coloured, COLOURS)), COLOURS) == tuple(coloured)


def test_written_rules_are_plain_lists_with_the_fields_in_order():
    rule = parse_rule("always y > 0", LINE, tolerance=0.5, name="positive", reason="a mass")
    assert (
        dump_rules([rule], LINE)
        == "- name: positive\n  rule: always y > 0\n  reason: a mass\n  tolerance: 0.5\n"
    )


def test_what_has_no_text_cannot_be_written():
    function = Constraint.from_functions(Everywhere(), lambda x, y: y, name="mine")
    with pytest.raises(RuleError, match="`mine` cannot be written to a file"):
        dump_rules([function], LINE)
    written = parse_rule("if x > 1 then y > 0", LINE)
    other = Constraint(Everywhere(), written.requirement, written.condition)
    with pytest.raises(RuleError, match="Rule 1 has a region of its own"):
        dump_rules([other], LINE)


@pytest.mark.parametrize(
    ("content", "part", "line"),
    [
        ("", "the file is empty", None),
        ("# only a comment\n", "the file is empty", None),
        ("[]", "the list of rules is empty", 1),
        ("rules: []", "the list of rules is empty", 1),
        ("3", "holds no list of rules", 1),
        ("rules: 3", "holds no list of rules", 1),
        ("{}", "no key at all", 1),
        ("rules: []\nmore: 1", "it has `rules` and `more`", 1),
        ("- []", "rule 1 is a list", 1),
        ("- name: a\n  source: b", "rule 1 has no field `rule:`", 1),
        (
            "- rule: always action = 1\n- rule: always action = 1\n  tolerence: 0.1",
            "Did you mean `tolerance`?",
            3,
        ),
        (
            "- rule: always action = 1\n  weight: 3",
            "known are `name`, `rule`, `source`, `reason`, `tolerance`, `by` and `holds`",
            2,
        ),
        ("- rule: always action = 1\n  tolerance: high", "`tolerance` of rule 1 has to be a number", 2),
        ("- rule: always action = 1\n  tolerance: true", "`tolerance` of rule 1 has to be a number", 2),
        ("- rule: always action = 1\n  tolerance: [1]", "not a list or a mapping", 2),
        ("- rule: always action = 1\n  tolerance: 1.0", "The tolerance 1 is outside [0, 1)", 1),
        ("- rule: always action = 1\n  tolerance: .nan", "A tolerance is a number", 1),
        (
            "- rule: always action = 1\n  source: 2012",
            "`source` of rule 1 has to be text, not `2012`. Put it in quotes",
            2,
        ),
        ("- rule: always action = 1\n  source: 2012-01-02", "`source` of rule 1 has to be text", 2),
        ("- rule: yes", "`rule` of rule 1 has to be text", 1),
        ("- rule:", "`rule` of rule 1 has to be text", 1),
        ("- rule: {a: b}", "`rule` of rule 1 has to be text", 1),
        ("- rule: !!python/name:os.system", "the tag !!python/name:os.system is not read", 1),
        ("- rule: !!python/object/apply:os.getcwd []", "the tag !!python/object/apply:os.getcwd", 1),
        ("- rule: always action = 1\n  tolerance: !!int ''", "'' is not !!int", 2),
        ("- rule: always action = 1\n  tolerance: " + "9" * 401, "too long for a number", 2),
        ("- rule: always action = 1\n  tolerance: " + "9" * 350, "too large a number", 2),
        ("- ? [a]\n  : b", "a key has to be text", 1),
        ("- <<: {a: b}", "a key has to be text", 1),
        ("- rule: always action = 1\n  rule: always action = 0", "`rule` is given twice", 2),
        (
            "- name: a\n  rule: always action = 1\n- name: a\n  rule: always action = 0",
            "two rules have the name `a`",
            4,
        ),
        ("- name: a\n  rule: >\n    if creatinin > 2\n    then action = 1", "Did you mean `creatinine`?", 2),
        ("- always action = 1\n- if age > then action = 1", "Expected a column or a number", 2),
        ("- rule: if x: 3\n  - b", "not well-formed YAML", 1),
        ("- \tx", "not well-formed YAML", None),
        ("- a\n---\n- b", "not well-formed YAML", 2),
        ("- &a always action = 1\n- *a", "aliases", 2),
        ("- \x07", "not well-formed YAML", None),
        ("[" * 5000, "nested too deeply", 1),
        (b"- rule: always action = 1\n- \xff\xfe", "not UTF-8", 2),
        (b"#" * (LARGEST_INPUT + 1), "more than the limit", None),
    ],
)
def test_a_file_that_cannot_be_read_says_what_and_where(write, content, part, line):
    path = write(content)
    error = refused(path)
    assert part in error.message
    assert error.message.startswith(f"{path}: ")
    assert line is None or error.line == line


def test_a_bomb_of_aliases_is_refused(write):
    levels = ["a0: &a0 [x, x]"] + [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 12)]
    assert "aliases" in refused(write("\n".join(levels))).message


def test_missing_files_and_folders_are_told_apart(tmp_path):
    assert "no such file" in refused(tmp_path / "none.yaml").message
    assert "a folder" in refused(tmp_path).message
    assert "cannot be read" in refused("a\0b").message


def test_a_wrong_rule_in_a_file_shows_file_line_rule_and_caret(write):
    path = write("- always action = 1\n- if creatinin > 2 then action = 1\n")
    assert str(refused(path)) == (
        f"line 2: {path}: There is no column `creatinin`. Did you mean `creatinine`?\n"
        "  if creatinin > 2 then action = 1\n"
        "     ^"
    )


def test_how_a_rule_is_kept_is_written_and_read(write):
    text = "- {rule: always y increases with x, by: construction}\n- {rule: always y <= 9, by: prior}\n"
    rules = load_rules(write(text + "- always y >= 0\n"), LINE)
    assert [rule.by for rule in rules] == ["construction", "prior", None]
    written = dump_rules(rules, LINE)
    assert written.count("by: ") == 2
    assert load_rules(write(written), LINE) == rules


def test_a_way_of_keeping_a_rule_that_is_none_is_refused_with_its_line(write):
    error = refused(write("- always y >= 0\n- rule: always y increases with x\n  by: magic\n"), LINE)
    assert error.line == 2
    assert "by construction or by prior" in str(error)
    error = refused(write("- {rule: if x > 1 then y increases with x, by: construction}\n"), LINE)
    assert "this one has a condition" in str(error)


@pytest.mark.parametrize("holds", ["everywhere", "over rows"])
def test_where_a_rule_holds_is_written_and_read_again(write, holds):
    everywhere = parse_rule("always y > 0", LINE, holds=holds)
    average = parse_rule("always y > 1", LINE, holds="on average")
    text = dump_rules([everywhere, average], LINE)
    assert text == f"- rule: always y > 0\n  holds: {holds}\n- rule: always y > 1\n"
    assert load_rules(write(text), LINE) == (everywhere, average)
    said = "- rule: always y > 1\n  holds: on average\n"
    assert load_rules(write(said), LINE) == (average,)


def test_another_word_for_where_it_holds_is_refused_with_its_line(write):
    error = refused(write("- rule: always action = 1\n  holds: sometimes\n"))
    known = "`on average`, `everywhere`, `over rows` or `proved`"
    assert f"`holds` of rule 1 is {known}, not `sometimes`" in str(error)
    assert error.line == 2
