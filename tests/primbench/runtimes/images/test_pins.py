"""Which versions an image is held to."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from primbench.runtimes.images import pins

HERE: dict[str, tuple[str, list[str]]] = {
    "primbench": (
        "0.1.0",
        ["NumPy>=1", 'torch; extra == "torch"', 'late[fast]; extra == "late"', "old; python_version < '3'"],
    ),
    "numpy": ("2.4.6", ['pytest; extra == "test"']),
    "Torch": ("2.13.0+cpu", ["typing_extensions", "ruamel.yaml", "nightly", "patched"]),
    "typing_extensions": ("4.15.0", ["torch"]),  # in a circle
    "ruamel.yaml": ("0.18.post1", []),
    "nightly": ("2.0.0.dev5+gabc", []),
    "patched": ("unknown", []),
    "late": ("1.0", ['quick>=2; extra == "fast"', 'slow; extra == "easy"']),
    "pytest": ("9.0", []),
    "nvidia-cuda-nvrtc": ("13.5.37", []),  # beside a torch whose release needs an older one
    "old": ("1.0", []),
}


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is installed, and an older torch behind it on the path."""
    here = [("first", name, version, asked) for name, (version, asked) in HERE.items()]
    for folder, name, version, asked in [*here, ("second", "torch", "1.0", [])]:
        info = tmp_path / folder / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        lines = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}"]
        (info / "METADATA").write_text("\n".join([*lines, *(f"Requires-Dist: {line}" for line in asked), ""]))
    (tmp_path / "first/numpy-0.1.dist-info").mkdir()  # what an interrupted uninstallation leaves
    monkeypatch.setattr(sys, "path", [str(tmp_path / "first"), str(tmp_path / "second")])


def test_what_primbench_needs_is_held_to_the_version_here() -> None:
    assert ["numpy==2.4.6"] == pins.constraints()
    assert [] == pins.unpinned()


def test_an_extra_brings_what_it_needs_in_versions_that_an_index_has() -> None:
    assert [
        *("numpy==2.4.6", "ruamel-yaml==0.18.post1", "torch==2.13.0", "typing-extensions==4.15.0"),
    ] == pins.constraints(["torch"])


def test_what_may_come_in_another_build_is_told_with_what_is_here() -> None:
    assert [
        *("nightly (2.0.0.dev5+gabc here)", "patched (unknown here)", "torch (2.13.0+cpu here)"),
    ] == pins.unpinned(["torch"])


def test_extras_of_what_an_extra_brings_count_and_what_is_absent_is_told() -> None:
    assert ["late==1.0", "numpy==2.4.6"] == pins.constraints(["late"])
    assert ["quick (not installed here)"] == pins.unpinned(["late"])
