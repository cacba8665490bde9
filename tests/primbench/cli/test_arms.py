"""`primbench arms` where no runtime is installed; tests/containers/test_arms.py has them start containers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from primbench.runtimes.table import known

if TYPE_CHECKING:
    from click.testing import Result


@pytest.fixture(autouse=True)
def no_runtime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


def test_every_runtime_is_listed_with_what_it_can_set(invoke: Callable[..., Result]) -> None:
    result = invoke("arms")
    assert 0 == result.exit_code
    rows = {line.split()[0]: line for line in result.stdout.splitlines() if line[:1].isalpha()}
    assert known().keys() <= set(rows)
    assert " yes " in rows["host"]
    assert "cpus" not in rows["charliecloud"]


def test_what_is_not_installed_is_said_to_be(invoke: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    found = invoke("arms").stdout
    for program in ("docker", "podman", "apptainer", "ch-run", "enroot", "crun", "runc", "ssh", "srun", "kubectl"):
        assert f"{program} is not installed" in found


def test_no_framework_is_imported() -> None:
    code = (
        "import sys; from primbench.cli import main; main(['arms'], standalone_mode=False); "
        "sys.exit(' '.join({'torch', 'numba', 'cupy', 'numpy'} & sys.modules.keys()) or None)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr.strip())
