"""Images that `primbench image` builds with real runtimes, and what is in them."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

import primbench
from primbench.results import file as results_file

from .built import OLD, PRIMBENCH, Built, done
from .traces import ALONE

pytestmark = pytest.mark.slow


def test_time_and_size_are_told(built: Built) -> None:
    assert built.said["build_s"] > 0
    assert built.said["size_bytes"] > 100_000_000, built.said["missing"]  # Python, NumPy and SciPy are as much
    assert primbench.__version__ == built.said["primbench"]


def test_the_image_starts_primbench(built: Built) -> None:
    sizes = ("-m", "16", "-n", "24", "-k", "8", "--max-time", "20ms", "--backend", "numpy")
    (record,) = json.loads(built.start("gemm", *sizes, "--json", "-"))["records"]
    assert ("ok", True) == (record["status"], record["measurement"]["verified"])


@pytest.mark.parametrize("built", ["podman"], indirect=True)
def test_the_command_that_it_prints_compares_host_and_image(found_by_runtime: Built, tmp_path: Path) -> None:
    program, *asked = shlex.split(found_by_runtime.study)
    assert "primbench" == program
    if found_by_runtime.runtime in ALONE:  # the test's daemon has no other network
        asked[-1] += ",network=none"
    path = tmp_path / "results.jsonl"
    quick = ("--primitive", "launch", "--pairs", "1", "--device", "cpu", "--backend", "numpy", "--max-time", "10ms")
    done([*PRIMBENCH, *asked, *quick, "--fail-on", "never", "-o", path], found_by_runtime.environment)
    assert {"ok"} == {each.status for each in results_file.read(path).records}


def test_what_the_base_brought_stays(found_by_runtime: Built) -> None:
    code = "from importlib.metadata import version; print(version('tabulate'))"
    name = found_by_runtime.image
    start = {
        "docker": ("docker", "run", "--rm", "--network=none", "--entrypoint=python3", name),
        "podman": ("podman", "run", "--rm", "--network=none", "--entrypoint=python3", name),
        "apptainer": ("apptainer", "exec", name, "python3"),
        "charliecloud": ("ch-run", name, "--", "/usr/local/bin/python3"),
    }[found_by_runtime.runtime]
    assert f"{OLD}\n" == done([*start, "-P", "-c", code], found_by_runtime.environment)


@pytest.mark.parametrize("engine", ["podman"], indirect=True)
def test_a_base_that_cannot_be_built_on_ends_in_one_line_after_the_runtimes_own(engine: Any) -> None:
    (image,) = engine.image
    command = [*PRIMBENCH, "image", "--runtime", "podman", "--base", image]
    environment = {**os.environ, **engine.environment}
    found = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, timeout=240, check=False)
    assert (1, "") == (found.returncode, found.stdout)
    *said, last = found.stderr.splitlines()
    assert re.fullmatch(r"Error: podman build ended with exit status \d+: what it said is above", last)
    assert any("STEP 1" in line for line in said)


@pytest.mark.parametrize("engine", ["podman"], indirect=True)
def test_a_build_ends_with_primbench(engine: Any, base_archive: Path) -> None:
    # Podman else commits each line of the file, and once one was cut off while it was committed it lists no images.
    environment = {**os.environ, **engine.environment, "BUILDAH_LAYERS": "false"}
    done(["podman", "import", base_archive, "localhost/ended"], environment)
    command = [*PRIMBENCH, "image", "--runtime", "podman", "--base", "localhost/ended", "--tag", "ended:never"]
    with subprocess.Popen(command, env=environment, cwd="/", stderr=subprocess.PIPE, text=True) as front:
        assert front.stderr is not None
        assert any("STEP 2" in line for line in front.stderr)
        front.terminate()
        rest = front.stderr.read()  # until all who could write to it have ended
    assert 128 + signal.SIGTERM == front.returncode
    assert "Successfully installed" not in rest
    assert "ended:never" not in done(["podman", "images", "--format={{.Repository}}:{{.Tag}}"], environment)
