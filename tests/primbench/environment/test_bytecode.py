from __future__ import annotations

import py_compile
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from primbench.environment import bytecode

if TYPE_CHECKING:
    import pytest


def test_packages_without_bytecode_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    source = tmp_path / "numpy/__init__.py"
    source.parent.mkdir()
    source.write_text("one = 1\n")
    assert "kept once it is compiled" == (bytecode.uncompiled(tmp_path)["numpy"])
    monkeypatch.setattr(sys, "pycache_prefix", f"{source}/cache")
    assert (
        "its folder cannot be made: a file is in the way, or a link to nowhere"
        == (bytecode.uncompiled(tmp_path)["numpy"])
    )
    monkeypatch.setattr(sys, "pycache_prefix", None)
    py_compile.compile(str(source))
    assert "numpy" not in bytecode.uncompiled(tmp_path)
    source.write_text("eleven = 11\n")  # as a layer of an image that came later
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert "PYTHONDONTWRITEBYTECODE or -B" == bytecode.uncompiled(tmp_path)["numpy"]
    py_compile.compile(str(source), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    assert "numpy" not in bytecode.uncompiled(tmp_path)
