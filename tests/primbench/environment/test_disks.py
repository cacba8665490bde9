"""The disk behind a folder and its read-ahead: of a made tree, and of a disk that was made for it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from primbench.environment.disks import disks, read_ahead_bytes

MOUNTS = (
    "20 1 259:2 / / rw,relatime - ext4 /dev/nvme0n1p2 rw\n"
    "21 20 0:45 / {temporary} rw,relatime - nfs4 server:/export rw\n"
    "22 20 0:46 / /dev/shm rw - tmpfs tmpfs rw\n"
)


def tree(root: Path, temporary: str = "/mnt/far") -> Path:
    """Of this process, with temporary files over a network, and all else on a part of a disk."""
    disk = root / "sys/devices/nvme0n1"
    files = {
        root / "proc/self/mountinfo": MOUNTS.format(temporary=temporary),
        root / "sys/class/bdi/0:45/read_ahead_kb": "128\n",
        disk / "queue/read_ahead_kb": "4096\n",
        disk / "nvme0n1p2/partition": "2\n",
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True)
        path.write_text(text)
    (root / "sys/dev/block").mkdir(parents=True)
    (root / "sys/dev/block/259:2").symlink_to("../../devices/nvme0n1/nvme0n1p2")
    return root


def test_a_part_has_what_its_disk_has_and_a_network_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/mnt/far/tmp")
    root = tree(tmp_path)
    found, ahead = disks(root), read_ahead_bytes(root)
    assert ("nvme0n1", "nfs4") == (found["Python"], found["temporary files"])
    assert (4096 * 1024, 128 * 1024) == (ahead["Python"], ahead["temporary files"])
    assert ahead["working folder"] == 4096 * 1024


def test_what_lies_in_memory_or_is_not_shown_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/dev/shm")
    root = tree(tmp_path)
    assert "temporary files" not in disks(root)
    shutil.rmtree(root / "sys")
    assert ({}, {}) == (disks(root), read_ahead_bytes(root))


def run(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Where a disk with a file system of its own is mounted."""
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None or not Path("/dev/loop-control").exists():
        pytest.skip("needs root, mkfs.ext4 and loop devices")
    image, folder = tmp_path / "image", tmp_path / "mounted"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(2**22)
    with ExitStack() as made:
        run("mkfs.ext4", "-q", image)
        try:
            device = run("losetup", "-f", "--show", image).strip()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no loop device: {error.stderr}")
        made.callback(run, "losetup", "-d", device)
        run("mount", device, folder)
        made.callback(run, "umount", folder)
        yield folder


def test_a_real_disk(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(disk))
    name = disks(Path("/"))["temporary files"]
    assert name.startswith("loop")
    Path("/sys/block", name, "queue/read_ahead_kb").write_text("16")
    assert 16 * 1024 == read_ahead_bytes(Path("/"))["temporary files"]
