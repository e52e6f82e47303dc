"""Saved models: what was saved comes back, a crash leaves the old one, nothing in a file is believed."""

import ast
import contextlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ocbnn
from damaged_files import corruptions, forge, rewrite, rewrite_manifest
from ocbnn.amortize import AmortizedPrior
from ocbnn.amortize.findings import Findings, RuleFinding
from ocbnn.errors import FileError, OCBNNError
from ocbnn.model import Model
from ocbnn.model.conditional import RuleTerm, Scoring
from ocbnn.model.likelihoods import Gaussian
from ocbnn.model.networks import MLP, FunctionNetwork
from ocbnn.model.priors import DiagonalGaussian
from ocbnn.posterior import Posterior, function_draws
from ocbnn.posterior import folder as posterior_folder
from ocbnn.posterior.draws import rule_provenance
from ocbnn.posterior.enforce import reject
from ocbnn.posterior.folder import load, save
from ocbnn.regions import Everywhere
from ocbnn.rules.constraint import Constraint
from ocbnn.rules.parse import parse_rule
from ocbnn.rules.requirement import Requirement
from ocbnn.storage import folders
from posterior_cases import constants, number_schema
from rule_checks import checked

RULES = (
    "if age > 70 and ward = ICU then action = 1",
    "if lactate > 4 then P(action = 1) >= 0.9",
)


def patients(rows: int = 30) -> pd.DataFrame:
    generator = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "age": generator.integers(20, 95, rows),
            "lactate": np.round(generator.lognormal(0.6, 0.5, rows), 2),
            "ward": generator.choice(["ICU", "surgery"], rows),
            "action": generator.integers(0, 2, rows),
        }
    )


def drawn(model: Model, seed: int = 0, dtype: type = np.float64) -> Posterior:
    """A posterior of arbitrary draws: files do not ask where draws come from."""
    draws = np.random.default_rng(seed).normal(size=(2, 5, model.size)).astype(dtype)
    kept = np.ones((2, 5), dtype=bool)
    kept[1, 2] = False
    provenance = {"engine": "hmc", "status": "made up", "seconds": {"total": 1.5}, "chains": True}
    return Posterior(draws, model, provenance, kept=kept, log_density=draws[..., 0].astype(float))


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    table = patients()
    model = Model.build(
        frame=table, target="action", rules=RULES, hidden=(4,), points=12, scale_by_fan_in=True
    )
    return drawn(model)


@pytest.fixture
def saved(posterior, tmp_path) -> Path:
    save(tmp_path / "model", posterior)
    return tmp_path / "model"


# What comes back ---------------------------------------------------------------------------------------


def test_a_folder_holds_four_plain_files_and_their_manifest(saved):
    assert sorted(f.name for f in saved.iterdir()) == [
        "diagnostics.json",
        "draws.safetensors",
        "manifest.json",
        "model.json",
        "rules.yaml",
    ]
    assert "if age > 70 and ward = ICU then action = 1" in (saved / "rules.yaml").read_text()
    assert json.loads((saved / "diagnostics.json").read_text())["status"] == "made up"


def test_what_comes_back_is_what_was_saved(posterior, saved):
    again = load(saved).posterior
    assert np.array_equal(again.draws, posterior.draws)
    assert again.draws.dtype == posterior.draws.dtype
    assert np.array_equal(again.kept, posterior.kept)
    assert np.array_equal(again.log_density, posterior.log_density)
    assert again.schema == posterior.schema
    assert again.model.network == posterior.model.network
    assert again.model.likelihood == posterior.model.likelihood
    assert again.provenance == posterior.provenance
    assert [rule.rule for rule in again.rules] == [rule.rule for rule in posterior.rules]
    assert [rule.term for rule in again.rules] == [rule.term for rule in posterior.rules]
    table = patients().drop(columns="action")
    assert np.array_equal(function_draws(again, table), function_draws(posterior, table))


