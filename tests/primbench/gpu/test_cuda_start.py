"""Asking a driver to start: through a library of that name here, which opens what it needs as NVIDIA's does."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from primbench.gpu.nvidia import cuda_start

DRIVER = """
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

int cuInit(unsigned flags) {
    if (getenv("ENDS")) abort();
    if (getenv("HANGS")) pause();
    return open(getenv("NEEDED"), O_RDWR) < 0 ? 999 : 0;
}

int cuGetErrorName(int error, const char **name) {
    *name = error == 999 ? "CUDA_ERROR_UNKNOWN" : NULL;
    return *name ? 0 : 1;
}
"""


@pytest.fixture
def needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that the driver opens, which is not there."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("a library is compiled: apt-get install gcc")
    (tmp_path / "driver.c").write_text(DRIVER)
    name = "libcuda.so.1"
    built: list[str | Path] = [
        compiler,
        "-shared",
        "-fPIC",
        f"-Wl,-soname,{name}",
        "-o",
        tmp_path / name,
        tmp_path / "driver.c",
    ]
    subprocess.run(built, check=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setenv("NEEDED", str(tmp_path / "nvidia-uvm"))
    return tmp_path / "nvidia-uvm"


def test_the_error_is_told_and_then_that_it_starts(needed: Path) -> None:
    assert "CUDA_ERROR_UNKNOWN" == cuda_start.started_apart()
    needed.touch()
    assert cuda_start.STARTS == cuda_start.started_apart()


def test_a_driver_that_ends_its_process_or_never_answers(needed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENDS", "1")
    assert "its process ended by signal 6" == cuda_start.started_apart()
    monkeypatch.delenv("ENDS")
    monkeypatch.setenv("HANGS", "1")
    assert "no answer in 2 s" == cuda_start.started_apart(within_s=2)


def test_without_a_driver_there_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    if any(Path("/dev").glob("nvidia*")):
        pytest.skip("there is a driver here")
    with pytest.raises(LookupError, match=r"libcuda\.so\.1"):
        cuda_start.started_apart()
    with pytest.raises(LookupError, match="in the place itself alone"):
        cuda_start.answer(tmp_path)


def test_files_that_may_not_be_opened_are_told(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    (tmp_path / "dev/nvidia-uvm").mkdir()
    files = ["/dev/nvidia-modeset", "/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl"]
    assert {"/dev/nvidia-uvm": "EISDIR", "/dev/nvidiactl": "ENOENT"} == cuda_start.refused_files(tmp_path, files)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes a device file")
def test_a_device_without_a_driver_is_no_device(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    os.mknod(tmp_path / "dev/nvidia-uvm", 0o600 | 0o020000, os.makedev(511, 0))
    assert {"/dev/nvidia-uvm": "ENXIO"} == cuda_start.refused_files(tmp_path, ["/dev/nvidia-uvm"])
