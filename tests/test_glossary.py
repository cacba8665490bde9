"""Each noun of the glossary stands there once, and the class that it names is in the code once."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections import Counter
from pathlib import Path

import pytest

import primbench

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"^- \*\*([^*]+)\*\*(?: \(`(\w+)`\))?: (.+)$", re.MULTILINE)


def rows() -> list[tuple[str, str, str]]:
    return ROW.findall((ROOT / "docs/glossary.md").read_text())


@functools.cache
def homes() -> dict[str, list[str]]:
    """Public class, or name of a type -> the modules that define it."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "primbench").rglob("*.py")):
        for name in _types_in(ast.parse(path.read_text())):
            found.setdefault(name, []).append(str(path.relative_to(ROOT)))
    return found


def _types_in(tree: ast.Module) -> list[str]:
    classes = [each.name for each in tree.body if isinstance(each, ast.ClassDef)]
    assigned = [each for each in tree.body if isinstance(each, ast.Assign) and isinstance(each.value, ast.Subscript)]
    names = [target.id for each in assigned for target in each.targets if isinstance(target, ast.Name)]
    return [name for name in [*classes, *names] if re.fullmatch("[A-Z][A-Za-z]*[a-z][A-Za-z]*", name)]


def test_a_noun_stands_there_once_and_in_one_sentence() -> None:
    counted = Counter(noun for noun, _, _ in rows())
    assert len(counted) > 40
    assert [] == [noun for noun, count in counted.items() if count > 1]
    assert [] == [noun for noun, _, words in rows() if not re.fullmatch(r"[^.]+(\.(?=\w)[^.]+)*\.", words)]


@pytest.mark.parametrize("name", [name for _, name, _ in rows() if name])
def test_what_a_noun_names_is_defined_once(name: str) -> None:
    assert len(homes().get(name, [])) == 1, homes().get(name)


def test_public_classes_have_a_noun() -> None:
    public = [getattr(primbench, name) for name in primbench.__all__ if name != "__version__"]
    named = {each.__name__ for each in public if inspect.isclass(each) and not issubclass(each, Exception)}
    assert named <= {name for _, name, _ in rows()}


def test_no_public_class_has_the_name_of_another() -> None:
    """A reader who looks for a name finds one thing."""
    assert {} == {name: found for name, found in homes().items() if len(found) > 1}
