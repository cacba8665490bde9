"""The table of settings: each row whole, and told of in few places."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path
from typing import get_args

import pytest

from primbench.environment.comparable import meaning_of
from primbench.runtimes.table import known, settable_by
from primbench.spec.arm import Arm, format_arm, is_set, parse_arm
from primbench.spec.setting import Activity, Setting
from primbench.spec.settings import FIRST_KEYS, PLACEMENT, SETTINGS, showing
from primbench.system.meaning import FactId

ROOT = Path(__file__).parents[3]
MOST_FILES = 3  # the row, the fact, and the cause that reads the fact
OF_AN_ARM = {"image", "runtime_there", "variables"}
"""What an arm is, like its runtime: read wherever something is started or told of one."""
WORDS = {
    *("host", "node", "python", "cpus", "cpuset", "mems", "memory_bytes", "niceness", "seccomp"),
    *("network", "ipc", "cgroup", "root", "tmpfs", "gpus", "context", "namespace", "policy", "affinity", "unset"),
    *("packages", "libraries", "mounts"),
}
"""Names that are words for something else, too: of these only what is read of an arm counts."""
ARMS = re.compile(r"(.*\.)?(arm|there)")

each_row = pytest.mark.parametrize("row", SETTINGS.values(), ids=SETTINGS)


@functools.cache
def sources() -> dict[Path, str]:
    found = [path for folder in ("primbench", "kernels", "suites") for path in (ROOT / folder).rglob("*.py")]
    return {path: path.read_text() for path in {path.resolve() for path in found}}


@functools.cache
def words_of(path: Path) -> set[str]:
    """All that stands by itself in a file, with what hyphens join as a whole, too."""
    return {*re.findall(r"\w+", sources()[path]), *re.findall(r"[\w-]+", sources()[path])}


@functools.cache
def read_of_arms(path: Path) -> set[str]:
    """Which settings of an arm a file reads."""
    fields, nodes = {row.field for row in SETTINGS.values()}, ast.walk(ast.parse(sources()[path]))
    read = (node for node in nodes if isinstance(node, ast.Attribute) and node.attr in fields)
    return {node.attr for node in read if ARMS.fullmatch(ast.unparse(node.value))}


@pytest.mark.parametrize("field", sorted(SETTINGS.keys() - OF_AN_ARM))
def test_a_setting_is_named_in_few_files(field: str) -> None:
    row = SETTINGS[field]
    named = (path for path in sources() if row.field in words_of(path))
    is_word = row.field in WORDS
    found = sorted(str(path.relative_to(ROOT)) for path in named if not is_word or row.field in read_of_arms(path))
    assert MOST_FILES - is_word >= len(found), found


@pytest.mark.parametrize("key", sorted(row.key for row in SETTINGS.values() if "-" in row.key))
def test_a_key_is_named_in_few_files(key: str) -> None:
    """One of a single word is a word for something else, too."""
    found = [path for path in sources() if key in words_of(path)]
    assert MOST_FILES >= len(found), found


@each_row
def test_what_a_row_tells_is_there(row: Setting) -> None:
    for fact in (*row.shows, *filter(None, [row.fact])):
        assert meaning_of(FactId(*fact)).words or fact[1] == "namespaces"
    assert all(row.field == showing(FactId(*fact)) for fact in row.shows), "another row has the fact"
    assert {*row.moves} <= {*get_args(Activity)}
    assert row.without is None or row.moves
    assert row.unlike is None or row.checked is not None
    assert row.what.endswith(".")


def example(row: Setting) -> Arm:
    """In an arm of the first runtime that can set it."""
    able = next(name for name in known() if row.field in settable_by(name))
    first = f"{FIRST_KEYS[able]}=x," if able in FIRST_KEYS and row.key != FIRST_KEYS[able] else ""
    return parse_arm(f"{able}:{first}{row.said_as}")


@each_row
def test_the_example_of_a_row_means_what_it_says(row: Setting) -> None:
    arm = example(row)
    assert is_set(arm, row)
    assert row.said_as in format_arm(arm) or arm.machine == row.example
    assert arm == parse_arm(format_arm(arm))


@each_row
def test_each_way_to_set_it_is_one_that_a_runtime_has(row: Setting) -> None:
    there_are = frozenset[str]().union(*(each.mechanisms | each.reaches for each in known().values()))
    assert row.mechanisms <= there_are
    assert row.values.keys() <= row.mechanisms


@pytest.mark.parametrize("key", PLACEMENT)
def test_the_example_of_a_placement_means_what_it_says(key: str) -> None:
    beside = ",mem-node=0" if key == "mem-policy" else ""
    assert PLACEMENT[key].said_as in parse_arm(f"host:{PLACEMENT[key].said_as}{beside}").name
