from __future__ import annotations

import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def faulty_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH: a copy of the package that has the primitive ``faulty``, too."""
    folder = tmp_path_factory.mktemp("copy")
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "primbench", folder / "primbench", ignore=ignore)
    for part in ("kernels", "suites"):
        shutil.copytree(ROOT / part, folder / "primbench" / part, ignore=ignore)
    shutil.copy(Path(__file__).parent / "fixtures/faulty.py", folder / "primbench/kernels/faulty.py")
    return folder
