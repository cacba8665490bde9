"""What the pages of docs/ name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
PATH = re.compile(r"`([\w.-]+/[\w./-]*)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_is_named_is_there(page: Path) -> None:
    named = PATH.findall(page.read_text())
    assert named
    assert [] == [path for path in named if not (ROOT / path).exists()]


def test_the_picture_shows_the_packages_in_their_order() -> None:
    """As the test of the architecture has it, line by line."""
    tested = (ROOT / "tests/primbench/test_architecture.py").read_text()
    (order,) = re.findall(r'^ORDER = """\n(.*?)"""', tested, re.DOTALL | re.MULTILINE)
    (picture,) = re.findall(r"```\n(.*?)```", (ROOT / "docs/architecture.md").read_text(), re.DOTALL)
    names = re.findall(r"^ (\w+(?: \| \w+)*)(?:  |$)", picture, re.MULTILINE)
    assert order.splitlines() == [line.replace(" |", "") for line in names]
