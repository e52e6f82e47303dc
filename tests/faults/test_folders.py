"""Damaged and forged folders of models, priors and runs: a clear error, or the same answer.

`OCBNN_MUTATIONS` is the number of mutations of the long version; default: 10,000.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import small_table, write_files
from damaged_files import corrupted, forge
from ocbnn.amortize import AmortizedPrior
from ocbnn.amortize.findings import Findings, RuleFinding
from ocbnn.errors import OCBNNError
from ocbnn.estimators.folder import load_all
from ocbnn.model.conditional import RuleTerm, Scoring
from ocbnn.model.likelihoods import Gaussian
from ocbnn.model.networks import MLP
from ocbnn.model.priors import DiagonalGaussian
from ocbnn.rules.parse import parse_rule
from ocbnn.storage.folders import MANIFEST, verify
from ocbnn.storage.runs import RunFolder
from posterior_cases import number_schema
from rule_checks import checked

SECONDS, MEMORY = 5.0, 2**30
QUICK, LONG = 30, int(os.environ.get("OCBNN_MUTATIONS", "10000"))
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**63, 10**30, 0.5, -1e-300, 1e308, 1e-320),
    *("", " ", "x" * 5000, "\u202e\x00\x1b[31m", "nan", "../../etc/passwd", "__import__('os')"),
    *([], {}, [[]], [0] * 1000, {"kind": "mlp"}, {"__number__": "nan"}, {"__pairs__": [[1, 2]]}),
)


@dataclass(frozen=True)
class Case:
    """A folder, how it is read, and whether an answer is sound that is not the same."""

    folder: Path
    read: Callable[[], Any]

    def names(self) -> list[str]:
        return sorted(f.relative_to(self.folder).as_posix() for f in self.folder.rglob("*") if f.is_file())


def a_model(folder: Path) -> Case:
    """A regressor with a rule, its twin without it, and evidence; read as `ocbnn report` and `predict` do."""
    write_files(folder)
    rows = small_table(12)[["x", "ward", "age"]]

    def read() -> Any:
        estimator, twin, evidence = load_all(folder / "model")
        assert twin is not None
        assert evidence is not None
        predicted = estimator.predict_interval(rows)
        assert np.isfinite(predicted).all(), "a prediction is not finite"
        return predicted.tobytes(), twin.draws.tobytes(), json.dumps(evidence.to_json()), estimator.rules_

    return Case(folder / "model", read)


def a_prior(folder: Path) -> Case:
    schema, network = number_schema(), MLP(1, (3,))
    gaussian = DiagonalGaussian(np.linspace(-1, 1, network.size), np.ones(network.size))
    finding = RuleFinding(replace(checked(0.0, 0.0, 4000.0, 0.0, 0.001), name="cap"), 0.0, 1.0)
    findings = Findings((finding,), "sampled", "kl", False, 1.0, 0.0, 0.0)
    rule = parse_rule("always y >= -9", schema, name="cap")
    term = RuleTerm.build(rule, schema, Scoring(points=3), bounded=network.bounded)
    AmortizedPrior(gaussian, gaussian, (term,), schema, network, Gaussian(0.3), findings).save(
        folder / "prior"
    )

    def read() -> Any:
        prior = AmortizedPrior.load(folder / "prior")
        assert np.isfinite(prior.gaussian.draws(3)).all()
        return prior.gaussian.mean.tobytes(), prior.gaussian.sd.tobytes(), str(prior.findings), prior.rules

    return Case(folder / "prior", read)


def a_run(folder: Path) -> Case:
    description = {"engine": "hmc", "seed": 3, "rules": ["always y >= 0"], "data": "0123"}
    run = RunFolder(folder / "run")
    run.open(description, resume=False)
    generator = np.random.default_rng(0)
    run.save("prepared", {"positions": generator.normal(size=(2, 7)), "reasons": np.zeros(0, np.uint8)})
    for number in range(3):
        run.save(
            f"chunk-{number:06d}", {"draws": generator.normal(size=(2, 5, 7)), "work": np.asarray(number)}
        )

    def read() -> Any:
        again = RunFolder(folder / "run")
        again.open(description, resume=True)
        prepared, chunks = again.load("prepared"), again.chunks()
        if len(chunks) < 3 or prepared is None:  # the run goes on from there, and draws the same again
            return None
        return tuple((name, part[name].tobytes()) for part in (prepared, *chunks) for name in sorted(part))

    return Case(folder / "run", read)


# Mutations ----------------------------------------------------------------------------------------------


def corrupt(case: Case, generator: np.random.Generator) -> None:
    file = case.folder / generator.choice(case.names())
    file.write_bytes(corrupted(generator, file.read_bytes()))


def swap(case: Case, generator: np.random.Generator) -> None:
    one, other = (case.folder / name for name in generator.choice(case.names(), 2, replace=False))
    first = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(first)


def take_away(case: Case, generator: np.random.Generator) -> None:
    file = case.folder / generator.choice(case.names())
    file.unlink()
    match generator.integers(4):
        case 1:
            file.mkdir()
        case 2:
            file.symlink_to("/dev/zero")
        case 3:
            os.mkfifo(file)


def edit(case: Case, generator: np.random.Generator) -> str | None:
    """One value of a JSON file, anywhere in it, becomes an odd one; the name of the file."""
    names = [name for name in case.names() if name.endswith(".json")]
    name = str(generator.choice(names))
    content = json.loads((case.folder / name).read_bytes())
    place, key = content, None
    while isinstance(place, dict | list) and place:
        inner, key = (
            place,
            (generator.integers(len(place)) if isinstance(place, list) else generator.choice([*place])),
        )
        place = inner[key]
        if generator.random() < 0.15:
            break
    if key is None:
        return None
    if generator.random() < 0.15 and isinstance(inner, dict):
        inner.pop(key)
    else:
        inner[key] = ODD[generator.integers(len(ODD))]
    (case.folder / name).write_text(json.dumps(content))
    return name


def edit_and_forge(case: Case, generator: np.random.Generator) -> None:
    name = edit(case, generator)
    if name not in (None, MANIFEST):
        forge(case.folder, name)


def corrupt_words_and_forge(case: Case, generator: np.random.Generator) -> None:
    file = case.folder / "rules.yaml"
    forge(case.folder, "rules.yaml", corrupted(generator, file.read_bytes()))


def corrupt_header_and_forge(case: Case, generator: np.random.Generator) -> None:
    (name,) = (each for each in case.names() if each.endswith(".safetensors") and "/" not in each)
    content = (case.folder / name).read_bytes()
    length = 8 + int.from_bytes(content[:8], "little")
    forge(case.folder, name, corrupted(generator, content[:length]) + content[length:])


DAMAGE = (corrupt, swap, take_away, edit)
FORGERY = (edit_and_forge, corrupt_words_and_forge, corrupt_header_and_forge)
"""With checksums that fit, as an attacker makes them: the answer may be another one, but never an odd one."""


def survive(case: Case, count: int, seed: int) -> dict[str, int]:
    """Mutate the folder so many times; the number of errors and of answers."""
    expected, copy = case.read(), case.folder.with_name("whole")
    shutil.copytree(case.folder, copy)
    forged = FORGERY if MANIFEST in case.names() else ()
    generator, told = np.random.default_rng(seed), {"refused": 0, "answered": 0}
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    for number in range(count):
        mutation = (*DAMAGE, *forged)[number % len((*DAMAGE, *forged))]
        mutation(case, generator)
        began = time.perf_counter()
        try:
            found = case.read()
        except OCBNNError:
            told["refused"] += 1
        else:
            told["answered"] += 1
            assert mutation in FORGERY or found is None or found == expected, (number, mutation.__name__)
        spent = time.perf_counter() - began
        taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - memory
        assert spent < SECONDS, (number, mutation.__name__, spent)
        assert taken < MEMORY, (number, mutation.__name__, taken)
        shutil.rmtree(case.folder)
        shutil.copytree(copy, case.folder)
    assert case.read() == expected
    assert verify(case.folder).problems == ()
    return told


@pytest.mark.parametrize("kind", [a_model, a_prior, a_run], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("count", [QUICK, pytest.param(LONG // 3 + 1, marks=pytest.mark.slow)])
def test_a_mutated_folder_is_refused_or_gives_the_same_answer_within_5_s_and_1_gb(kind, count, tmp_path):
    told = survive(kind(tmp_path), count, seed=count)
    assert told["refused"] > 0.5 * count, told


def test_a_rule_of_64_comparisons_at_400_000_points_is_refused_before_memory_is_taken(tmp_path):
    """12.8 MB on the disk that took 9.1 GB and minutes to load."""
    from ocbnn.posterior.folder import load, save
    from ocbnn.storage.arrays import array_bytes, parse_arrays
    from posterior_cases import constants

    save(tmp_path / "model", constants(np.zeros((1, 3)), ["always y >= -9"]))
    rule = " or ".join(f"{i} <= y <= {i}.5" for i in range(32))
    forge(tmp_path / "model", "rules.yaml", f"- always {rule}\n".encode())
    arrays, _ = parse_arrays((tmp_path / "model" / "draws.safetensors").read_bytes(), "draws")
    arrays["rules.0.points"], arrays["rules.0.weights"] = np.zeros((400_000, 1)), np.ones(400_000)
    forge(tmp_path / "model", "draws.safetensors", array_bytes(arrays))
    began = time.perf_counter()
    with pytest.raises(OCBNNError, match=r"400,000 points and .* steps, more than the limit of 10,000,000"):
        load(tmp_path / "model")
    assert time.perf_counter() - began < SECONDS
