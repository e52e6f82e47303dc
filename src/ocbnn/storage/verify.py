"""Whether a folder is whole: a saved model or prior, or the folder of a run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from ocbnn.errors import FileError, InferenceError, OCBNNError
from ocbnn.storage.folders import MANIFEST, found, is_whole, names_in, resolved
from ocbnn.storage.runs import RUN, RunFolder, chunk_name, identity, read_run


class Findings(NamedTuple):
    """Whether a folder is whole.

    Attributes:
        kind: what it holds.
        files: how many files were compared with their checksums.
        problems: what is missing or damaged, one sentence each; empty where the folder is whole.
        foreign: names of files that are no part of it.
    """

    kind: str
    files: int
    problems: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()


def verify(path: str | os.PathLike[str]) -> Findings:
    """Compare every file of a saved model, prior or run with the checksum it was written with.

    Raises:
        FileError: there is no folder.
    """
    target = resolved(path)
    runs = [each for each in (target, *sorted(target.glob("*"))) if os.path.lexists(each / RUN)]
    try:
        return _together([_verify_run(run) for run in runs]) if runs else _verify_saved(target)
    except OCBNNError as error:
        if not target.is_dir():
            raise
        return Findings("folder", 0, (str(error),))


def _verify_saved(target: Path) -> Findings:
    place, manifest = found(target)
    problems = []
    for name in manifest.files:
        try:
            if not is_whole(place, manifest, name):
                problems.append(f"{name} is damaged: it is not what was written.")
        except FileError as error:
            problems.append(str(error))
    foreign = names_in(place) - {*manifest.files, MANIFEST}
    return Findings(manifest.kind, len(manifest.files), tuple(problems), tuple(sorted(foreign)))


def _together(findings: list[Findings]) -> Findings:
    return Findings(
        "run",
        sum(each.files for each in findings),
        tuple(problem for each in findings for problem in each.problems),
        tuple(name for each in findings for name in each.foreign),
    )


def _verify_run(folder: Path) -> Findings:
    run = RunFolder(folder)
    run.run = identity(read_run(folder))
    parts = sorted(file.stem for file in folder.glob("*.safetensors"))
    problems = []
    for name in parts:
        try:
            run.load(name)
        except InferenceError as error:
            problems.append(str(error))
    chunks = [name for name in parts if name.startswith("chunk-")]
    missing = [name for number in range(len(chunks)) if (name := chunk_name(number)) not in chunks]
    problems += [f"{name}.safetensors is missing: the run goes on from there." for name in missing[:1]]
    known = {RUN, *(f"{name}.safetensors" for name in parts)}
    foreign = sorted(each.name for each in folder.iterdir() if each.name not in known)
    return Findings("run", len(parts) + 1, tuple(problems), tuple(foreign))