def test_the_prior_comes_back_as_the_same_density(posterior, saved):
    again = load(saved).posterior
    w = posterior.draws[0, 0]
    assert float(again.model.log_prior(w)) == float(posterior.model.log_prior(w))


def test_regression_float32_and_learnt_noise_come_back(tmp_path):
    table = pd.DataFrame({"x": np.linspace(0, 1, 9), "y": np.linspace(2, 5, 9) ** 2})
    posterior = drawn(Model.build(frame=table, target="y", hidden=(3,), weight_scale=0.7), dtype=np.float32)
    save(tmp_path / "model", posterior)
    again = load(tmp_path / "model").posterior
    assert again.draws.dtype == np.float32
    assert again.model.likelihood == posterior.model.likelihood
    assert again.rules == ()
    coded = posterior.schema.encode(table)
    assert np.array_equal(again.noise(coded), posterior.noise(coded))
    assert np.array_equal(function_draws(again, table), function_draws(posterior, table))


def test_the_estimators_part_comes_back(posterior, tmp_path):
    save(tmp_path / "model", posterior, estimator={"class": "x", "hidden": [4]})
    assert load(tmp_path / "model").estimator == {"class": "x", "hidden": [4]}


def test_rows_of_the_table_are_not_saved(posterior, saved):
    again = load(saved).posterior
    assert again.model.data is None
    rule = posterior.rules[0]
    # Samplers start from points that were drawn, and not from those a search has found or left free.
    assert np.array_equal(again.rules[0].data, rule.points.coded[: rule.drawn])


def test_another_process_predicts_the_same(posterior, saved, tmp_path):
    table = patients().drop(columns="action")
    table.to_csv(tmp_path / "table.csv", index=False)
    code = (
        "import sys, numpy, pandas\n"
        "from ocbnn.posterior.folder import load; from ocbnn.posterior import function_draws\n"
        "folder, table, out = sys.argv[1:]\n"
        "numpy.save(out, function_draws(load(folder).posterior, pandas.read_csv(table)))"
    )
    arguments = [str(saved), str(tmp_path / "table.csv"), str(tmp_path / "out.npy")]
    subprocess.run([sys.executable, "-c", code, *arguments], check=True)
    assert np.array_equal(np.load(tmp_path / "out.npy"), function_draws(posterior, table))


@pytest.mark.parametrize("shared", ["the name alone", "all of it"])
def test_rejection_comes_back_where_a_learnt_rule_shares_its_name_with_another(shared, tmp_path):
    schema = number_schema()
    learnt = parse_rule("always y >= -9", schema, name="cap")
    other = parse_rule("if x > 1 then y <= 50", schema, name="cap")
    network = MLP(1, (2,))
    gaussian = DiagonalGaussian(np.zeros(network.size), np.ones(network.size))
    finding = RuleFinding(replace(checked(0.0, 0.0, 4000.0, 0.0, 0.001), name="cap"), 0.0, 1.0)
    findings = Findings((finding,), "sampled", "kl", False, 1.0, 0.0, 0.0)
    term = RuleTerm.build(learnt, schema, Scoring(points=3), bounded=network.bounded)
    prior = AmortizedPrior(gaussian, gaussian, (term,), schema, network, Gaussian(0.3), findings)
    rules = [other if shared == "the name alone" else learnt]
    model = Model.build(schema=schema, base=prior, noise=0.3, strength=10.0, rules=rules, points=3)
    posterior = drawn(model)
    posterior = replace(posterior, enforced=posterior.rules)
    save(tmp_path / "model", posterior)
    again = load(tmp_path / "model").posterior
    assert [term.rule for term in again.rules] == [term.rule for term in posterior.rules]
    assert [term.rule for term in again.enforced] == [term.rule for term in posterior.enforced]
    assert len(again.rules) == (2 if shared == "the name alone" else 1)


