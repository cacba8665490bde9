"""A leaf is imported by its own commands alone: a copy without the leaves works, and its tests pass."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .primbench.test_architecture import MODULES, OUTER, imported_modules

ROOT = Path(__file__).parents[1]
LEAVES = {
    "watch": ("primbench/watching", "primbench/cli/watch.py"),
    "models": (
        "primbench/datasets",
        "primbench/suites/models",
        *(f"primbench/kernels/{name}" for name in ("model", "learning", "loader", "program")),
    ),
    "capture": (
        "primbench/decompose",
        "primbench/traces",
        "primbench/kernels/aten",
        "primbench/cli/capture.py",
        "primbench/cli/explain.py",
    ),
    "bound": ("primbench/doses", "primbench/kernels/replay", "primbench/cli/bound.py"),
    "history": ("primbench/history", "primbench/cli/history.py"),
    "fleet": (
        "primbench/fleet",
        *(f"primbench/cli/{name}.py" for name in ("fleet", "member", "links", "certify", "certifying", "ways/fleet")),
    ),
}
STUDY = ROOT / "tests/primbench/fixtures/single-samples.jsonl.xz"
TINY = ("--backend", "numpy", "--device", "cpu", "--max-time", "10ms", "-q")
COMMANDS = (
    ("--help",),
    ("list",),
    ("list", "suites"),
    ("gemm", "-m", "16", "-n", "16", "-k", "16", *TINY, "-o", "gemm.jsonl"),
    ("launch", *TINY),
    ("show", "gemm.jsonl"),
    ("compare", str(STUDY)),
    ("doctor",),
)
WORKS = f"""
import importlib, pkgutil
import primbench, primbench.registry as registry
from primbench.cli import main

for found in pkgutil.walk_packages(primbench.__path__, "primbench."):
    if not found.name.startswith(("primbench.__main__", "primbench.kernels.", "primbench.suites.models.")):
        importlib.import_module(found.name)
registry.primitives()
registry.operators()
for words in {COMMANDS}:
    try:
        main(words)
    except SystemExit as ended:
        print(words, ended.code)
        assert not ended.code or words[0] == "doctor", words  # which may find a problem of this machine
"""
REMAINING = (
    "compare/test_ruled.py",
    "doctor/test_table.py",
    "report/test_table.py",
    "spec/test_arm.py",
)


@pytest.mark.parametrize("leaf", LEAVES)
def test_nothing_imports_a_leaf(leaf: str) -> None:
    """Not even inside a function."""
    own = tuple(path.removesuffix(".py").replace("/", ".") for path in LEAVES[leaf])

    def is_own(name: str) -> bool:
        return any(name == each or name.startswith(f"{each}.") for each in own)

    others = sorted(name for name in MODULES.keys() - OUTER if not is_own(name))
    assert {} == {name: found for name in others if (found := [*filter(is_own, imported_modules(name))])}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy without any of the leaves, none of which imports another, as the test above holds."""
    folder = tmp_path_factory.mktemp("tree")
    shutil.copytree(ROOT / "primbench", folder / "primbench", ignore=shutil.ignore_patterns("reference", "docs"))
    for path in (path for leaf in LEAVES.values() for path in leaf):
        there = folder / path
        shutil.rmtree(there) if there.is_dir() else there.unlink()
    return folder


def test_the_rest_works(tree: Path) -> None:
    python(tree, "-c", WORKS)


def test_the_rest_passes_its_tests(tree: Path) -> None:
    tests = [str(ROOT / "tests/primbench" / each) for each in REMAINING]
    python(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={ROOT}", *tests)


def python(tree: Path, *arguments: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    found = subprocess.run(
        [sys.executable, "-P", *arguments],
        cwd=tree, env=environment, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert 0 == found.returncode, f"{found.stdout}{found.stderr}"
