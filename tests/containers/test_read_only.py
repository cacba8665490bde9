"""The host's own files inside a container: nothing of them can be written to, nor of what is mounted among them."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from primbench.runtimes.table import launch
from primbench.spec.arm import parse_arm

from .traces import in_words

ASKED = """
import os, sys
for folder in sys.argv[1:]:
    assert os.path.isdir(folder), folder
    try:
        open(os.path.join(folder, "written"), "w").close()
        print("written to", folder)
    except OSError as error:
        print(error.strerror)
"""


@pytest.fixture
def mounted() -> Iterator[list[Path]]:
    """A file system in a folder that is bound, and one more in that."""
    with tempfile.TemporaryDirectory(prefix="primbench-mounted ", dir="/opt") as folder:
        outer, inner = Path(folder), Path(folder) / "inner"
        made: list[Path] = []
        try:
            for point in (outer, inner):
                point.mkdir(exist_ok=True)
                subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", point], check=True, timeout=30)
                made.insert(0, point)
            yield [outer, inner]
            assert not (outer / "written").exists()
            assert not (inner / "written").exists()
        finally:
            for point in made:
                subprocess.run(["umount", point], check=True, timeout=30)


@pytest.mark.parametrize(
    ("runtime", "settings"),
    [("docker", []), ("podman", []), ("apptainer", []), ("runc", []), ("runc", ["root=overlay"])],
    indirect=["runtime"],
)
def test_what_is_mounted_among_the_hosts_files_is_read_only(
    runtime: str,
    settings: list[str],
    mounted: list[Path],
    traces: Callable[[], list[str]],
    tmp_path: Path,
) -> None:
    asking = [sys.executable, "-P", "-c", ASKED, *map(str, mounted)]
    folder = tmp_path / "launch"
    folder.mkdir()
    launched = launch(parse_arm(in_words(runtime, *settings)), folder, gpus=False, command=asking)

    def run(command: list[str]) -> subprocess.CompletedProcess[str]:
        environment = launched.environment
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)

    try:
        made = [run(command) for command in launched.before]
        done = run(launched.worker)
    finally:
        for command in launched.after:
            run(command)
        shutil.rmtree(folder)
    said = [each.stderr for each in (*made, done)]
    assert ["Read-only file system"] * 2 == done.stdout.splitlines(), said