@dataclass(frozen=True)
class Contrast(Requirement):
    """y does not fall by more than this over a step of up to 1, the further coordinate of its points."""

    most: float
    inputs = 2
    coordinates = 1

    def cases(self, points, schema, region):
        step = points[:, -1:]
        return np.stack([points[:, :-1], points[:, :-1] + step], axis=1)

    def demand(self, cases, schema, units):
        return (np.full(len(cases), self.most / units.scale),)

    def margin(self, demand, values):
        return values[..., 0] - values[..., 1] - demand[0]

    def text(self, target_name="y", names=()):
        return f"{target_name} falls by at most {self.most:g}"


@dataclass(frozen=True)
class Average(Contrast):
    """The mean of y over all points is at most this."""

    inputs = None
    coordinates = 0
    cases = Requirement.cases

    def margin(self, demand, values):
        return values.mean(axis=-1) - demand[0]

    def text(self, target_name="y", names=()):
        return f"mean {target_name} <= {self.most:g}"


@pytest.mark.parametrize("kind", [Contrast, Average])
def test_points_with_further_coordinates_and_populations_come_back(kind, tmp_path, monkeypatch):
    rule = Constraint(Everywhere(), kind(2.0), name="own")

    def parse(text, schema, **said):
        said.pop("line", None)
        return replace(rule, **said)

    monkeypatch.setattr("ocbnn.rules.files.parse_rule", parse)
    built = Model.build(schema=number_schema(), rules=[rule], hidden=(3,), points=6, noise=0.3)
    save(tmp_path / "model", drawn(built))
    again = load(tmp_path / "model").posterior.model.terms[0]
    before = built.terms[0].points
    assert before.coded.shape == (6, 2 if kind is Contrast else 1)
    for name in ("coded", "inputs", "weights"):
        assert np.array_equal(getattr(again.points, name), getattr(before, name))


def test_how_many_points_are_corners_comes_back(tmp_path):
    rule = "if 0 < x < 1 then y >= 0"
    built = Model.build(schema=number_schema(), rules=[rule], hidden=(3,), points=5, corners=True, noise=0.3)
    save(tmp_path / "model", drawn(built))
    (term,) = load(tmp_path / "model").posterior.model.terms
    assert (term.drawn, term.corners) == (5, built.terms[0].corners)
    assert term.corners > 0
    assert rule_provenance(term) == rule_provenance(built.terms[0])


# What cannot be saved ----------------------------------------------------------------------------------


def test_rules_from_python_functions_cannot_be_saved(posterior, tmp_path):
    region = posterior.rules[0].rule.region
    rule = Constraint.from_functions(region, lambda x, p: 0.5 - p[..., 1])
    model = Model.build(frame=patients(), target="action", rules=[rule], hidden=(4,), points=3)
    with pytest.raises(OCBNNError, match="cannot be written to a file: its kind, such as Python functions"):
        save(tmp_path / "model", drawn(model))
    assert list(tmp_path.iterdir()) == []


def test_a_network_of_ones_own_cannot_be_saved(tmp_path):
    network = FunctionNetwork.wrap(lambda p, x: x @ p, np.ones((1, 1)))
    table = pd.DataFrame({"x": [0.5, 1.5, 2.5], "y": [1.0, 2.5, 3.0]})
    model = Model.build(frame=table, target="y", network=network)
    with pytest.raises(FileError, match="must not run code"):
        save(tmp_path / "model", drawn(model))


