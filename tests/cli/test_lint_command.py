"""The `ocbnn` command, as a user meets it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ocbnn import __version__
from ocbnn.cli import app
from ocbnn.datasets import clinic

COMMAND = Path(sys.executable).with_name("ocbnn")


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    folder = tmp_path_factory.mktemp("example")
    clinic.table().to_csv(folder / "clinic.csv", index=False)
    with clinic.rules_path() as path:
        (folder / "rules.yaml").write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    return folder


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def lint(table, rules, target="action", *more):
    return run("lint", table, "--target", target, "--rules", rules, *more)


def words(result):
    """What was printed, on one line: terminals break lines where they like."""
    return re.sub(r"\s+", " ", result.output)


@pytest.fixture(scope="module")
def shown():
    """What `ocbnn demo` prints."""
    result = run("demo")
    assert result.exit_code == 0, result.output
    return words(result)


def test_help_loads_nothing_heavy():
    program = (
        "import sys; from ocbnn.cli import main; sys.argv = ['ocbnn', '--help']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(sorted({'jax', 'numpy', 'pandas', 'scipy', 'sklearn', 'lark'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert shown.strip().splitlines()[-1] == "[]"


def test_help_lists_the_commands():
    result = run("--help")
    assert result.exit_code == 0
    assert {"demo", "lint"} <= set(result.output.split())


def test_version_is_the_packages():
    assert run("--version").output == f"ocbnn {__version__}\n"


class TestDemo:
    def test_it_shows_every_rule_in_canonical_words(self, shown):
        assert "if creatinine > 2 and BUN > 40 and urine < 30 then action = 1" in shown
        assert "after KDIGO 2012" in shown

    def test_it_finds_what_the_example_was_made_to_show(self, shown):
        assert "unobserved" in shown
        assert "data-conflict" in shown
        assert "error" not in shown

    def test_it_draws_points_inside_each_region_in_plain_words(self, shown):
        drawn = re.search(r"failing kidneys \(sampler.*?high lactate \(sampler", shown).group()
        levels = [float(number) for number in re.findall(r"creatinine ([\d.]+) mg/dL", drawn)]
        assert len(levels) == 3
        assert min(levels) >= 2

    def test_it_is_the_same_every_time(self, shown):
        assert words(run("demo")) == shown

    def test_it_writes_the_example_for_lint_to_read(self, tmp_path):
        result = run("demo", "--save", tmp_path / "new")
        assert result.exit_code == 0
        assert lint(tmp_path / "new" / "clinic.csv", tmp_path / "new" / "rules.yaml").exit_code == 0

    def test_a_folder_that_cannot_be_made_is_a_sentence(self, tmp_path):
        (tmp_path / "file").write_text("")
        result = run("demo", "--save", tmp_path / "file" / "folder")
        assert result.exit_code == 2
        assert "cannot be written" in words(result)


class TestLint:
    def test_warnings_are_fine(self, example):
        result = lint(example / "clinic.csv", example / "rules.yaml")
        assert result.exit_code == 0, result.output
        assert "warning" in result.output

    def test_nothing_wrong_says_so(self, example, tmp_path):
        (tmp_path / "fine.yaml").write_text("- if creatinine > 1 then P(action = 1) >= 0.0001\n")
        result = lint(example / "clinic.csv", tmp_path / "fine.yaml")
        assert result.exit_code == 0
        assert "Nothing is wrong" in result.output

    def test_a_contradiction_exits_with_1(self, example, tmp_path):
        (tmp_path / "bad.yaml").write_text(
            "- {name: give, rule: if lactate > 4 then action = 1}\n"
            "- {name: withhold, rule: if lactate > 5 then action = 0}\n"
        )
        result = lint(example / "clinic.csv", tmp_path / "bad.yaml")
        assert result.exit_code == 1, result.output
        assert "contradiction" in result.output

    @pytest.mark.parametrize("name", ["clinic.csv.gz", "clinic.parquet", "CLINIC.CSV"])
    def test_it_reads_gzip_and_parquet_too(self, example, tmp_path, name):
        table = clinic.table()
        if name.endswith("parquet"):
            table.to_parquet(tmp_path / name)
        else:
            table.to_csv(tmp_path / name, index=False)
        plain = lint(example / "clinic.csv", example / "rules.yaml")
        assert words(lint(tmp_path / name, example / "rules.yaml")) == words(plain)

    def test_rows_with_missing_values_are_left_out_and_counted(self, example, tmp_path):
        table = clinic.table()
        table.loc[[3, 5], "lactate"] = None
        table.to_csv(tmp_path / "gaps.csv", index=False)
        result = lint(tmp_path / "gaps.csv", example / "rules.yaml")
        assert result.exit_code == 0, result.output
        assert "2 rows with missing values are left out" in result.output

    @pytest.mark.parametrize(
        ("name", "content", "said"),
        [
            ("absent.csv", None, "There is no file"),
            ("table.xlsx", b"PK", "not a table this command reads"),
            ("empty.csv", b"", "cannot be read"),
            ("ragged.csv", b"a,action\n1,2\n1,2,3,4\n", "cannot be read"),
            ("binary.csv", bytes(range(256)), "cannot be read"),
            ("broken.csv.gz", b"no gzip", "cannot be read"),
            ("cut.csv.gz", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xff\xff", "cannot be read"),
            ("broken.parquet", b"no parquet", "cannot be read"),
            ("header.csv", b"lactate,action\n", "no rows"),
            ("dates.csv", b"when,action\n,1\n,0\n", "no value in any row"),
        ],
    )
    def test_a_table_that_cannot_be_read_is_a_sentence(self, example, tmp_path, name, content, said):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        result = lint(tmp_path / name, example / "rules.yaml")
        assert result.exit_code == 2, result.output
        assert said in words(result)
        assert "Traceback" not in result.output

    @pytest.mark.parametrize(
        ("rules", "said"),
        [
            (None, "rules.yaml"),
            ("- if creatinin > 2 then action = 1\n", "creatinine"),
            ("- if creatinine > 2 then\n", "if creatinine > 2 then"),
            ("{{", "rules.yaml"),
        ],
    )
    def test_a_rule_that_cannot_be_read_is_a_sentence(self, example, tmp_path, rules, said):
        if rules is not None:
            (tmp_path / "rules.yaml").write_text(rules)
        result = lint(example / "clinic.csv", tmp_path / "rules.yaml")
        assert result.exit_code == 2, result.output
        assert said in result.output
        assert "Traceback" not in result.output

    def test_an_unknown_target_is_a_sentence_with_a_suggestion(self, example):
        result = lint(example / "clinic.csv", example / "rules.yaml", "acton")
        assert result.exit_code == 2
        assert "Did you mean 'action'?" in words(result)

    def test_the_task_can_be_declared(self, example):
        result = lint(example / "clinic.csv", example / "rules.yaml", "action", "--task", "ranking")
        assert result.exit_code == 2
        assert "'ranking' cannot be the task" in words(result)

    def test_wrong_use_exits_with_2(self, example):
        assert run("lint", example / "clinic.csv").exit_code == 2

    def test_debug_shows_the_traceback(self, example):
        result = lint(example / "clinic.csv", example / "rules.yaml", "acton", "--debug")
        assert result.exit_code == 1
        assert type(result.exception).__name__ == "SchemaError"
