"""The wheel of what is running: complete, the same every time, and one that pip takes."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import primbench
from primbench.errors import InvalidRequest
from primbench.runtimes.images.build import installed, pack_wheel

PACKAGE = Path(primbench.__file__).parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack_wheel(installed(), tmp_path_factory.mktemp("wheel"))


def test_the_wheel_holds_all_that_runs_here_and_says_so_itself(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (record,) = [name for name in names if name.endswith(".dist-info/RECORD")]
        held = dict(line.split(",", 1) for line in archive.read(record).decode().splitlines())
        assert names == held.keys()
        for name in names - {record}:
            digest = base64.urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest()).rstrip(b"=").decode()
            assert f"sha256={digest},{len(archive.read(name))}" == held[name]
    assert {f"primbench/{path.relative_to(PACKAGE)}" for path in PACKAGE.rglob("*.py")} <= names
    data = {
        "kernels/gemm/problem.py",
        "kernels/conv/implicit_gemm.cu",
        "suites/quick.toml",
        "suites/NOTICE",
        "py.typed",
    }
    assert {f"primbench/{name}" for name in data | {"containers/Containerfile"}} <= names
    assert not [name for name in names if "__pycache__" in name or "direct_url" in name]


def test_the_same_code_makes_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    assert wheel.read_bytes() == pack_wheel(installed(), tmp_path).read_bytes()


def test_pip_installs_the_wheel_and_what_it_installed_packs_the_same(wheel: Path, tmp_path: Path) -> None:
    pytest.importorskip("pip", reason="module 'pip' is not installed")
    target = tmp_path / "installed"
    pip = (sys.executable, "-P", "-m", "pip", "install", "--quiet", "--no-deps", "--no-index")
    subprocess.run([*pip, "--target", target, wheel], cwd="/", check=True, timeout=120)
    repack = (
        "import sys, pathlib, primbench; from primbench.runtimes.images.build import installed, pack_wheel;"
        "print(primbench.__file__); pack_wheel(installed(), pathlib.Path(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", repack, str(tmp_path)], cwd="/", env={**os.environ, "PYTHONPATH": str(target)},
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert str(target / "primbench/__init__.py") == done.stdout.strip()
    assert wheel.read_bytes() == (tmp_path / wheel.name).read_bytes()


def test_a_bare_folder_of_code_is_told_to_be_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "primbench.egg-info").mkdir()
    (tmp_path / "primbench.egg-info/PKG-INFO").write_text("Metadata-Version: 2.4\nName: primbench\nVersion: 0.1\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(InvalidRequest, match=r"is not installed: .* run `pip install -e \.`"):
        installed()
