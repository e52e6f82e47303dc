"""Wrong inputs to the command line, made systematically: every command × every option × kinds of wrongness.

Each ends with exit code 2 (1 where lint finds an error in the rules) and a message that names its cause. None
shows a traceback, and none writes anything.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from command_line import run, small_table, words, write_files

QUICK = 7
"""Every seventh case runs among the quick tests, all of them among the slow ones."""


class Wrong(NamedTuple):
    """A call that goes wrong; {} is the folder, `files` prepares it, `says` is part of the message."""

    call: str
    says: str
    files: Callable[[Path], object] = lambda folder: None
    code: int = 2


# What can be in the place of a file -------------------------------------------------------------------------


def written(name: str, content: str | bytes) -> Callable[[Path], object]:
    data = content.encode() if isinstance(content, str) else content
    return lambda folder: (folder / name).write_bytes(data)


def places(name: str) -> dict[str, tuple[Callable[[Path], object], str]]:
    """What may be where a file is expected, with what is said about it."""
    return {
        "nothing": (lambda folder: None, "no such file"),
        "a folder": (lambda folder: (folder / name).mkdir(), "is a folder"),
        "a device": (lambda folder: (folder / name).symlink_to("/dev/zero"), "device or a pipe"),
        "a pipe": (lambda folder: os.mkfifo(folder / name), "device or a pipe"),
        "a link to itself": (lambda folder: (folder / name).symlink_to(folder / name), "cannot be read"),
    }


# Tables -----------------------------------------------------------------------------------------------------

TABLE = small_table()
CSV = TABLE.to_csv(index=False)
LINES = CSV.splitlines()
HEADER, FIRST, REST = LINES[0], LINES[1], "\n".join(LINES[2:]) + "\n"


def with_cell(text: str) -> str:
    """The table with this text in the first cell of x."""
    return f'{HEADER}\n"{text}",{FIRST.split(",", 1)[1]}\n{REST}'


DAMAGED_TABLES: dict[str, tuple[str, str | bytes, str]] = {
    "empty": ("t.csv", b"", "it is empty"),
    "only a byte order mark": ("t.csv", b"\xef\xbb\xbf", "it is empty"),
    "only blank lines": ("t.csv", "\n\n\n", "it is empty"),
    "first line blank": ("t.csv", "\n" + CSV, "first line"),
    "only a header": ("t.csv", HEADER + "\n", "no rows"),
    "a longer row": ("t.csv", f"{HEADER}\n{FIRST}\n{FIRST},7\n", "Line 3"),
    "a shorter row": ("t.csv", f"{HEADER}\n{FIRST}\n1,a\n", "Line 3"),
    "one more value in every row": (
        "t.csv",
        HEADER + "\n" + "".join(f"{i},{line}\n" for i, line in enumerate(LINES[1:])),
        "6 values, but its header names 5",
    ),
    "an unnamed index": ("t.csv", TABLE.to_csv(), "Column 1"),
    "a name twice": ("t.csv", CSV.replace("age", "x", 1), "several columns named 'x'"),
    "UTF-16": ("t.csv", CSV.encode("utf-16"), "UTF-16"),
    "Latin-1": ("t.csv", CSV.replace(",a,", ",é,").encode("latin-1"), "not UTF-8"),
    "a NUL byte": ("t.csv", CSV.replace(",a,", ",\0,", 1), "NUL byte"),
    "an open quote": ("t.csv", CSV.replace(",a,", ',"a,', 1), "t.csv"),
    "a word after a quote": ("t.csv", CSV.replace(",a,", ',"a"b,', 1), "line 2"),
    "a number below detection": ("t.csv", with_cell("<0.1"), "'<0.1'"),
    "a number with its unit": ("t.csv", with_cell("3 mg"), "'3 mg'"),
    "a date": ("t.csv", with_cell("2024-01-01"), "'2024-01-01'"),
    "decimal commas": ("t.csv", TABLE.to_csv(index=False, sep=";", decimal=","), "--decimal"),
    "an infinite number": ("t.csv", with_cell("inf"), "infinite"),
    "a number beyond all": ("t.csv", with_cell("1e999"), "infinite"),
    "columns missing": ("t.csv", "z,y\n1,2\n3,4\n", "There is no column `x`|no column 'x'"),
    "no gzip": ("t.csv.gz", CSV, "cannot be read"),
    "half a gzip": ("t.csv.gz", gzip.compress(CSV.encode())[:-20], "cannot be read"),
    "an empty gzip": ("t.csv.gz", gzip.compress(b""), "it is empty"),
    "no parquet": ("t.parquet", CSV, "cannot be read"),
    "half a parquet": ("t.parquet", b"PAR1" + b"\0" * 100 + b"PAR1", "cannot be read"),
    "a spreadsheet": ("t.xlsx", b"PK", "not a table that ocbnn reads"),
}

WITH_TABLE = {
    "lint": "lint {{}}/{} --target y --rules {{}}/rules.yaml",
    "fit": "fit {{}}/{} --target y --ignore sick --rules {{}}/rules.yaml --out {{}}/new",
    "predict": "predict {{}}/model {{}}/{} --out {{}}/p.csv",
    "report": "report {{}}/model --table {{}}/{} --out {{}}/r.html",
    "learn-prior": "learn-prior {{}}/{} --target y --rules {{}}/rules.yaml --out {{}}/new",
}


def tables() -> Iterator[tuple[str, Wrong]]:
    for command, call in WITH_TABLE.items():
        for what, (name, content, says) in DAMAGED_TABLES.items():
            if (
                what == "columns missing" and command == "fit"
            ):  # it would say that there is no column to ignore
                says = "no column 'sick'"
            yield f"{command}: {what}", Wrong(call.format(name), says, written(name, content))
        for what, (prepare, says) in places("t.csv").items():
            yield f"{command}: table is {what}", Wrong(call.format("t.csv"), says, prepare)


# Folders of tables: one file is right, the other is not ----------------------------------------------------

DAMAGED_HEADERS: dict[str, tuple[str | bytes, str]] = {
    "empty": (b"", "it is empty"),
    "first line blank": ("\n" + CSV, "first line"),
    "an unnamed index": (TABLE.to_csv(), "Column 1"),
    "a name twice": (CSV.replace("age", "x", 1), "several columns named 'x'"),
    "UTF-16": (CSV.encode("utf-16"), "UTF-16"),
    "columns missing": ("z,y\n1,2\n3,4\n", "no column 'x'"),
}
DAMAGED_ROWS: dict[str, tuple[str | bytes, str]] = {
    "a longer row": (f"{HEADER}\n{FIRST}\n{FIRST},7\n", "cannot be read"),
    "a shorter row": (f"{HEADER}\n{FIRST}\n1,a\n", "cannot be read"),
    "Latin-1": (CSV.replace(",a,", ",é,").encode("latin-1"), "UTF"),
    "a number below detection": (with_cell("<0.1"), "The column 'x'"),
    "an infinite number": (with_cell("inf"), "infinite"),
}
WITH_FOLDER = {
    "lint": "lint {}/f --target y --rules {}/rules.yaml",
    "fit": "fit {}/f --target y --ignore sick --rules {}/rules.yaml --out {}/new",
    "predict": "predict {}/model {}/f --out {}/p",
    "learn-prior": "learn-prior {}/f --target y --rules {}/rules.yaml --out {}/new",
}


def beside(prepare: Callable[[Path], object]) -> Callable[[Path], object]:
    """A folder f with a whole file; what is wrong is made in it."""

    def apply(folder: Path) -> None:
        (folder / "f").mkdir()
        (folder / "f" / "a.csv").write_text(CSV)
        prepare(folder / "f")

    return apply


def folders() -> Iterator[tuple[str, Wrong]]:
    for command, call in WITH_FOLDER.items():
        damaged = DAMAGED_HEADERS if command == "predict" else {**DAMAGED_HEADERS, **DAMAGED_ROWS}
        for what, (content, says) in damaged.items():
            yield f"{command}: folder: {what}", Wrong(call, says, beside(written("b.csv", content)))
        yield f"{command}: folder: no gzip", Wrong(call, "cannot be read", beside(written("b.csv.gz", CSV)))
        for what, (prepare, says) in places("b.csv").items():
            if what not in ("nothing", "a folder"):
                yield f"{command}: folder: {what}", Wrong(call, says, beside(prepare))
        absent = call.replace("{}/f", "{}/none")
        yield f"{command}: folder: absent", Wrong(absent, "no such file|not a table")
    few, far = "--workers\t0", "--workers\t1\t--cluster\ttcp://127.0.0.1:1"
    yield "no workers", Wrong(f"{WITH_FOLDER['predict']} {few}", "--workers", beside(lambda folder: None))
    yield "workers twice", Wrong(f"{WITH_FOLDER['predict']} {far}", "give one", beside(lambda folder: None))


# Rules and declarations -------------------------------------------------------------------------------------

DAMAGED_RULES: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "empty"),
    "binary": (bytes(range(256)), "UTF-8|YAML"),
    "not UTF-8": (b"- if x > 1 then y >= 0 # \xff\n", "UTF-8"),
    "UTF-16": ("- if x > 1 then y >= 0\n".encode("utf-16"), "UTF-8|UTF-16"),
    "broken YAML": ("- {", "YAML"),
    "an alias": ("- &a if x > 1 then y >= 0\n- *a\n", "aliases"),
    "a key twice": ("- {rule: if x > 1 then y >= 0, rule: if x > 2 then y >= 0}\n", "twice"),
    "an unknown field": ("- {rule: if x > 1 then y >= 0, colour: red}\n", "colour"),
    "a number": ("- 7\n", "rule"),
    "a mapping": ("x: 1\n", "list of rules"),
    "an empty list": ("[]\n", "empty"),
    "a tag": ("- {rule: if x > 1 then y >= 0, tolerance: !!int ''}\n", "is not !!int"),
    "too many digits": (f"- if x > {'9' * 400} then y >= 0\n", "r.yaml"),
    "nested": ("- " + "[" * 5000, "r.yaml"),
    "too large": ("#" * 1_000_001, "more than the limit"),
    "an unknown column": ("- if ag > 1 then y >= 0\n", "Did you mean `age`?"),
    "half a sentence": ("- if x > 1 then\n", "r.yaml"),
    "no sentence": ("- be good\n", "be good"),
    "a tolerance beyond 1": ("- {rule: if x > 1 then y >= 0, tolerance: 2}\n", "tolerance"),
    "two of one name": ("- {name: a, rule: if x > 1 then y >= 0}\n" * 2, "name"),
}

WITH_RULES = {
    "lint": "lint {}/table.csv --target y --rules {}/r.yaml",
    "fit": "fit {}/table.csv --target y --ignore sick --rules {}/r.yaml --out {}/new",
    "check": "check {}/model --rules {}/r.yaml",
    "learn-prior": "learn-prior {}/table.csv --target y --rules {}/r.yaml --out {}/new",
}

DAMAGED_COLUMNS: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "does not declare columns"),
    "a list": ("- x\n", "does not declare columns"),
    "not UTF-8": (b"x: {unit: \xff}", "UTF-8"),
    "broken YAML": ("x: {", "YAML"),
    "an alias": ("x: &a {unit: m}\nage: *a\n", "alias"),
    "a column twice": ("x: {unit: m}\nx: {unit: s}\n", "twice"),
    "an option twice": ("x: {unit: m, unit: s}\n", "twice"),
    "a tag of a number": ("x: {bounds: [!!int '', 1]}\n", "c.yaml"),
    "a tag of a date": ("x: {unit: !!timestamp x}\n", "c.yaml"),
    "a tag of Python": ("x: {unit: !!python/object:os.system x}\n", "c.yaml"),
    "too many digits": (f"x: {{bounds: [0, {'9' * 5000}]}}\n", "c.yaml"),
    "nested": ("x: " + "[" * 5000, "c.yaml"),
    "too large": ("#" * 1_000_001, "more than the limit"),
    "an unknown column": ("z: {unit: m}\n", "'z'"),
    "an unknown option": ("x: {color: red}\n", "color"),
    "an unknown kind": ("x: {kind: real}\n", "kind"),
    "an unknown transform": ("x: {transform: sqrt}\n", "transform"),
    "bounds in words": ("x: {bounds: [low, high]}\n", "bounds"),
    "no bounds": ("x: {bounds: []}\n", "bounds"),
    "bounds reversed": ("x: {bounds: [9, -9]}\n", "bounds"),
    "bounds that are not numbers": ("x: {bounds: [.nan, 1]}\n", "bounds"),
    "no levels": ("ward: {levels: []}\n", "ward"),
    "levels that are dates": ("ward: {levels: [2024-01-01]}\n", "levels"),
    "a unit that is a list": ("x: {unit: [m]}\n", "unit"),
}

WITH_COLUMNS = {command: WITH_RULES[command].replace("r.yaml", "rules.yaml") + " --columns {}/c.yaml"
                for command in ("lint", "fit", "learn-prior")}  # fmt: skip

DAMAGED_SETTINGS: dict[str, tuple[str | bytes, str]] = {
    "not UTF-8": (b"draws = '\xff'", "UTF-8"),
    "broken TOML": ("draws = ", "TOML"),
    "nested": ("draws = " + "[" * 5000, "s.toml"),
    "too many digits": (f"draws = {'9' * 5000}", "s.toml"),
    "an option twice": ("draws = 1\ndraws = 2\n", "TOML"),
    "an unknown option": ("drawss = 3", "Did you mean 'draws'?"),
    "a number in words": ('draws = "many"', "draws"),
    "an unknown engine": ('[engine]\nname = "htm"', "Did you mean 'hmc'?"),
    "too large": ("#" * 1_000_001, "more than the limit"),
    "more draws than fit into memory": (f"draws = {10**15}", "are free"),
    "more steps than end": (f'[engine]\nname = "bbb"\nsteps = {10**15}', "days"),
}


def small_files() -> Iterator[tuple[str, Wrong]]:
    for kind, calls, name, damages in (
        ("rules", WITH_RULES, "r.yaml", DAMAGED_RULES),
        ("columns", WITH_COLUMNS, "c.yaml", DAMAGED_COLUMNS),
        ("settings", {"fit": f"{FIT} --settings {{}}/s.toml"}, "s.toml", DAMAGED_SETTINGS),
    ):
        for command, call in calls.items():
            for what, (content, says) in damages.items():
                yield f"{command}: {kind}: {what}", Wrong(call, says, written(name, content))
            for what, (prepare, says) in places(name).items():
                yield f"{command}: {kind}: {what}", Wrong(call, says, prepare)


# Options ----------------------------------------------------------------------------------------------------

LINT = "lint {}/table.csv --target y --rules {}/rules.yaml"
FIT = "fit {}/table.csv --target y --ignore sick --rules {}/rules.yaml --out {}/new"
LEARN = "learn-prior {}/table.csv --target y --rules {}/rules.yaml --out {}/new"
PREDICT, CHECK = "predict {}/model {}/table.csv", "check {}/model"
ENFORCE, REPORT, DEMO = (
    "enforce {}/model --out {}/new",
    "report {}/model --out {}/r.html",
    "demo --out {}/new",
)

NOT_WHOLE = ("few", "1.5", "nan", "")
BELOW_ONE = (*NOT_WHOLE, "0", "-3")
NOT_FINITE = ("much", "nan", "inf", "")
HUGE = (str(10**13), "1" + "0" * 400)
OPTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "--seed": ((LINT.replace("lint", "fit") + " --out {}/new", LEARN, CHECK, REPORT, DEMO),
               (*NOT_WHOLE, "-1", str(2**31))),
    "--hidden": ((FIT, LEARN), ("many", "0", "-3", "1.5", "", "20,,20", "20;20", "1000000000", *HUGE)),
    "--draws": ((FIT,), (*BELOW_ONE, *HUGE)),
    "--chains": ((FIT,), (*BELOW_ONE, *HUGE)),
    "--cores": ((FIT,), BELOW_ONE),
    "--scale": ((FIT,), (*NOT_FINITE, "-1")),
    "--tolerance": ((FIT,), (*NOT_FINITE, "-0.1", "1.1")),
    "--hold-out": ((FIT,), (*NOT_FINITE, "-0.1", "0.95")),
    "--points": ((CHECK,), (*BELOW_ONE, *HUGE)),
    "--interval": ((PREDICT,), (*NOT_FINITE, "0", "1", "90")),
    "--engine": ((FIT, f"{FIT} --quick"), ("htm", "")),
    "--task": ((LINT, FIT, LEARN), ("ranking", "")),
    "--target": ((LINT, FIT, LEARN), ("yy", "")),
    "--ignore": ((LINT, FIT, LEARN), ("zz", "", "y")),
    "--decimal": ((LINT, FIT, LEARN, PREDICT, f"{REPORT} --table {{}}/table.csv"), (";", "")),
    "--class-weight": ((FIT,), ("heavy", "balanced")),
    "--method": ((ENFORCE,), ("hope", "")),
    "--by": ((CHECK,), ("agee", "y", "")),
    "--keep": ((PREDICT,), ("name", "")),
    "--prior": ((FIT,), ("{}/no", "{}/model", "{}/table.csv", "/dev/zero")),
    "--out": ((f"{PREDICT} --quiet",), ("{}/p.xlsx", "{}/table.csv/p.csv", "{}", "{}/model")),
    "--no-such-option": ((LINT, FIT, LEARN, PREDICT, CHECK, ENFORCE, REPORT, DEMO), ("1",)),
}  # fmt: skip

CLASHES = {
    "--quick and --settings": (f"{FIT} --quick --settings {{}}/s.toml", "give one of them"),
    "--scale and --prior": (f"{FIT} --scale 2 --prior {{}}/model", "leave it out"),
    "--json and --out": (f"{PREDICT} --json --out {{}}/p.csv", "give one of them"),
    "enforce onto itself": ("enforce {}/model --out {}/model", "is an input"),
    "nothing to resume": (f"{FIT} --resume", "no interrupted run"),
    "fit without --out": (FIT.replace("--out {}/new", ""), "--out"),
    "fit without a table": (FIT.replace("{}/table.csv", "", 1), "TABLE"),
    "learn-prior without rules": (LEARN.replace("--rules {}/rules.yaml", ""), "--rules"),
    "predict without a table": ("predict {}/model", "TABLE"),
    "no such command": ("train {}/table.csv", "train"),
    **{f"{call.split()[0]} onto a file": (call.replace("{}/new", "{}/table.csv"), "is an input|is a file")
       for call in (FIT, LEARN, ENFORCE)},
    **{f"{call.split()[0]} below a file": (call.replace("{}/new", "{}/table.csv/new"), "is not a folder")
       for call in (FIT, LEARN, ENFORCE, DEMO)},
    **{f"{call.split()[0]} onto a folder of others": (call.replace("{}/new", "{}"), "is an input")
       for call in (FIT, LEARN, ENFORCE)},
    "report onto the model": (REPORT.replace("{}/r.html", "{}/model/model.html"), "would be lost"),
    "report below a file": (REPORT.replace("{}/r.html", "{}/table.csv/r.html"), "is not a folder"),
    "reproduce an unknown figure": ("reproduce fig99 --out {}/new", "python -m reproduce"),
}  # fmt: skip


def options() -> Iterator[tuple[str, Wrong]]:
    for option, (calls, values) in OPTIONS.items():
        for call in calls:
            for value in values:
                given = f"{call}\t{option}\t{value}" if option != "--target" else None
                given = given or call.replace("--target y", f"--target\t{value}")
                says = "|".join(
                    (
                        option,
                        option[2:].replace("-", " "),
                        repr(value),
                        value[2:] or option,
                        "are free",
                        "days",
                        "not a table",
                    )
                )
                shown = value if len(value) < 20 else f"{len(value)} digits"
                yield f"{call.split()[0]}: {option} {shown!r} {len(call)}", Wrong(given, says)
    for what, (call, says) in CLASHES.items():
        yield what, Wrong(call, says, written("s.toml", "draws = 2"))


# Models -----------------------------------------------------------------------------------------------------


def damage(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    def apply(folder: Path) -> None:
        file = folder / "model" / name
        file.write_bytes(change(file.read_bytes()))

    return apply


def lost(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "model" / name).unlink()


def replaced(target: str) -> Callable[[Path], object]:
    def apply(folder: Path) -> None:
        shutil.rmtree(folder / "model")
        (folder / "model").symlink_to(target)

    return apply


DAMAGED_MODELS: dict[str, Callable[[Path], object]] = {
    "absent": lambda folder: shutil.rmtree(folder / "model"),
    "a device": replaced("/dev/zero"),
    "empty": lambda folder: [shutil.rmtree(folder / "model"), (folder / "model").mkdir()],
    "another folder": replaced("."),
    "without model.json": lost("model.json"),
    "without draws": lost("draws.safetensors"),
    "draws cut off": damage("draws.safetensors", lambda content: content[:-8]),
    "draws changed": damage("draws.safetensors", lambda content: content[:-1] + b"!"),
    "model.json cut off": damage("model.json", lambda content: content[:100]),
    "model.json a list": damage("model.json", lambda content: b"[]"),
    "rules changed": damage("rules.yaml", lambda content: content.replace(b"x > 1", b"x > 9")),
}


def models() -> Iterator[tuple[str, Wrong]]:
    for call in (f"{PREDICT} --out {{}}/p.csv", CHECK, ENFORCE, REPORT):
        for what, prepare in DAMAGED_MODELS.items():
            yield f"{call.split()[0]}: model {what}", Wrong(call, "saved model|/own/model|/dev/zero", prepare)


CASES = dict([*tables(), *folders(), *small_files(), *options(), *models()])


def test_there_are_at_least_three_hundred():
    assert len(CASES) >= 300


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("whole"))


def listing(folder: Path) -> dict[Path, tuple[int, int] | None]:
    """Every path below, and the size and time of every file."""
    found = {path: path.lstat() for path in folder.rglob("*")}
    return {
        path: (each.st_size, each.st_mtime_ns) if path.is_file() else None for path, each in found.items()
    }


@pytest.mark.skipif(os.name != "posix", reason="pipes and devices of POSIX")
@pytest.mark.parametrize(
    "name",
    [
        name if place % QUICK == 0 else pytest.param(name, marks=pytest.mark.slow)
        for place, name in enumerate(CASES)
    ],
)
def test_a_wrong_input_is_a_sentence_and_nothing_is_written(name, whole, tmp_path, monkeypatch):
    case = CASES[name]
    folder = shutil.copytree(whole, tmp_path / "own")
    monkeypatch.chdir(folder)  # what has a default place would go here
    case.files(folder)
    before = listing(folder)
    call = case.call.replace("{}", str(folder))
    result = run(*(part for piece in call.split(" ") if piece for part in piece.split("\t")))
    said = words(result)
    assert result.exit_code == case.code, said
    assert "Traceback" not in said
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert re.search(r"(^|\s)(ocbnn|Usage): ", said), said
    assert any(part in said for part in case.says.split("|")), said
    assert listing(folder) == before
