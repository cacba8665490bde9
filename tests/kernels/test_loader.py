"""The DataLoader: every item comes once and in order, decoded as asked, and its workers end."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import psutil
import pytest

from primbench import Method, measure
from primbench.backends import missing, open_backend
from primbench.errors import InvalidRequest, PrimbenchError, UnsupportedCase, VerificationError
from primbench.kernels.loader import Loader
from primbench.kernels.loader import torch as loaders
from primbench.kernels.loader._items import decoded, encoded, inflated, sums
from primbench.measurement import Measurement, Samples
from primbench.registry import setup_of
from primbench.timing.verify import check_output

QUICK = Method(min_time_s=0.001, max_time_s=0.005)
with_torch = [pytest.mark.wheel, pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))]


def test_an_item_is_decoded_as_it_was() -> None:
    (differences,) = Loader(3, 1000, batch=1).inputs(np.random.default_rng(1))
    assert len(encoded(differences[0])) < 700
    first = inflated(encoded(differences[0]))
    assert first.tolist() == decoded(differences)[0].tolist()
    assert first[0] == differences[0, 0]
    assert (np.diff(first.view(np.uint8)) == differences[0, 1:].view(np.uint8)).all()


def test_sums_tell_items_and_places_apart() -> None:
    items = np.array([[1, 2, 3], [3, 2, 1], [0, 0, 6]], np.int8)
    assert [[6, 14], [6, 10], [6, 18]] == sums(items).tolist()


def test_a_batch_of_more_than_there_is_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="loader batch=32: at most items=8"):
        Loader(8)


def test_item_is_the_time_of_one() -> None:
    samples = Samples(samples_s=[0.5], calls_per_sample=1, taken_by="host clock", stopped="count")
    assert {"item_s": 0.005, "items_per_second": 200} == Loader(100).figures(Measurement(batch_s=samples))
    assert {"item_s": None, "items_per_second": None} == Loader(100).figures(Measurement())


class TestByTorch:
    pytestmark = with_torch

    @staticmethod
    def prepared(problem: Loader) -> tuple[Any, Callable[[Any], float]]:
        backend, rng = open_backend("torch", "cpu"), np.random.default_rng(1)
        inputs = problem.inputs(rng)
        step = setup_of("loader", "torch")(backend, problem, *map(backend.put, inputs))
        return step, lambda right: check_output(backend, problem, step, right.reference(rng, *inputs))

    def test_what_batches_hold_is_checked(self) -> None:
        problem = Loader(40, 500, batch=16, decode="png")
        step, check = self.prepared(problem)
        assert 0.0 == check(problem)
        with pytest.raises(VerificationError, match="wrong result"):
            check(Loader(40, 500, batch=16))
        del step, check

    def test_workers_are_there_between_calls_and_end_with_the_step(self) -> None:
        before = set(psutil.Process().children())
        step, check = self.prepared(Loader(40, 500, batch=16, workers=1))
        assert 0.0 == check(Loader(40, 500, batch=16))
        this = psutil.Process()
        (worker,) = [each for each in set(this.children()) - before if each.cmdline() == this.cmdline()]  # it is forked
        step()
        assert worker.is_running()
        del step, check
        gc.collect()
        assert [] == psutil.wait_procs([worker], timeout=60)[1]
        assert before == set(this.children())

    def test_what_a_worker_died_of_is_one_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fails(*_: object) -> None:
            raise RuntimeError("unable to allocate shared memory(shm)")

        monkeypatch.setattr(loaders.Raw, "__getitem__", fails)  # as where /dev/shm is full
        with pytest.raises(
            PrimbenchError, match=r"^DataLoader: RuntimeError: unable to allocate shared memory\(shm\): see"
        ):
            self.prepared(Loader(40, 500, batch=16, workers=1))

    def test_it_is_measured(self) -> None:
        found = measure(Loader(40, 500, batch=7), "torch", "cpu", method=QUICK)
        assert (True, 20_000) == (found.verified, found.bytes_moved)
        assert "torch.utils.data.DataLoader" == found.algorithm

    def test_memory_cannot_be_pinned_without_a_gpu(self) -> None:
        import torch

        if torch.cuda.is_available():
            pytest.skip("there is a GPU")
        with pytest.raises(UnsupportedCase, match="there is no GPU"):
            self.prepared(Loader(40, 500, pin_memory=True))
