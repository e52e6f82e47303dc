"""What users get wrong, one row each: the exit code, a message that names the cause, and no traceback."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest

from command_line import RULES, run, small_table, words


class Wrong(NamedTuple):
    """A call that goes wrong: its words ({} is the folder), what is said, the code, files made before."""

    what: str
    call: str
    said: str
    code: int = 2
    files: Mapping[str, bytes | str] | Callable[[Path], object] = MappingProxyType({})


LINT = "lint {}/table.csv --target y --rules {}/rules.yaml"
PREDICT = "predict {}/model {}/table.csv"
FIT_CLASSES = "fit {}/table.csv --target sick --ignore y --out {}/new"


def lint(name: str, said: str, content: bytes | str | None = None, what: str = "") -> Wrong:
    files = {} if content is None else {name: content}
    return Wrong(what or name, f"lint {{}}/{name} --target y --rules {{}}/rules.yaml", said, files=files)


def ruled(what: str, rules: bytes | str, said: str, code: int = 2) -> Wrong:
    call = "lint {}/table.csv --target y --rules {}/wrong.yaml"
    return Wrong(f"rules: {what}", call, said, code, {"wrong.yaml": rules})


def fitted(what: str, options: str, said: str, code: int = 2, files=None, table: str = "table.csv") -> Wrong:
    call = f"fit {{}}/{table} --target y --rules {{}}/rules.yaml --ignore sick {options}"
    if "--out" not in options:
        call += " --out {}/new"
    return Wrong(f"fit: {what}", call, said, code, files or {})


def column(name: str, values: list) -> str:
    """The small table with one column replaced."""
    table = small_table(len(values))
    table[name] = values
    return table.to_csv(index=False)


def damage(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    """Change a file of the saved model."""

    def apply(folder: Path) -> None:
        file = folder / "model" / name
        file.write_bytes(change(file.read_bytes()))

    return apply


def newer(content: bytes) -> bytes:
    stored = json.loads(content)
    stored["content"]["version"] = 99
    return json.dumps(stored).encode()


def leftover(folder: Path) -> None:
    (folder / "new.run").mkdir()


TABLES = [
    lint("absent.csv", "no such file"),
    lint("table.xlsx", "not a table that ocbnn reads", b"PK"),
    lint("table", "not a table that ocbnn reads", "x,y\n1,2\n", what="table without an ending"),
    lint("empty.csv", "cannot be read", b""),
    lint("ragged.csv", "Line 3", "x,y\n1,2\n1,2,3,4\n"),
    lint("binary.csv", "NUL byte", bytes(range(256))),
    lint("broken.csv.gz", "cannot be read", b"no gzip"),
    lint("cut.csv.gz", "cannot be read", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xff\xff"),
    lint("broken.parquet", "cannot be read", b"no parquet"),
    lint("header.csv", "no rows", "x,y\n"),
    lint("gaps.csv", "'w' has no value in any row", "x,w,y\n1,,2\n2,,3\n"),
    lint("twice.csv", "several columns named 'x'", "x,x,y\n1,2,3\n2,3,4\n"),
    lint("unnamed.csv", "Column 1", ",x,y\n0,1,2\n1,2,3\n"),
    lint("dates.parquet", "cannot be read", b"PAR1"),
    lint("identifiers.csv", "--ignore", column("ward", [f"p{i}" for i in range(120)])),
    lint("words.csv", "'x' has", column("x", [f"{i} mg" for i in range(120)])),
    lint("infinite.csv", "infinite", column("x", [float("inf"), *range(59)])),
    lint("nothing.csv", "'y' has no value in any row", "x,y\n1,\n2,\n"),
    lint("holes.csv", "Every row has a missing value", "x,w,y\n1,,2\n,2,3\n3,4,\n"),
    Wrong("a folder without tables", "lint {}/model --target y --rules {}/rules.yaml", "holds no table"),
    Wrong("a folder called .csv", "lint {}/d.csv --target y --rules {}/rules.yaml", "is a folder",
          files=lambda folder: (folder / "d.csv").mkdir()),
    Wrong("wrong target", "lint {}/table.csv --target yy --rules {}/rules.yaml", "Did you mean 'y'?"),
    Wrong("wrong task", f"{LINT} --task ranking", "'ranking' cannot"),
    Wrong("regression of words", LINT.replace("get y", "get sick") + " --task regression", "sick"),
    Wrong("table without the rule's column", "lint {}/short.csv --target y --rules {}/rules.yaml",
          "There is no column `x`.",
          files={"short.csv": "z,y\n1,2\n2,3\n"}),
]  # fmt: skip

RULE_FILES = [
    Wrong("rules: no such file", "lint {}/table.csv --target y --rules {}/no.yaml", "there is no such file"),
    Wrong("rules: a folder", "lint {}/table.csv --target y --rules {}", "this is a folder"),
    ruled("misspelt column", "- if ag > 2 then y >= 0\n", "Did you mean `age`?"),
    ruled("misspelt column has a caret", "- if ag > 2 then y >= 0\n", " ^"),
    ruled("half a sentence", "- if x > 2 then\n", " ^"),
    ruled("no rule at all", "- be good\n", "be good"),
    ruled("broken YAML", "{{", "wrong.yaml"),
    ruled("empty file", "", "the file is empty"),
    ruled("unknown field", "- {rule: if x > 1 then y >= 0, colour: red}\n", "colour"),
    ruled("not UTF-8", b"- if x > 1 then y >= 0 # \xff\n", "not UTF-8"),
    ruled(
        "unknown level",
        "- if ward in {a, q} then y >= 0\n",
        "`q` is not a level of ward; known are a, b and c.",
    ),
    ruled("the same name twice", RULES + RULES, "high"),
    ruled("contradiction", "- if x > 0 then y >= 3\n- if x > 1 then y <= 2\n", "contradiction", 1),
    ruled("empty region", "- if x > 2 and x < 1 then y >= 0\n", "empty-region", 1),
]

DECLARATIONS = [
    Wrong("columns: no such file", f"{LINT} --columns {{}}/no", "no such file"),
    *(
        Wrong(f"columns: {what}", f"{LINT} --columns {{}}/c.yaml", said,
              files={"c.yaml": text})
        for what, text, said in [
            ("a list", "- x\n", "does not declare columns"),
            ("broken YAML", "x: {", "not well-formed YAML"),
            ("not UTF-8", b"x: {unit: \xff}", "not UTF-8"),
            ("unknown column", "z: {unit: m}\n", "'z'"),
            ("unknown option", "x: {color: red}\n", "color"),
            ("bounds that rows break", "x: {bounds: [0, 1]}\n", "declared between 0 and 1"),
            ("log of negative numbers", "x: {transform: log}\n", "negative"),
        ]
    ),
]  # fmt: skip

FITS = [
    fitted("--ignore of an unknown column", "--ignore zz", "no column 'zz'"),
    fitted("--ignore of the target", "--ignore y", "'y' is the target"),
    fitted("constant column", "", "is 7 in every row", table="same.csv",
           files={"same.csv": column("age", [7] * 60)}),
    fitted("constant target", "", "The target 'y' is 7.0 in every row", table="same.csv",
           files={"same.csv": column("y", [7.0] * 60)}),
    fitted("--hidden in words", "--hidden many", "--hidden takes numbers"),
    fitted("no hidden units", "--hidden 0", "--hidden takes numbers"),
    fitted("unknown engine", "--engine htm", "Did you mean 'hmc'?"),
    fitted("--hold-out beyond its range", "--hold-out 2", "--hold-out"),
    fitted("--hold-out that is no number", "--hold-out nan", "--hold-out"),
    fitted("--scale without end", "--scale inf", "inf is not a finite number"),
    fitted("--scale beside a prior", "--scale 2 --prior {}/model", "with --prior, leave it out"),
    fitted("no draws", "--draws 0", "--draws"),
    fitted("draws in words", "--draws few", "--draws"),
    fitted("negative seed", "--seed -1", "--seed"),
    fitted("--class-weight for a number", "--class-weight balanced", "class weight is for classes"),
    fitted("settings with a class weight for a number", "--settings {}/s.toml", "weight is for classes",
           files={"s.toml": 'class_weight = "balanced"'}),
    fitted("--noise in words", "--noise loud", "--noise takes 'varying', 'constant', or a standard"),
    fitted("no noise", "--noise 0", "--noise takes"),
    fitted("endless noise", "--noise inf", "--noise takes"),
    fitted("settings with a mistake", "--settings {}/s.toml", "Did you mean 'draws'?",
           files={"s.toml": "drawss = 3"}),
    fitted("no such settings", "--settings {}/s.toml", "no such file"),
    fitted("settings and --quick", "--settings {}/s.toml --quick", "give one of them", files={"s.toml": ""}),
    fitted("unknown option", "--epochs 10", "--epochs"),
    fitted("out is the table", "--out {}/table.csv", "is an input"),
    fitted("out is where the rules are", "--out {}", "is an input"),
    fitted("out is a file", "--out {}/own.txt", "is a file", files={"own.txt": "x"}),
    fitted("out is a folder of something else", "--out {}/own", "it would be lost",
           files=lambda folder: ((folder / "own").mkdir(), (folder / "own" / "model.json").write_text("{}"))),
    fitted("the run's place is taken", "--resume", "which is not of a run",
           files=lambda folder: ((folder / "new.run").mkdir(), (folder / "new.run" / "own").mkdir())),
    fitted("out below a file", "--out {}/table.csv/model", "is not a folder"),
    fitted("nothing to resume", "--resume", "no interrupted run to resume"),
    fitted("an interrupted run in the way", "", "--resume", files=leftover),
    fitted("no such prior", "--prior {}/no", "does not exist"),
    fitted("a model as prior", "--prior {}/model", "holds a saved model; expected a prior"),
    fitted("rules that contradict", "", "contradiction", 1,
           {"rules.yaml": "- if x > 0 then y >= 3\n- if x > 1 then y <= 2\n"}),
    Wrong("fit: unknown class weight", FIT_CLASSES + " --class-weight heavy",
          "class_weight"),
    Wrong("fit: noise of a class", FIT_CLASSES + " --noise varying", "Noise is of numbers"),
    Wrong("fit: one class", "fit {}/one.csv --target sick --ignore y --out {}/new", "nothing to predict",
          files={"one.csv": column("sick", ["yes"] * 60)}),
    Wrong("fit: no --out", "fit {}/table.csv --target y", "--out"),
    Wrong("fit: no table", "fit --target y --out {}/new", "TABLE"),
]  # fmt: skip

MODELS = [
    Wrong("predict: no model", "predict {}/no {}/table.csv", "does not exist"),
    Wrong("predict: a file as model", "predict {}/rules.yaml {}/table.csv", "is not a folder"),
    Wrong("predict: another folder", "predict {} {}/table.csv", "manifest.json is missing"),
    Wrong("predict: draws cut off", PREDICT, "draws.safetensors is damaged",
          files=damage("draws.safetensors", lambda content: content[:-8])),
    Wrong("predict: draws changed", PREDICT, "draws.safetensors is damaged",
          files=damage("draws.safetensors", lambda content: content[:-1] + b"!")),
    Wrong("predict: model.json cut off", PREDICT, "model.json is damaged",
          files=damage("model.json", lambda content: content[:100])),
    Wrong("predict: rules changed", "check {}/model", "damaged",
          files=damage("rules.yaml", lambda content: content.replace(b"x > 1", b"x > 9"))),
    Wrong("predict: a newer version", PREDICT, "Update ocbnn",
          files=damage("manifest.json", newer)),
    Wrong("predict: no table", "predict {}/model {}/no.csv", "no such file"),
    Wrong("predict: no such folder", "predict {}/model {}/nowhere --out {}/predicted", "nowhere is missing"),
    Wrong("predict: a column is missing", "predict {}/model {}/short.csv", "no column 'ward'",
          files={"short.csv": "x,age\n1,2\n"}),
    Wrong("predict: no rows", "predict {}/model {}/none.csv", "no rows", files={"none.csv": "x,ward,age\n"}),
    Wrong("predict: only gaps", "predict {}/model {}/gaps.csv", "Every row has a missing value",
          files={"gaps.csv": "x,ward,age\n,a,30\n"}),
    Wrong("predict: unseen level", "predict {}/model {}/new.csv", "unseen category 'q'",
          files={"new.csv": "x,ward,age\n1,q,30\n"}),
    Wrong("predict: words for numbers", "predict {}/model {}/new.csv", "'x'",
          files={"new.csv": "x,ward,age\nhigh,a,30\n"}),
    Wrong("predict: --interval 90", PREDICT + " --interval 90", "between 0 and 1"),
    Wrong("predict: --json and --out", PREDICT + " --json --out {}/p.csv", "give one of them"),
    Wrong("predict: out as .xlsx", PREDICT + " --out {}/p.xlsx", "not a table"),
    Wrong("predict: out is a folder", PREDICT + " --out {}/d.csv", "is a folder",
          files=lambda folder: (folder / "d.csv").mkdir()),
    Wrong("predict: out below a file", PREDICT + " --out {}/table.csv/p.csv", "not a folder"),
    Wrong("predict: --keep of an unknown one", PREDICT + " --keep name", "no column 'name'"),
    Wrong("predict: --keep of a name that predictions have", "predict {}/model {}/p.csv --keep upper",
          "predictions have a column of that name",
          files={"p.csv": "x,ward,age,upper\n1,a,30,2\n"}),
    Wrong("check: no model", "check {}/no", "does not exist"),
    Wrong("check: unknown group", "check {}/model --by agee", "Did you mean 'age'?"),
    Wrong("check: other rules with a mistake", "check {}/model --rules {}/wrong.yaml", " ^",
          files={"wrong.yaml": "- if ag > 2 then y >= 0\n"}),
    Wrong("check: no points", "check {}/model --points 0", "--points"),
    Wrong("check: a rule unmet", "check {}/model --rules {}/other.yaml --quiet", "UNMET other", 1,
          {"other.yaml": "- {name: other, rule: always y >= 100, tolerance: 0.001}\n"}),
    Wrong("enforce: unknown method", "enforce {}/model --method hope --out {}/e", "draws or proved"),
    Wrong("enforce: onto itself", "enforce {}/model --out {}/model", "is an input"),
    Wrong("enforce: no --out", "enforce {}/model", "--out"),
    Wrong("report: no model", "report {}/no --out {}/r.html", "does not exist"),
    Wrong("report: evidence damaged", "report {}/model --out {}/r.html", "evidence.json is damaged",
          files=damage("evidence.json", lambda content: b"{}")),
    Wrong("report: out below a file", "report {}/model --out {}/table.csv/r.html", "is not a folder"),
    Wrong("report: rows without the target", "report {}/model --table {}/short.csv --out {}/r.html",
          "no column 'y'", files={"short.csv": "x,ward,age\n1,a,2\n"}),
    *(
        Wrong(f"report: {name} of the model", f"report {{}}/model --out {{}}/model/{name}.html",
              "would be lost")
        for name in ("model", "evidence", "diagnostics")
    ),
    Wrong("report: figures over another file", "report {}/model --out {}/notes.html", "notes.json exists",
          files={"notes.json": "{}"}),
    Wrong("predict: over the table", "predict {}/model {}/table.csv --out {}/table.csv", "is an input"),
    Wrong("columns: a device", f"{LINT} --columns /dev/zero", "a device or a pipe"),
    Wrong("columns: aliases", f"{LINT} --columns {{}}/c.yaml", "aliases",
          files={"c.yaml": "x: &a {unit: m}\nage: *a\n"}),
    Wrong("columns: a name twice", f"{LINT} --columns {{}}/c.yaml", "`x` is given twice",
          files={"c.yaml": "x: {unit: m}\nx: {unit: s}\n"}),
    Wrong("columns: an odd tag", f"{LINT} --columns {{}}/c.yaml", "is not !!int",
          files={"c.yaml": "x: {bounds: [!!int '', 3]}\n"}),
    Wrong("columns: a large file", f"{LINT} --columns {{}}/c.yaml", "more than the limit",
          files={"c.yaml": "#" * 1_000_001}),
    fitted("settings from a device", "--settings /dev/zero", "a device or a pipe"),
    fitted("settings from a folder", "--settings {}", "is a folder"),
    Wrong("verify: no folder", "verify {}/no", "does not exist"),
    Wrong("verify: another folder", "verify {}", "manifest.json is missing", 1),
    Wrong("verify: evidence damaged", "verify {}/model", "evidence.json is damaged", 1,
          files=damage("evidence.json", lambda content: content[:-2] + b" \n")),
    Wrong("verify: the twin damaged", "verify {}/model", "without_rules/draws.safetensors is damaged", 1,
          files=damage("without_rules/draws.safetensors", lambda content: content[:-1] + b"!")),
    Wrong("verify: the manifest damaged", "verify {}/model", "does not have its checksum", 1,
          files=damage("manifest.json", lambda content: content.replace(b'"model"', b'"prior"'))),
    Wrong("report: the twin's rules damaged", "report {}/model --out {}/r.html",
          "without_rules/model.json is damaged",
          files=damage("without_rules/model.json", lambda content: content.replace(b"0", b"1", 1))),
    Wrong("a posterior as model", "predict {}/model/without_rules {}/table.csv", "is a part of"),
    Wrong("learn-prior: no rules", "learn-prior {}/table.csv --target y --out {}/p", "--rules"),
    Wrong("learn-prior: hidden in words",
          LINT.replace("lint", "learn-prior") + " --hidden x --out {}/p", "--hidden takes"),
    Wrong("learn-prior: a folder of something else",
          LINT.replace("lint", "learn-prior") + " --out {}/model", "it would be lost"),
    Wrong("demo: a model's place is taken", "demo --out {}/demo", "it would be lost",
          files=lambda folder: (folder / "demo" / "model" / "mine").mkdir(parents=True)),
    Wrong("reproduce: moved", "reproduce fig1 --setting ours --out {}/r", "python -m reproduce fig1"),
    Wrong("reproduce: moved, without arguments", "reproduce", "python -m reproduce fig1"),
    Wrong("demo: below a file", "demo --out {}/table.csv/demo", "is not a folder"),
    Wrong("no such command", "train {}/table.csv", "train"),
]  # fmt: skip

CASES = [*TABLES, *RULE_FILES, *DECLARATIONS, *FITS, *MODELS]


def test_there_are_at_least_forty():
    assert len({case.what for case in CASES}) == len(CASES) >= 40


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)
def test_it_is_a_sentence_with_its_exit_code(case, files, request):
    folder = files
    if case.files:
        folder = request.getfixturevalue("own_files")
        if callable(case.files):
            case.files(folder)
        else:
            for name, content in case.files.items():
                (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    before = sorted(folder.rglob("*"))
    result = run(*case.call.replace("{}", str(folder)).split())
    assert result.exit_code == case.code, result.output
    assert case.said in (result.output if "^" in case.said else words(result))
    assert "Traceback" not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert sorted(folder.rglob("*")) == before  # and nothing half done is left behind
