"""What `primbench why` proves of one mount among other differences, in real places."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .programs import program

pytestmark = pytest.mark.quiet


def proven(*words: str) -> list[str]:
    """The ingredients of the only proof, certain both ways and there again after a pause."""
    command = [
        sys.executable,
        "-P",
        "-m",
        "primbench",
        "why",
        *words,
        "--time-budget",
        "200s",
        "--quiet",
        "--json",
        "-",
    ]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=280, check=False)
    assert 1 == done.returncode, done.stderr
    found = json.loads(done.stdout)
    assert "explained" == found["conclusion"]["outcome"], found["headline"]
    (proof,) = found["conclusion"]["proofs"]
    assert min(proof["harms"]["low"], proof["heals"]["low"]) > 1
    assert proof["repeated"]
    return [found["ingredients"][number] for number in proof["differences"]]


@pytest.fixture
def in_memory() -> Iterator[Path]:
    """Where no disk takes its time."""
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def through_a_process(in_memory: Path) -> Iterator[Path]:
    """A folder each of whose files is asked of a process."""
    fuse = program("fuse-overlayfs", "apt-get install fuse-overlayfs")
    below, above, work, merged = (in_memory / name for name in ("below", "above", "work", "merged"))
    for folder in (below, above, work, merged):
        folder.mkdir()
    layers = f"lowerdir={below},upperdir={above},workdir={work}"
    subprocess.run([fuse, "-o", layers, merged], check=True, capture_output=True, timeout=60)
    yield merged
    subprocess.run(["umount", merged], check=True, timeout=60)


@pytest.mark.usefixtures("work")
def test_a_slow_mount_under_temporary_files_is_named(in_memory: Path, through_a_process: Path, tmp_path: Path) -> None:
    fast, other = (in_memory / name for name in ("fast", "other"))
    scratch, elsewhere, empty = (tmp_path / name for name in ("scratch", "elsewhere", "empty"))
    for folder in (fast, other, scratch, elsewhere, empty):
        folder.mkdir()
    slow, there = f"mount={through_a_process}:{scratch}", f"env.TMPDIR={scratch}"
    places = (
        f"host:mount={fast}:{scratch},{there}",
        f"host:{slow}+{other}:{elsewhere},tmpfs={empty},nofile=4096,umask=0077,{there}",
    )
    assert [slow] == proven(*places, "--primitive", "files --bytes 1MiB --what write", "--device", "cpu")
