"""A process that gave executable pages up is told by trying one."""

import subprocess
import sys
from pathlib import Path

import pytest

from primbench.environment.confinement import executable_pages

GIVE_UP = "import ctypes\nif ctypes.CDLL(None).prctl(65, 1, 0, 0, 0): raise SystemExit('no PR_SET_MDWE: Linux 6.3')\n"
ASK = "from pathlib import Path\nfrom primbench.environment.confinement import executable_pages as ask\n"


def test_a_page_may_be_executed_here() -> None:
    assert "allowed" == executable_pages(Path("/"))


def test_who_gave_executable_pages_up_is_refused_one() -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"{GIVE_UP}{ASK}print(ask(Path('/')))"], capture_output=True, text=True, check=False
    )
    if "PR_SET_MDWE" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert "EACCES\n" == done.stdout
