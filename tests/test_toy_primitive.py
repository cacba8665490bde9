"""One file in kernels/ is a primitive: the example of docs/adding.md becomes a command, a row, a test."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def example() -> str:
    programs = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/adding.md").read_text(), re.MULTILINE | re.DOTALL)
    (found,) = [text for text in programs if '@kernel("scale", "numpy")' in text]
    assert isinstance(found, str)
    return found


@pytest.fixture(scope="module")
def tree(example: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it is installed, with one file more, and one whose kernel is wrong."""
    folder = tmp_path_factory.mktemp("tree")
    shutil.copytree(ROOT / "primbench", folder / "primbench")
    shutil.copy(ROOT / "pyproject.toml", folder)
    shutil.copy(ROOT / "tests/kernels/test_conformance.py", folder)
    (folder / "primbench/kernels/toy.py").write_text(example)
    wrong = example.replace("np.multiply(x, 2,", "np.multiply(x, 3,").replace('"scale"', '"thrice"')
    (folder / "primbench/kernels/thrice.py").write_text(wrong)
    return folder


def python(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", *arguments],
        cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_it_is_measured(tree: Path) -> None:
    times = ("--min-time", "1ms", "--max-time", "10ms")
    found = python(tree, "-m", "primbench", "scale", "-n", "1000", "-n", "2000", *times)
    assert (0, "") == (found.returncode, found.stderr)
    title, columns, first, second, *_ = found.stdout.splitlines()  # notes may follow
    assert title.startswith("scale  numpy ")
    numbered = columns.split()[0] == "row"  # where a note has to name one
    rows = [row.split()[numbered:] for row in (columns, first, second)]
    assert ["n", "batch", "wall", "noise", "GB/s", "check"] == rows[0]
    assert [("1000", "ok"), ("2000", "ok")] == [(row[0], row[-1]) for row in rows[1:]]


def test_its_help_has_its_fields_and_its_text(tree: Path) -> None:
    found = python(tree, "-m", "primbench", "scale", "--help").stdout
    assert "y[n] = 2 x[n]." in found
    assert re.search(r"-n N +elements\.", found)
    assert re.search(r", scale,?\s", python(tree, "-m", "primbench", "--help").stdout)


def test_it_is_in_the_list(tree: Path) -> None:
    listed = python(tree, "-m", "primbench", "list", "primitives").stdout
    assert re.search(r"scale +y\[n\] = 2 x\[n\]\. On numpy\.\n", listed)


def test_conformance_covers_it_and_fails_where_its_kernel_is_wrong(tree: Path) -> None:
    found = python(
        tree, "-m", "pytest", "-q", "-k", "[scale- or thrice", "-p", "no:cacheprovider", "test_conformance.py"
    )
    assert 1 == found.returncode, found.stdout
    assert "VerificationError: wrong result" in found.stdout
    assert re.search(r"^\w+ failed, 3 passed, ", found.stdout, re.MULTILINE), found.stdout
    assert {"thrice"} == set(re.findall(r"^(?:SUB)?FAILED.*\[(\w+)-numpy-cpu\]", found.stdout, re.MULTILINE))
