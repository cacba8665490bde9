"""Several ranks that train one model: really started, each with gradients that are the mean of all, or found wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from primbench.backends import missing, open_backend
from primbench.errors import InvalidRequest, UnsupportedCase, VerificationError
from primbench.kernels.model import Model
from primbench.measurement import Measurement, Samples
from primbench.registry import setup_of
from primbench.results import file as results_file
from primbench.timing.case import setup
from primbench.timing.verify import rewritten

SMALL = "fathom_memnet"
SEED = 5
with_torch = [pytest.mark.wheel, pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))]


@pytest.mark.parametrize("changes", [{"mode": "inference"}, {"compile": "graph"}, {"compile": "inductor"}])
def test_several_ranks_train_and_that_eagerly(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="ranks=2 is for mode=train and compile=eager, not"):
        Model(SMALL, ranks=2, **changes)


def test_examples_are_those_of_all_ranks_and_the_share_is_what_a_step_saves_alone() -> None:
    whole_s, part_s = (
        Samples(samples_s=[each], calls_per_sample=1, taken_by="", stopped="count") for each in (0.5, 0.375)
    )
    others = {"with_allreduce_s": whole_s, "without_allreduce_s": part_s}
    found = Measurement(batch_s=whole_s, others=others, counts={"allreduced_bytes": 7200})
    figures = Model(SMALL, batch_size=8, ranks=2).figures(found)
    assert {"examples_per_second": 32.0, "allreduce_fraction": 0.25, "allreduced_bytes": 7200} == {
        name: value for name, value in figures.items() if value is not None
    }


class TestByTorch:
    pytestmark = with_torch

    def test_several_ranks_are_several_processes(self) -> None:
        with pytest.raises(UnsupportedCase, match="2 ranks are 2 processes"):
            setup(Model(SMALL, ranks=2), "torch", "cpu")

    def test_ranks_that_keep_their_gradients_are_found_wrong(self) -> None:
        problem = Model(SMALL, ranks=2)
        told = [alone(rank, problem) for rank in range(2)]
        with pytest.raises(VerificationError, match="wrong result"):
            problem.error_of(told, SEED)

    def test_gradients_of_equal_batches_are_their_own_mean(self, monkeypatch: pytest.MonkeyPatch) -> None:
        of_rank = Model.checked_of
        monkeypatch.setattr(Model, "checked_of", lambda self, rank, seed: of_rank(self, 0, seed))
        problem = Model(SMALL, ranks=2)
        told = [alone(rank, problem) for rank in range(2)]
        assert 0 < problem.error_of(told, SEED) < problem.tolerance()

    def test_a_gradient_that_was_never_written_is_found(self) -> None:
        problem = Model(SMALL, ranks=2)
        told = alone(1, problem)
        told[3] = None
        with pytest.raises(VerificationError, match="1 of 41 elements of the output were never written"):
            problem.error_of([told, told], SEED)

    @pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs 2 CPUs: two ranks")
    def test_two_ranks_are_measured_and_checked(self, tmp_path: Path) -> None:
        (tmp_path / "odd.py").write_text(ODD)
        asked = ["model", "mnist_cnn", "odd", "spoiled", "--batch-size=2", "--ranks=2", "--device=cpu"]
        how = ["--min-time=1ms", "--max-time=30ms", "-o", "results.jsonl"]
        command = [sys.executable, "-P", "-m", "primbench", "--kernels", "odd.py", *asked, *how]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        assert (1, "") == (done.returncode, done.stderr)
        found = results_file.read(tmp_path / "results.jsonl")
        small, odd, spoiled = found.records
        for measured in (small.measurement, odd.measurement):
            assert measured is not None
            assert measured.verified
            assert {"with_allreduce_s", "without_allreduce_s"} == set(measured.others)
        assert small.measurement is not None
        assert small.measurement.counts == {"allreduced_bytes": 4 * 1_199_882}
        assert "failed" == spoiled.status
        assert "VerificationError: wrong result: error" in str(spoiled.reason)
        share = max(1, len(os.sched_getaffinity(0)) // 2)
        assert os.environ.get("OMP_NUM_THREADS", str(share)) == str(found.workers[0].placement.threads)


ODD = '''
import torch
from torch import nn

from primbench.problem.network import Network


class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.norm = nn.Embedding(50, 4, sparse=True), nn.BatchNorm1d(4)
        self.out, self.unused = nn.Linear(4, 2), nn.Linear(3, 3)


class Odd(Network, name="odd"):
    """The loss reads parts of the module; gradients are sparse or missing, and a batch of one is refused."""

    batch_size = 8
    original = "a test's"

    def module(self):
        return Parts()

    def inputs(self, rng, batch_size):
        return rng.integers(0, 50, batch_size), rng.integers(0, 2, batch_size)

    def predict(self, module, x, y):
        return module.out(module.norm(module.words(x)))

    def loss(self, module, x, y):
        return nn.functional.cross_entropy(self.predict(module, x, y), y)

    def optimiser(self, parameters):
        return torch.optim.SGD(parameters, 0.1)

    def flop(self, batch_size):
        return 16 * batch_size


class Spoiled(Odd, name="spoiled"):
    """One rank loses a gradient after the all-reduce."""

    def after_backward(self, module):
        if torch.distributed.is_initialized() and torch.distributed.get_rank() == 1:
            module.out.weight.grad.zero_()
'''


def alone(rank: int, problem: Model) -> list[float | None]:
    """What a rank tells that trains by itself."""
    backend = open_backend("torch", "cpu")
    one = Model(problem.network, batch_size=problem.batch_size)
    inputs = problem.checked_of(rank, SEED)
    step = setup_of("model", "torch")(backend, one, *map(backend.put, inputs))
    return [*problem.told_of(rewritten(backend, step).get(), rank, SEED)]