def test_what_was_enforced_by_a_rule_of_no_model_cannot_be_saved(tmp_path):
    kept = reject(constants(np.array([[0.0, 9.0]])), ["always y <= 5"], points=10, ascent=False).posterior
    with pytest.raises(FileError, match="not among its own"):
        save(tmp_path / "model", kept)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_other_things_in_it_is_not_replaced(posterior, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(FileError, match="would be lost"):
        save(tmp_path, posterior)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_file_is_not_replaced_by_a_folder(posterior, tmp_path):
    (tmp_path / "model").write_text("something")
    with pytest.raises(FileError, match="is a file"):
        save(tmp_path / "model", posterior)


# Crashes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("crash_at", range(1, 9))
def test_a_crash_at_any_moment_leaves_a_whole_model(posterior, saved, monkeypatch, crash_at):
    """The process dies at the n-th call that touches the disk: what is there afterwards is old or new."""
    other = replace(posterior, draws=posterior.draws + 1.0)
    calls = {"left": crash_at}

    class Crash(BaseException):
        pass

    def dying(function):
        def call(*arguments, **options):
            calls["left"] -= 1
            if calls["left"] == 0:
                raise Crash
            if calls["left"] < 0:
                raise SystemExit  # a dead process cleans nothing up
            return function(*arguments, **options)

        return call

    for name in ("rename", "fsync"):
        monkeypatch.setattr(os, name, dying(getattr(os, name)))
    monkeypatch.setattr(shutil, "rmtree", lambda *a, **k: None)
    with contextlib.suppress(Crash, SystemExit):
        save(saved, other)
    monkeypatch.undo()
    draws = load(saved).posterior.draws
    assert np.array_equal(draws, posterior.draws) or np.array_equal(draws, other.draws)
    save(saved, other)
    assert np.array_equal(load(saved).posterior.draws, other.draws)
    assert not (saved.parent / ".model.old").exists()


def test_saving_again_replaces_the_model_and_leaves_nothing_beside_it(posterior, saved):
    save(saved, replace(posterior, draws=posterior.draws * 2.0))
    assert np.array_equal(load(saved).posterior.draws, posterior.draws * 2.0)
    assert [f.name for f in saved.parent.iterdir()] == ["model"]


# Damage ------------------------------------------------------------------------------------------------


def test_200_random_corruptions_are_errors_or_change_nothing(posterior, saved):
    refused = 0
    for _ in corruptions(saved, 200):
        try:
            again = load(saved).posterior
        except OCBNNError:
            refused += 1
        else:
            assert np.array_equal(again.flat, posterior.flat)
            assert again.schema == posterior.schema
            assert again.model.network == posterior.model.network
    assert refused > 180


def test_a_newer_format_says_so(saved):
    rewrite_manifest(saved, lambda content: content.update(version=3, written_by="ocbnn 9.0", surprise=[]))
    with pytest.raises(FileError, match=r"version 3, written by ocbnn 9.0; .* Update ocbnn"):
        load(saved)


def test_a_folder_of_an_earlier_version_is_refused_with_the_remedy(saved):
    (saved / "manifest.json").unlink()
    with pytest.raises(FileError, match=r"saved by an earlier version of ocbnn.*fit again"):
        load(saved)


@pytest.mark.parametrize("name", ["model.json", "rules.yaml", "draws.safetensors", "diagnostics.json"])
def test_a_missing_file_is_named(saved, name):
    (saved / name).unlink()
    with pytest.raises(FileError, match=f"{name} is missing"):
        load(saved)


def test_no_folder_is_an_error(tmp_path):
    with pytest.raises(FileError, match="does not exist"):
        load(tmp_path / "nothing")
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileError, match="is not a folder"):
        load(tmp_path / "file")


# Hostility: everything below has the right checksums ---------------------------------------------------


def header(change):
    """The header of draws.safetensors, changed, before the bytes that were there."""

    def applied(folder: Path) -> None:
        content = (folder / "draws.safetensors").read_bytes()
        length = int.from_bytes(content[:8], "little")
        fields = json.loads(content[8 : 8 + length])
        change(fields)
        text = json.dumps(fields).encode()
        forge(folder, "draws.safetensors", len(text).to_bytes(8, "little") + text + content[8 + length :])

    return applied


def a_terabyte_of_draws(fields):
    size = fields["draws"]["shape"][2]
    fields["draws"] |= {"shape": [2, 2**36, size], "data_offsets": [0, 8 * 2 * 2**36 * size]}


def a_giant_network(content):
    content["network"]["hidden"] = [1_000_000] * 100


