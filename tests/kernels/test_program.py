"""Whole programs: their stages add up, and what fails in one is told in a line."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from primbench import Method
from primbench.backends import missing, open_backend
from primbench.errors import PrimbenchError, UnsupportedCase
from primbench.kernels.program import Program
from primbench.kernels.program._run import prepared
from primbench.kernels.program.problem import QUEUED, STAGES
from primbench.measurement import Measurement
from primbench.problem import description_of
from primbench.registry import setup_of
from primbench.registry.networks import network
from primbench.timing.sampling import Pace

pytestmark = [pytest.mark.wheel, pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))]


OWN = """
from pathlib import Path

from primbench.problem.network import Network


class Own(Network, name="own"):
    batch_size = 1
    module = inputs = predict = loss = optimiser = flop = print


Path(__file__).with_suffix(".seen").touch()
"""


def test_stages_add_up_to_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the clock says: each stage ends where the next one begins. A file of --kernels is the program's, too."""
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.setattr("primbench.kernels.program.torch.named_files", lambda: {str(tmp_path / "own.py"): ""})
    problem = Program("fathom_memnet", "inference", batch_size=2, steps=3)
    step = setup_of("program", "torch")(open_backend("torch", "cpu"), problem)
    said = description_of(step)
    assert said.before is not None
    said.before()
    begun_ns = time.monotonic_ns()
    assert [3] == step().tolist()
    whole_s = (time.monotonic_ns() - begun_ns) / 1e9
    others = {name: take(Method(), Pace()) for name, take in said.others.items()}
    stages_s = [others[f"{stage}_s"].samples_s for stage in STAGES]
    assert all(1 == len(samples_s) and samples_s[0] > 0 for samples_s in stages_s)
    assert sum(samples_s[0] for samples_s in stages_s) <= whole_s
    figures = problem.figures(Measurement(others=others))
    assert {f"{name}_s" for name in (*STAGES, QUEUED)} == figures.keys()
    assert None not in [figures[f"{stage}_s"] for stage in STAGES]
    assert (tmp_path / "own.seen").exists()


def test_a_program_that_predicts_makes_no_optimiser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of torch's the first takes a second to import what compiles steps."""
    made: list[str] = []
    kind = type(network("fathom_memnet"))
    monkeypatch.setattr(kind, "optimiser", lambda *_: made.append("optimiser"))
    assert prepared("fathom_memnet", "inference", 2, "cpu")().isfinite()
    assert [] == made
    prepared("fathom_memnet", "train", 2, "cpu")
    assert ["optimiser"] == made


def test_without_a_gpu_there_is_no_program_on_one() -> None:
    if missing("torch") is None and __import__("torch").cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(UnsupportedCase, match="torch finds no GPU"):
        setup_of("program", "torch")(open_backend("torch", "cpu"), Program("mnist_cnn", gpu=True))


def test_a_program_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    step = setup_of("program", "torch")(
        open_backend("torch", "cpu"), Program("fathom_memnet", "inference", batch_size=2, steps=1)
    )
    assert [1] == np.asarray(step()).tolist()
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr("primbench.kernels.program.torch._RUN", "/nowhere/program.py")
    with pytest.raises(PrimbenchError, match=r"^program fathom_memnet: .*No such file or directory"):
        step()


def test_a_batch_for_which_there_is_no_memory_is_said_to_be_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "run.py"
    script.write_text("raise MemoryError('Unable to allocate 292. GiB')")
    monkeypatch.setattr("primbench.kernels.program.torch._RUN", str(script))
    step = setup_of("program", "torch")(open_backend("torch", "cpu"), Program("fathom_memnet", batch_size=9))
    said = "^program fathom_memnet: no memory for batches of 9; ask for a smaller --batch-size: MemoryError: Unable to"
    with pytest.raises(PrimbenchError, match=said):
        step()


LEAVES = """
import os, sys, time
if os.fork():
    os.write(int(sys.argv[1]), b"3 0 1 2 3 4 5 6")
else:
    open(__file__ + ".pid", "w").write(str(os.getpid()))
    time.sleep(60)
    open(__file__ + ".ended", "w").close()
"""


def test_a_program_has_ended_though_a_process_that_it_left_behind_has_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "run.py"
    script.write_text(LEAVES)
    monkeypatch.setattr("primbench.kernels.program.torch._RUN", str(script))
    step = setup_of("program", "torch")(open_backend("torch", "cpu"), Program("fathom_memnet", batch_size=2))
    assert [3] == np.asarray(step()).tolist()
    assert not (tmp_path / "run.py.ended").exists()
    left = tmp_path / "run.py.pid"
    while not left.exists() or not left.read_text():
        time.sleep(0.01)
    os.kill(int(left.read_text()), signal.SIGKILL)
