"""Ctrl-C on a real process: what there is gets saved."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from command_line import run
from ocbnn.inference.engines.hmc import Hmc
from ocbnn.inference.loop import CHUNK

COMMAND = Path(sys.executable).with_name("ocbnn")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_ctrl_c_saves_the_draws_so_far(files, tmp_path):
    out = tmp_path / "model"
    options = ["--hidden", "2", "--chains", "2", "--draws", "1000000", "--engine", "hmc", "--quick"]
    table = ["fit", files / "table.csv", "--target", "y", "--ignore", "sick", "--rules", files / "rules.yaml"]
    # A shell's background jobs ignore Ctrl-C, and so do their children; a handler makes children heed it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen([COMMAND, *table, *options, "--out", out], stderr=subprocess.PIPE, text=True)
    signal.signal(signal.SIGINT, before)
    kept = tmp_path / "model.run" / "with_rules" / f"chunk-{Hmc().warmup // CHUNK + 1:06d}.safetensors"
    while not kept.exists():
        assert process.poll() is None
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130, said
    assert "--resume goes on" in said
    assert "Traceback" not in said
    assert run("predict", out, files / "table.csv").exit_code == 0