def truncation(**changes):
    """A truncation by one rule, changed."""
    return lambda c: c.update(truncated=[{"rule": "if age > 70 then action = 1", **changes}])


def content(change):
    """A change of model.json."""
    return lambda folder: rewrite(folder, change)


HOSTILE = {
    "draws larger than their file": (header(a_terabyte_of_draws), "its arrays take"),
    "a shape that its bytes do not fit": (header(lambda f: f["draws"].update(shape=[2, 9, 9])), "damaged"),
    "a type of array nobody knows": (header(lambda f: f["kept"].update(dtype="F128")), "not expected"),
    "an array that is missing": (header(lambda f: f.pop("prior.scale")), "its arrays take"),
    "a network that the draws are not of": (content(a_giant_network), "not of the .* weights|are free"),
    "an unknown activation": (
        content(lambda c: c["network"].update(activation="__import__")),
        "no activation",
    ),
    "a network that is none": (content(lambda c: c["network"].update(kind="os.system")), "not one of mlp"),
    "a term that is no term": (
        content(lambda c: c["rules"][0]["term"].update(kind="os.system")),
        "not one of distance",
    ),
    "settings a term has not": (content(lambda c: c["rules"][0]["term"].update(command="x")), "damaged"),
    "a field nobody knows": (content(lambda c: c.update(pickle="gASV")), "Unexpected keyword"),
    "text for a number": (content(lambda c: c["rules"][0].update(strength="2")), "valid number"),
    "a strength below zero": (content(lambda c: c["rules"][0].update(strength=-1.0)), "not positive"),
    "more points drawn than there are": (
        content(lambda c: c["rules"][0].update(drawn=99)),
        "fewer points",
    ),
    "a file that is not listed": (
        lambda folder: rewrite_manifest(folder, lambda c: c["files"].pop("rules.yaml")),
        "does not list rules.yaml",
    ),
    "a file outside of the folder": (
        lambda folder: rewrite_manifest(
            folder, lambda c: c["files"].update({"../x": c["files"]["model.json"]})
        ),
        "not a name of a file in this folder",
    ),
    "one rule too few": (content(lambda c: c["rules"].pop()), "there are 1 terms"),
    "rejection for rules there are not": (
        content(lambda c: c["enforced"].pop()),
        "not those of the model",
    ),
    "another prior": (content(lambda c: c["base"].update(scale=1.0)), "fits nothing"),
    "an infinite scale": (content(lambda c: c["base"].update(scale=1e999)), "valid number|damaged"),
    "a schema without columns": (
        content(lambda c: c["schema"].update(columns=[])),
        "at least one input column",
    ),
    "a truncation by no rule": (content(truncation(rule="__import__('os')")), "do not fit together"),
    "a truncation by a book": (content(truncation(rule="always y >= 0" * 100_000)), "more than"),
    "a truncation for a book of reasons": (content(truncation(reason="because " * 200_000)), "more than"),
    "a truncation with no name": (content(truncation(name=" ")), "do not fit together"),
    "a truncation with a tolerance in words": (content(truncation(tolerance="0.1")), "damaged"),
    "a truncation by nothing": (content(lambda c: c.update(truncated=[{}])), "Field required|damaged"),
    "a truncation that runs": (content(truncation(command="x")), "damaged"),
    "a rule with a name of spaces": (
        content(lambda c: c["rules"][0].update(name=" ")),
        "do not fit together",
    ),
    "a rule with a number for a name": (content(lambda c: c["rules"][0].update(name=7)), "valid string"),
    "another table": (content(lambda c: c["schema"]["columns"].pop()), "inputs, but the table gives"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_description_is_refused_before_anything_is_allocated(saved, case):
    change, message = HOSTILE[case]
    change(saved)
    with pytest.raises(FileError, match=message):
        load(saved)


def test_a_saved_network_has_no_field_of_earlier_versions(saved):
    network = json.loads((saved / "model.json").read_text())["network"]
    assert sorted(network) == ["activation", "hidden", "inputs", "kind", "linear", "outputs", "signs"]


def test_a_sparse_file_of_a_terabyte_is_not_read(saved):
    with open(saved / "draws.safetensors", "r+b") as stream:
        stream.truncate(2**40)
    with pytest.raises(FileError, match="its arrays take"):
        load(saved)


def test_a_limit_on_draws_holds(saved):
    with pytest.raises(FileError, match="more than the limit of 100"):
        load(saved, largest=100)


def test_draws_that_the_free_memory_has_no_room_for_are_not_read_unless_one_says_so(saved, monkeypatch):
    """A file can be sparse: few bytes on the disk, and as many in memory as it says."""
    size = (saved / "draws.safetensors").stat().st_size
    monkeypatch.setattr(posterior_folder, "free_memory", lambda: 4 * size - 4)
    with pytest.raises(FileError, match=f"more than the limit of {size - 1:,}"):
        load(saved)
    assert load(saved, largest=size).posterior.draws.size
    monkeypatch.setattr(posterior_folder, "free_memory", lambda: 4 * size)
    assert load(saved).posterior.draws.size


def test_diagnostics_of_many_megabytes_are_not_read(saved):
    forge(saved, "diagnostics.json", b'{"a": [' + b"[]," * 1_500_000 + b"[]]}")
    with pytest.raises(FileError, match=r"diagnostics.json has 4,500,011 bytes, more than the limit of \S+$"):
        load(saved)


@pytest.mark.parametrize(
    "content", [b"", b"\xff" * 64, (2**62).to_bytes(8, "little") + b"{}", b"\x80\x04K\x01."]
)
def test_draws_that_are_no_draws_are_refused(saved, content):
    forge(saved, "draws.safetensors", content)
    with pytest.raises(FileError):
        load(saved)


def test_draws_that_are_not_finite_are_refused(posterior, tmp_path):
    broken = posterior.draws.copy()
    broken[0, 0, 0] = np.nan
    save(tmp_path / "model", replace(posterior, draws=broken))
    with pytest.raises(FileError, match="not finite"):
        load(tmp_path / "model")


def test_yaml_that_would_run_code_does_not(saved, tmp_path):
    forge(saved, "rules.yaml", f"- !!python/object/apply:os.mkdir ['{tmp_path}/ran']\n".encode())
    with pytest.raises(FileError):
        load(saved)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 50_000, "NaN", "[]", '{"content": 1}', "1" * 5000])
