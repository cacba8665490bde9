"""Start-up in real processes of this machine."""

from __future__ import annotations

import gc
import os
import re
from pathlib import Path
from typing import Any

import pytest

from primbench.errors import InvalidRequest, PrimbenchError, UnsupportedCase
from primbench.kernels.startup import Startup, _programs
from primbench.kernels.startup._process import Process
from primbench.kernels.startup.problem import WHAT
from primbench.spec.method import Method
from primbench.timing.case import measure, setup

BRIEF = Method(min_time_s=1e-3, max_time_s=1e-3)


def children() -> str:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text()


@pytest.fixture
def sitecustomize(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes what every interpreter does first."""
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    return (tmp_path / "sitecustomize.py").write_text


@pytest.mark.parametrize(("what", "told"), [("interpreter", "Python 3"), ("numpy", r"numpy \d.*/numpy")])
def test_a_process_tells_what_it_started_and_how_long_that_took_it(what: str, told: str) -> None:
    before = children()
    found = measure(Startup(what=what), method=BRIEF)
    assert (True, 0.0) == (found.verified, found.error)
    assert found.algorithm is not None
    assert re.match(told, found.algorithm)
    assert found.batch_s is not None
    assert found.batch_s.calls_per_sample == 1
    own_s = found.others["own_s"].samples_s
    assert len(own_s) >= len(found.batch_s.samples_s), "those of the warm-up come before them"
    assert all(own < whole for own, whole in zip(own_s[::-1], found.batch_s.samples_s[::-1], strict=False))
    gc.collect()
    assert before == children()


def test_a_thread_is_started_here() -> None:
    assert measure(Startup(what="thread"), method=BRIEF).verified


def test_what_is_not_installed_is_unsupported_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("primbench.kernels.startup._step.missing", lambda name: f"no {name}: pip install {name}")
    with pytest.raises(UnsupportedCase, match=r"^startup what=cupy: no cupy: pip install cupy$"):
        setup(Startup(what="cupy"))


def test_what_is_not_there_and_what_fails_are_told_by_their_last_line(sitecustomize: Any, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedCase, match=r"^startup what=nothing: ModuleNotFoundError: No module named"):
        Process("nothing", None).run()
    (tmp_path / "broken.py").write_text("raise OSError('its disk fails')")
    with pytest.raises(PrimbenchError, match=r"^startup what=broken: OSError: its disk fails$") as broken:
        Process("broken", None).run()
    assert not isinstance(broken.value, UnsupportedCase)
    sitecustomize("raise SystemExit(3)")
    with pytest.raises(PrimbenchError, match=r"^startup what=interpreter: SystemExit: 3$") as failed:
        setup(Startup())
    assert not isinstance(failed.value, UnsupportedCase)
    sitecustomize("import os; os._exit(4)")
    with pytest.raises(PrimbenchError, match=r"^startup what=interpreter: it ended with exit status 4$"):
        setup(Startup())


def test_what_an_interpreter_prints_is_no_answer(sitecustomize: Any) -> None:
    sitecustomize("import os, sys\nprint('1 stdout', flush=True)\nos.write(2, b'2 stderr')")
    assert measure(Startup(), method=BRIEF).verified


def test_of_files_that_others_have_mapped_a_cold_cache_is_refused() -> None:
    stays = r"^\d.*% of what is read of \d+ files stays .*: ask for page_cache=warm$"
    unseen = r"^what is in the page cache of /.* cannot be seen: only who owns .*: ask for page_cache=warm$"
    with pytest.raises(UnsupportedCase, match=unseen if os.geteuid() else stays):
        setup(Startup(page_cache="cold"))


def test_files_that_nobody_else_has_mapped_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    with data.open("wb") as opened:
        opened.write(bytes(1 << 20))
        os.fsync(opened)
    monkeypatch.setattr(Process, "opened", lambda process: [str(data)])
    found = measure(Startup(page_cache="cold"), method=BRIEF)
    assert found.algorithm is not None
    assert found.algorithm.endswith("; 0.0% of what is read of 1 files stays in the page cache")


def test_a_thread_opens_no_files() -> None:
    with pytest.raises(InvalidRequest, match="it opens no files"):
        Startup(what="thread", page_cache="cold")


@pytest.mark.parametrize("what", sorted({*WHAT} - {"thread"}))
def test_programs_are_right_python(what: str) -> None:
    for program in (_programs.ready, _programs.opened):
        compile(program(what, "/lib/x.so", 3), what, "exec")
