"""Every command as a user meets it, on a small table."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from command_line import interrupt, run, small_table, words
from ocbnn import __version__
from ocbnn.cli import app, fitting
from ocbnn.cli.command import FOLDER, keep_compiled
from ocbnn.cli.fitting import split_rows
from ocbnn.cli.voice import suggested
from ocbnn.estimators.folder import load
from ocbnn.estimators.folder import save as save_model
from small_estimators import small_regressor

COMMAND = Path(sys.executable).with_name("ocbnn")
COMMANDS = [command.name for command in app.registered_commands if not command.hidden]


def fit(files, out, *more, target="y", ignore="sick"):
    call = ["fit", files / "table.csv", "--target", target, "--ignore", ignore, "--out", out]
    return run(*call, "--rules", files / "rules.yaml", *more)


class TestHelp:
    def test_it_loads_nothing_heavy(self):
        program = (
            "import sys; from ocbnn.cli import main; sys.argv = ['ocbnn', '--help']\n"
            "try: main()\n"
            "except SystemExit: pass\n"
            "print(sorted({'jax', 'numpy', 'pandas', 'scipy', 'sklearn', 'lark', 'yaml'} & set(sys.modules)))"
        )
        shown = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
        assert shown.stdout.strip().splitlines()[-1] == "[]"

    def test_it_lists_the_commands(self):
        listed = ["demo", "lint", "fit", "predict", "check", "prove", "enforce", "report", "verify"]
        listed.append("learn-prior")
        assert listed == COMMANDS
        assert set(listed) <= set(run("--help").output.split())

    @pytest.mark.parametrize("command", COMMANDS)
    def test_every_command_shows_an_example(self, command):
        result = run(command, "--help")
        assert result.exit_code == 0
        assert f"Example: ocbnn {command} " in words(result)

    def test_version_is_the_packages(self):
        assert run("--version").output == f"ocbnn {__version__}\n"

    def test_shells_can_complete(self):
        environment = {
            **os.environ,
            "_OCBNN_COMPLETE": "complete_bash",
            "COMP_WORDS": "ocbnn le",
            "COMP_CWORD": "1",
        }
        shown = subprocess.run([COMMAND], env=environment, capture_output=True, text=True)
        assert shown.stdout.split() == ["learn-prior"]


class TestFit:
    def test_it_saves_the_model_with_its_twin_and_its_evidence(self, files, tmp_path, small_budget):
        out = tmp_path / "model"
        result = fit(files, out)
        assert result.exit_code == 0, result.output
        assert {"model.json", "rules.yaml", "without_rules", "evidence.json"} <= {
            p.name for p in out.iterdir()
        }
        assert not out.with_name("model.run").exists()
        evidence = json.loads((out / "evidence.json").read_text())
        assert evidence["compared"]
        assert evidence["sources"] == {"table": "table.csv", "rules": "rules.yaml"}
        assert "12 of 60 rows are held out" in words(result)
        assert evidence["held_out_rows"] == 12

    def test_json_is_one_document_and_words_go_elsewhere(self, files, tmp_path, small_budget):
        result = fit(files, tmp_path / "m", "--json", "--no-compare", "--hold-out", "0")
        told = json.loads(result.stdout)
        assert (told["rows"], told["held_out"], told["compared"]) == (60, 0, False)
        evidence = json.loads((tmp_path / "m" / "evidence.json").read_text())
        assert evidence["command"] == (
            "ocbnn fit table.csv --target y --out m --rules rules.yaml --ignore sick --hold-out 0.0 "
            "--no-compare --seed 0"
        )
        (rule,) = told["rules"]
        assert rule["name"] == "high"
        assert {"strength", "tolerance", "violation", "error", "met", "not_shown", "reason"} <= set(rule)
        assert not (tmp_path / "m" / "without_rules").exists()

    def test_a_rule_that_is_not_kept_is_unmet_and_saved_all_the_same(self, own_files, small_budget):
        (own_files / "rules.yaml").write_text("- {name: far, rule: always y >= 50}\n")
        more = ("--no-compare", "--hold-out", "0", "--quiet")
        result = fit(own_files, own_files / "m", *more)
        assert result.exit_code == 0
        assert result.stdout == ""
        assert "UNMET far" in result.stderr
        assert (own_files / "m" / "model.json").exists()
        assert fit(own_files, own_files / "m", *more, "--strict").exit_code == 1

    def test_rows_with_missing_values_are_left_out_and_named(self, own_files, small_budget):
        table = small_table()
        table.loc[[3, 5], "x"] = None
        table.loc[5, "age"] = None
        table.to_csv(own_files / "table.csv", index=False)
        result = fit(own_files, own_files / "m", "--no-compare", "--json")
        assert json.loads(result.stdout)["rows"] + json.loads(result.stdout)["held_out"] == 58
        assert "2 of 60 rows have missing values and are left out: rows 3, 5" in re.sub(
            r"\s+", " ", result.stderr
        )
        assert "x (2), age (1)" in re.sub(r"\s+", " ", result.stderr)

    @pytest.mark.slow
    def test_rows_with_missing_values_are_kept_with_an_indicator(self, own_files, small_budget):
        table = small_table()
        table.loc[[3, 4, 9], "x"] = None
        table.loc[7, "ward"] = None
        table.loc[8, "age"] = None
        table.to_csv(own_files / "table.csv", index=False)
        out = own_files / "gaps"
        done = fit(own_files, out, "--missing", "indicator")
        assert done.exit_code == 0, done.output
        assert "left out" not in done.output
        known = load(out)
        assert known.schema_.with_indicator == ("x", "ward", "age")
        assert run("enforce", out, "--out", own_files / "enforced").exit_code == 0
        new = own_files / "new.csv"
        predicted = run("predict", own_files / "enforced", own_files / "table.csv", "--out", new)
        assert "high: it does not apply to 3 rows without a value that it needs" in words(predicted)
        assert pd.read_csv(new)["prediction"].notna().all()
        assert run("check", out).exit_code in (0, 1)
        page = own_files / "report.html"
        assert run("report", out, "--table", own_files / "table.csv", "--out", page).exit_code == 0
        assert "is missing in 3 rows and enters there as the mean" in page.read_text()
        assert "to 3 rows without a value that it needs" in page.read_text()

    def test_a_column_that_was_complete_leaves_a_row_without_it_empty(self, files, tmp_path):
        table = small_table()
        table.loc[2, "x"] = None
        table.to_csv(tmp_path / "new.csv", index=False)
        done = run("predict", files / "model", tmp_path / "new.csv", "--out", tmp_path / "out.csv")
        assert "fit with --missing indicator" in words(done)
        assert (
            pd.read_csv(tmp_path / "out.csv")["prediction"].isna().tolist()
            == [False] * 2 + [True] + [False] * 57
        )

    def test_a_target_on_a_log_scale_is_predicted_in_its_own_units(self, own_files, small_budget):
        table = small_table()
        table["y"] = 10 ** table["y"]
        table.to_csv(own_files / "table.csv", index=False)
        out = own_files / "logged"
        assert fit(own_files, out, "--target-transform", "log").exit_code == 0
        assert load(out).schema_.target.is_log
        predicted = run("predict", out, own_files / "table.csv", "--out", own_files / "out.csv")
        assert predicted.exit_code == 0, predicted.output
        assert (pd.read_csv(own_files / "out.csv")["lower"] > 0).all()
        assert run("check", out).exit_code in (0, 1)
        table.loc[3, "y"] = -1
        table.to_csv(own_files / "table.csv", index=False)
        refused = fit(own_files, own_files / "other", "--target-transform", "log")
        assert refused.exit_code == 2
        assert "row 3 has -1.0" in words(refused)

    def test_noise_that_varies_is_asked_for_by_an_option_and_told_of(self, own_files, small_budget):
        out = own_files / "noisy"
        done = fit(own_files, out, "--noise", "varying", "--no-compare")
        assert done.exit_code == 0, done.output
        assert "at the quietest case" in words(done)
        assert load(out).noise == "varying"
        told = json.loads(fit(own_files, out, "--noise", "0.5", "--no-compare", "--json").stdout)
        assert told["noise"]["quietest"][0] == pytest.approx(0.5)
        assert not told["noise"]["varies"]

    def test_labels_that_the_fit_has_not_seen_are_predicted_and_flagged_on_request(
        self, own_files, small_budget
    ):
        out = own_files / "open"
        assert fit(own_files, out, "--unseen", "other").exit_code == 0
        table = small_table()
        table.loc[[2, 5], "ward"] = "new"
        table.to_csv(own_files / "new.csv", index=False)
        done = run("predict", out, own_files / "new.csv", "--out", own_files / "out.csv")
        assert done.exit_code == 0, done.output
        shown = pd.read_csv(own_files / "out.csv", keep_default_na=False)
        assert np.flatnonzero(shown["unseen"] == "ward").tolist() == [2, 5]
        assert set(shown["unseen"]) == {"", "ward"}
        page = own_files / "report.html"
        assert run("report", out, "--table", own_files / "new.csv", "--out", page).exit_code == 0
        assert "ward: 2" in page.read_text()
        refused = run("predict", own_files / "model", own_files / "new.csv")
        assert refused.exit_code == 2
        assert "unseen='other'" in words(refused)

    def test_whole_groups_are_held_out_and_are_no_input(self, own_files, small_budget, monkeypatch):
        table = small_table()
        table["patient"] = np.repeat([f"p{i}" for i in range(15)], 4)
        table.loc[[8, 9], "age"] = None
        table.to_csv(own_files / "table.csv", index=False)
        seen = []

        def split(*given):
            seen.append(split_rows(*given))
            return seen[-1]

        monkeypatch.setattr(fitting, "split_rows", split)
        out = own_files / "grouped"
        for seed in range(2):
            more = ("--group", "patient", "--missing", "indicator", "--seed", seed, "--no-compare")
            done = fit(own_files, out, *more)
            assert done.exit_code == 0, done.output
            train, rest = (table.loc[part.index, "patient"] for part in seen[-1])
            assert len(train) + len(rest) == 60
            assert not set(train) & set(rest)
            assert (len(rest), rest.nunique()) in {(12, 3), (8, 2)}
            assert "p2" in set(train), "the only patient without an age stays in the fit"
            assert f"{rest.nunique()} whole groups of patient" in words(done)
            assert load(out).schema_.names == ("x", "ward", "age")

    @pytest.mark.parametrize(
        ("group", "said"),
        [
            ("y", "the column is the target"),
            ("nobody", "has no column 'nobody'"),
            ("holes", "1 rows have no value there, the first is row 4"),
            ("one", "all rows are of one group"),
        ],
    )
    def test_a_group_that_cannot_be_used_is_refused(self, own_files, small_budget, group, said):
        table = small_table().assign(one="all", holes=1.0)
        table.loc[4, "holes"] = None
        table.to_csv(own_files / "table.csv", index=False)
        spare = {"one", "holes"} - {group}
        more = [word for name in spare for word in ("--ignore", name)]
        done = fit(own_files, own_files / "out", "--group", group, *more)
        assert done.exit_code == 2
        assert said in words(done)

    def test_classes_and_levels_that_are_rare_do_not_break_the_held_out_rows(self, own_files, small_budget):
        table = small_table()
        table.loc[7, "ward"] = "rare"
        table.to_csv(own_files / "table.csv", index=False)
        (own_files / "rules.yaml").write_text("- if x > 1 then sick = yes\n")
        for seed in range(2):
            call = ("--no-compare", "--quiet", "--seed", seed)
            result = fit(own_files, own_files / "m", *call, target="sick", ignore="y")
            assert result.exit_code == 0, result.output


class TestInterruption:
    def test_draws_so_far_are_saved_and_resume_goes_on(self, files, tmp_path, small_budget):
        out, quiet = tmp_path / "m", ("--no-compare", "--hold-out", "0")
        with pytest.MonkeyPatch.context() as patch:
            interrupt(patch, after=1)
            result = fit(files, out, *quiet)
        assert result.exit_code == 130
        assert "--resume goes on" in words(result)
        assert run("predict", out, files / "table.csv").exit_code == 0
        again = fit(files, out, *quiet)
        assert again.exit_code == 2
        assert "--resume" in words(again)
        assert fit(files, out, *quiet, "--resume").exit_code == 0
        assert not out.with_name("m.run").exists()
        whole = tmp_path / "whole"
        assert fit(files, whole, *quiet).exit_code == 0
        draws = [(folder / "draws.safetensors").read_bytes() for folder in (out, whole)]
        assert draws[0] == draws[1]

    def test_before_the_first_step_nothing_is_left(self, files, tmp_path, small_budget):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                "ocbnn.estimators.base.infer", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt)
            )
            result = fit(files, tmp_path / "m")
        assert result.exit_code == 130
        assert list(tmp_path.iterdir()) == []


class TestPredict:
    def test_there_is_a_line_for_every_row_in_its_order(self, files, tmp_path):
        table = small_table().sample(frac=1, random_state=1).assign(name=lambda t: t.index.map("p{}".format))
        table.iloc[4, table.columns.get_loc("x")] = None
        table.to_csv(tmp_path / "new.csv", index=False)
        result = run(
            "predict", files / "model", tmp_path / "new.csv", "--keep", "name", "--out", tmp_path / "p.csv"
        )
        assert result.exit_code == 0, result.output
        found = pd.read_csv(tmp_path / "p.csv")
        assert list(found["name"]) == list(table["name"])
        assert found["prediction"].isna().to_list() == [row == 4 for row in range(60)]
        complete = found.dropna()
        assert (complete["lower"] < complete["prediction"]).all()
        assert (complete["prediction"] < complete["upper"]).all()

    def test_rows_of_a_parquet_file_are_as_many_as_there_are_whatever_their_index(self, files, tmp_path):
        table = small_table(4)
        table.index = pd.Index([7, 7, 7, 8], name="patient")
        table.to_parquet(tmp_path / "new.parquet")
        call = ("predict", files / "model", tmp_path / "new.parquet", "--keep", "patient", "--json")
        assert [row["patient"] for row in json.loads(run(*call).stdout)] == [7, 7, 7, 8]
        table.rename_axis(None).to_parquet(tmp_path / "unnamed.parquet")
        result = run("predict", files / "model", tmp_path / "unnamed.parquet", "--json")
        assert len(json.loads(result.stdout)) == 4

    def test_columns_outside_of_the_observed_range_are_named(self, files, tmp_path):
        table = small_table(4).assign(x=[0.0, 50.0, 0.0, -50.0], age=[40, 40, 200, 200])
        table.to_csv(tmp_path / "new.csv", index=False)
        shown = run("predict", files / "model", tmp_path / "new.csv", "--json")
        assert [row["outside"] for row in json.loads(shown.stdout)] == ["", "x", "age", "x;age"]
        assert "unseen" not in json.loads(shown.stdout)[0]

    def test_wider_intervals_cover_more(self, files, tmp_path):
        widths = []
        for share in ("0.5", "0.95"):
            out = tmp_path / f"{share}.parquet"
            run("predict", files / "model", files / "table.csv", "--interval", share, "--out", out)
            found = pd.read_parquet(out)
            widths.append(found["upper"] - found["lower"])
        assert (widths[0] < widths[1]).all()

    def test_stdout_is_data_alone(self, files):
        result = run("predict", files / "model", files / "table.csv")
        header, *rows = result.stdout.splitlines()
        assert header.startswith("prediction,lower,upper")
        assert len(rows) == 60

    def test_json_are_records(self, files):
        records = json.loads(run("predict", files / "model", files / "table.csv", "--json").stdout)
        assert len(records) == 60
        assert {"prediction", "lower", "upper"} <= set(records[0])

    def test_a_device_that_is_full_is_a_sentence(self, files):
        if not Path("/dev/full").exists():
            pytest.skip("no /dev/full here")
        (link := files.parent / "full.csv").symlink_to("/dev/full")
        result = run("predict", files / "model", files / "table.csv", "--out", link)
        assert result.exit_code == 2
        assert "No space left" in words(result)

    @pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
    def test_a_disk_that_is_full_leaves_no_part_of_a_file(self, files, tmp_path):
        program = (
            "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
            "from ocbnn.cli import main; main()"
        )
        call = [sys.executable, "-c", program, "predict", files / "model", files / "table.csv"]
        # The limit is of every file: half a compiled program would spoil the cache for other tests.
        own = {**os.environ, "JAX_ENABLE_COMPILATION_CACHE": "false"}
        done = subprocess.run([*call, "--out", tmp_path / "p.csv"], capture_output=True, text=True, env=own)
        assert done.returncode == 2
        assert "cannot be written: File too large" in done.stderr
        assert "Traceback" not in done.stderr
        assert list(tmp_path.iterdir()) == []


class TestCheck:
    def test_figures_come_with_intervals_and_the_worst_place(self, files):
        result = run("check", files / "model", "--points", 50)
        assert "if x > 1 then y >= 0" in words(result)
        assert "worst at x" in words(result)

    def test_json_has_every_figure(self, files):
        result = run("check", files / "model", "--points", 50, "--by", "ward", "--json")
        (rule,) = json.loads(result.stdout)["rules"]
        assert {"value", "low", "high", "effective"} == set(rule["epsilon_mean"])
        assert [group["group"] for group in rule["groups"]] == ["ward = a", "ward = b", "ward = c"]

    def test_every_level_is_named_and_one_can_be_asked_for(self, files):
        call = ("check", files / "model", "--points", 50, "--json")
        for option, level in (("average", "on average"), ("worst", "worst case found")):
            found = json.loads(run(*call, "--level", option).stdout)
            (rule,) = found["rules"]
            assert set(rule["levels"]) == {"on average", "worst case found", "proved"}
            assert rule["levels"]["proved"] == "not attempted"
            assert bool(found["not_shown"]) == (rule["levels"][level] == "not shown at this tolerance")
        assert "in the worst case found" in words(run("check", files / "model", "--level", "worst"))

    def test_an_unknown_level_is_refused(self, files):
        result = run("check", files / "model", "--level", "most")
        assert result.exit_code == 2
        assert "--level is average or worst, not 'most'" in words(result)

    def test_too_few_draws_to_show_it_is_1_when_strict(self, files):
        call = ("check", files / "model", "--points", 50)
        assert json.loads(run(*call, "--json").stdout)["not_shown"] == ["if x > 1 then y >= 0"]
        assert run(*call).exit_code == 0
        assert run(*call, "--strict").exit_code == 1


class TestEnforceAndReport:
    @pytest.mark.filterwarnings("ignore:UNMET")
    def test_enforced_predictions_obey(self, files, tmp_path):
        table = small_table()
        fitted = small_regressor(rules=["if x > 1 then y >= 1.5"]).fit(
            table[["x", "ward", "age"]], table["y"]
        )
        save_model(tmp_path / "model", fitted)
        assert run("enforce", tmp_path / "model", "--out", tmp_path / "e").exit_code == 0
        lower = {}
        for model in ("model", "e"):
            result = run("predict", tmp_path / model, files / "table.csv", "--json")
            assert result.exit_code == 0, result.output
            lower[model] = pd.DataFrame(json.loads(result.stdout)).loc[table["x"] > 1, "lower"]
        assert lower["model"].min() < 1.5 <= lower["e"].min()

    def test_draws_that_obey_are_kept(self, files, tmp_path):
        result = run("enforce", files / "model", "--method", "draws", "--out", tmp_path / "e")
        assert result.exit_code == 0, result.output
        assert "draws obey every rule" in words(result)

    def test_the_report_needs_no_table(self, files, tmp_path):
        result = run("report", files / "model", "--out", tmp_path / "r.html")
        assert result.exit_code == 0, result.output
        assert "<html" in (tmp_path / "r.html").read_text()
        assert json.loads((tmp_path / "r.json").read_text())["held_out_rows"] == 60

    def test_an_enforced_model_has_a_report_of_its_own(self, files, tmp_path):
        run("enforce", files / "model", "--out", tmp_path / "e")
        result = run("report", tmp_path / "e", "--table", files / "table.csv", "--out", tmp_path / "r.html")
        assert result.exit_code == 0, result.output
        told = json.loads((tmp_path / "r.json").read_text())
        assert (told["enforcement"], told["held_out_rows"], told["compared"]) == ("truncate", 60, True)


class TestSuggestedCommands:
    def test_a_shell_that_finds_the_program_needs_its_name_alone(self, monkeypatch):
        monkeypatch.setattr(sys, "argv", [str(COMMAND)])
        monkeypatch.setenv("PATH", str(COMMAND.parent), prepend=os.pathsep)
        assert suggested("fit", "my table.csv") == "ocbnn fit 'my table.csv'"

    def test_elsewhere_it_is_called_by_its_path(self, monkeypatch, tmp_path):
        monkeypatch.setattr(sys, "argv", [".venv/bin/ocbnn"])
        monkeypatch.setenv("PATH", str(tmp_path))
        assert suggested("lint", Path("a.csv")) == ".venv/bin/ocbnn lint a.csv"


class TestCache:
    @pytest.mark.parametrize("first", ["", "import jax; "], ids=["before JAX", "after JAX"])
    def test_compiled_programs_are_kept_in_the_users_cache_folder(self, first, tmp_path):
        environment = {name: value for name, value in os.environ.items() if name != FOLDER}
        environment |= {"XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}
        program = (
            f"{first}from ocbnn.cli.command import keep_compiled; keep_compiled(); "
            "import jax; print(jax.config.jax_compilation_cache_dir)"
        )
        call = [sys.executable, "-c", program]
        done = subprocess.run(call, check=True, env=environment, capture_output=True, text=True)
        folder = Path(done.stdout.strip())
        assert folder.is_dir()
        assert tmp_path in folder.parents

    def test_a_users_own_choice_stays(self, monkeypatch):
        monkeypatch.setenv(FOLDER, "/elsewhere")
        keep_compiled()
        assert os.environ[FOLDER] == "/elsewhere"

    def test_importing_the_library_changes_nothing(self):
        environment = {name: value for name, value in os.environ.items() if name != FOLDER}
        program = "import os, ocbnn; ocbnn.OCBNNRegressor; print('JAX_COMPILATION_CACHE_DIR' in os.environ)"
        call = [sys.executable, "-c", program]
        done = subprocess.run(call, check=True, env=environment, capture_output=True, text=True)
        assert done.stdout.strip() == "False"