def test_json_that_is_no_model_is_refused(saved, text):
    forge(saved, "model.json", text.encode())
    with pytest.raises(FileError):
        load(saved)
    (saved / "manifest.json").write_text(text)
    with pytest.raises(FileError):
        load(saved)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_pipes_and_links_are_not_followed(saved, tmp_path):
    (saved / "draws.safetensors").unlink()
    os.mkfifo(saved / "draws.safetensors")
    with pytest.raises(FileError, match="a device or a pipe"):
        load(saved)
    (saved / "draws.safetensors").unlink()
    (saved / "draws.safetensors").symlink_to("/dev/zero")
    with pytest.raises(FileError, match="cannot be read"):
        load(saved)


def test_no_module_that_writes_or_reads_files_knows_pickle():
    package = Path(ocbnn.__file__).parent
    sources = {*package.glob("storage/*.py"), *package.glob("**/*files.py"), *package.glob("**/*folder.py")}
    assert {Path(posterior_folder.__file__), Path(folders.__file__)} < sources
    for source in sources:
        for node in ast.walk(ast.parse(source.read_text())):
            names = [alias.name for alias in getattr(node, "names", []) if isinstance(alias, ast.alias)]
            imported = {name.split(".")[0] for name in (*names, getattr(node, "module", None) or "")}
            assert not imported & {"pickle", "cloudpickle", "joblib", "dill", "shelve", "marshal"}, source
