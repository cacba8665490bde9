"""What the pages of docs/ name is there."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from primbench.cli import commands
from primbench.docs import reference
from primbench.doctor.table import causes
from primbench.doctor.table import checks as looked_for
from primbench.environment.fingerprint import sources
from primbench.registry import primitives
from primbench.report import plain
from primbench.results.metrics import METRICS

if TYPE_CHECKING:
    from click.testing import Result

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
FOLDERS = {path.name for path in ROOT.iterdir() if path.is_dir()}
PATH = re.compile(r"`([\w.-]+/[\w./-]*)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_is_named_is_there(page: Path) -> None:
    named = [path for path in PATH.findall(page.read_text()) if path.partition("/")[0] in FOLDERS]
    assert [] == [path for path in named if not (ROOT / path).exists()]


def test_pages_are_read_in_a_terminal(invoke: Callable[..., Result], refusal: Callable[..., str]) -> None:
    listed = invoke("help").stdout
    there = {page.stem for page in PAGES} - {"index"} | {*reference.PAGES}
    assert there == set(re.findall(r"^  ([a-z-]+) ", listed, re.MULTILINE))
    assert (ROOT / "docs/fleet.md").read_text() == invoke("help", "fleet").stdout
    assert invoke("help", "checks").stdout.startswith("# What `primbench doctor` looks for\n")
    assert "page 'flet': did you mean fleet?" == refusal("help", "flet")
    assert invoke("gemm", "--help").stdout == invoke("help", "gemm").stdout


def test_the_reference_has_all_that_the_code_has(tmp_path: Path) -> None:
    reference.write(tmp_path)
    page = {path.stem: path.read_text() for path in tmp_path.glob("*.md")}
    assert all(f"## primbench {name}" in page["commands"] for name in commands.known())
    assert all(f"| {plain.markdown(name)} |" in page["columns"] for name in METRICS)
    assert {"## Header", "## Worker", "## Record"} <= set(page["records"].splitlines())
    assert len(looked_for()) == page["checks"].count("\n| ") - 2
    assert all(f"| {plain.markdown(field)} |" in page["environment"] for field in sources())
    titles = {each.title for each in causes().values() if each.effect} - {None}
    assert titles <= set(re.findall(r"^\| (.+?) \|", page["causes"], re.MULTILINE))
    assert {f"## {name}" for name in primitives()} <= set(page["fields"].splitlines())


def test_every_script_of_figures_is_listed() -> None:
    folder = ROOT / "bench"
    listed = re.findall(r"^\| `(\w+\.py)` \|", (folder / "README.md").read_text(), re.MULTILINE)
    assert sorted(path.name for path in folder.glob("*.py")) == listed


def test_the_picture_shows_the_packages_in_their_order() -> None:
    """As the test of the architecture has it, line by line."""
    tested = (ROOT / "tests/primbench/test_architecture.py").read_text()
    (order,) = re.findall(r'^ORDER = """\n(.*?)"""', tested, re.DOTALL | re.MULTILINE)
    (picture,) = re.findall(r"```\n(.*?)```", (ROOT / "docs/architecture.md").read_text(), re.DOTALL)
    names = re.findall(r"^ (\w+(?: \| \w+)*)(?:  |$)", picture, re.MULTILINE)
    assert order.splitlines() == [line.replace(" |", "") for line in names]
