"""Trainings: models can be taught, what does not learn is found out, and two places lose the same to the last bit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest

from primbench.backends import missing, open_backend
from primbench.errors import InvalidRequest, UnsupportedCase, VerificationError
from primbench.kernels.learning import Learning
from primbench.measurement import Measurement
from primbench.measurement.learnt import Learnt, first_unlike
from primbench.problem import description_of
from primbench.registry import networks, setup_of
from primbench.registry.networks import network

by_torch = [
    pytest.mark.wheel,
    pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch"))),
    pytest.mark.usefixtures("one_thread"),
]

# Seconds on a CPU; bench/learning.py has all models learn, on a GPU.
QUICK = {"fathom_memnet": 20, "fathom_autoenc": 20, "mnist_cnn": 10, "fathom_deepq": 10}
LEARNT = Learnt(losses=[[4.0, 2.0], [6.0, 3.0]], right=[90, 80], held_out=100, chance=0.25)

# No kernel of torch, MKL or oneDNN for a later CPU: which of them sums a model is not the same on every CPU.
OLD_CPU = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "SSE41"}

TRAIN = """
import sys, msgspec, numpy as np
from primbench.backends import open_backend
from primbench.kernels.learning import Learning
from primbench.problem import description_of
from primbench.registry import setup_of

there, problem = open_backend("torch", "cpu"), Learning("mnist_cnn", steps=8, seeds=1, deterministic=True)
step = setup_of("learning", "torch")(there, problem, *map(there.put, problem.inputs(np.random.default_rng(0))))
sys.stdout.buffer.write(msgspec.json.encode(description_of(step).learnt().losses[0]))
"""


def trained(problem: Learning) -> Any:
    """The step, all trainings made."""
    backend = open_backend("torch", "cpu")
    return setup_of("learning", "torch")(backend, problem, *map(backend.put, problem.inputs(np.random.default_rng(0))))


def test_the_batch_is_one_that_the_model_learns_from_where_none_is_named() -> None:
    assert (16, 2) == (Learning("mnist_cnn").batch_size, Learning("fathom_speech").batch_size)
    assert 8 == Learning("mnist_cnn", batch_size=8).batch_size


def test_as_many_steps_as_the_model_learns_in_where_none_are_named() -> None:
    assert (100, 500) == (Learning("mnist_cnn").steps, Learning("tf_cnn_alexnet").steps)
    assert 20 == Learning("tf_cnn_alexnet", steps=20).steps
    with pytest.raises(InvalidRequest, match="steps=1: the loss of one step cannot fall: give 2 or more"):
        Learning("mnist_cnn", steps=1)


def test_figures_are_means_and_deviations_over_seeds() -> None:
    assert {
        "last_loss": 2.5, "loss_deviation": pytest.approx(0.5**0.5),
        "accuracy_fraction": pytest.approx(0.85), "accuracy_deviation_fraction": pytest.approx(0.1 / 2**0.5),
    } == Learning("mnist_cnn").figures(Measurement(learnt=LEARNT))  # fmt: skip
    assert {None} == set(Learning("mnist_cnn").figures(Measurement()).values())


def test_a_share_of_nothing_or_of_other_trainings_is_refused() -> None:
    for wrong in ({"held_out": 0}, {"right": [1]}):
        with pytest.raises(ValueError, match="right of"):
            msgspec.structs.replace(LEARNT, **wrong)


@pytest.mark.parametrize(
    ("right", "beats"), [([25, 25], False), ([38, 30], False), ([48, 30], True), ([100, 100], True), (None, None)]
)
def test_a_little_more_than_guessing_is_guessing(right: list[int] | None, beats: bool | None) -> None:
    """Of 200, 50 are right by chance, give or take 19 once in 1000."""
    assert beats is msgspec.structs.replace(LEARNT, right=right).beats_chance


def test_losses_that_are_no_numbers_are_kept_and_fall_nowhere() -> None:
    diverged = msgspec.structs.replace(LEARNT, losses=[[4.0, None], [6.0, 3.0]])
    assert not diverged.loss_fell
    assert diverged == msgspec.json.decode(msgspec.json.encode(diverged), type=Learnt)
    assert (None, 2) == (first_unlike([1.0, None], [1.0, None]), first_unlike([1.0, None], [1.0, 2.0]))


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Several wait for one another where a machine is busy, which takes ten times as long."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class TestByTorch:
    pytestmark = by_torch

    @pytest.mark.parametrize("name", networks.names())
    def test_what_can_be_learnt_is_as_the_models_inputs(self, name: str) -> None:
        found, rng = network(name), np.random.default_rng(3)
        many = 2 if found.inputs(rng, 1)[0].size > 10_000 else 32
        inputs, learnable = found.inputs(rng, many), found.learnable(rng, many)
        assert [(each.shape, each.dtype) for each in inputs] == [(each.shape, each.dtype) for each in learnable]
        again = found.learnable(np.random.default_rng(3), many)
        other = found.learnable(np.random.default_rng(4), many)
        same = found.learnable(np.random.default_rng(3), many)
        assert all(map(np.array_equal, again, same))
        assert not all(map(np.array_equal, again, other))
        for asked, given in zip(inputs, learnable, strict=True):
            if asked.dtype.kind == "i":
                assert given.min() >= 0
                assert given.max() <= max(1.05 * asked.max() + 4, (found.classes or 1) - 1)
            else:
                assert np.abs(given).max() <= 1.5 * np.abs(asked).max()

    @pytest.mark.parametrize("name", QUICK)
    def test_a_model_learns(self, name: str) -> None:
        step = trained(Learning(name, steps=QUICK[name], seeds=1))
        assert [1] == step().get().tolist()
        found = description_of(step).learnt()  # type: ignore[misc]
        assert (1, None) == (found.again, found.first_unlike)
        assert all(last < first for first, last in zip(found.first_losses, found.last_losses, strict=True))
        if network(name).classes is None:
            assert (None, f"{name} has no classes to be right about") == (found.accuracies, found.missing["right"])
        else:
            assert min(found.accuracies or ()) > 0.5

    def test_batch_norms_are_those_of_the_last_weights(self) -> None:
        """A momentum of 0.001 had left them at what the first weights made of the examples."""
        import torch

        from primbench.kernels.learning.torch import _renormed

        norm = torch.nn.BatchNorm1d(1, momentum=1e-3)
        batches = [(torch.tensor([[3.0], [5.0]]),), (torch.tensor([[6.0], [8.0]]),)]
        _renormed(norm, lambda module, batch: module(*batch), batches)
        assert (5.5, 2.0) == (norm.running_mean.item(), norm.running_var.item())

    def test_a_model_that_does_not_learn_fails_its_check(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import torch

        found = type(network("fathom_memnet"))
        monkeypatch.setattr(found, "optimiser", lambda self, parameters: torch.optim.SGD(parameters, lr=0.0))
        step = trained(Learning("fathom_memnet", steps=20, seeds=2))
        with pytest.raises(
            VerificationError, match=r"right about \d+ of 512 held-out examples, 128 by guessing: it has"
        ):
            step().get()

    def test_nothing_of_the_process_is_changed(self) -> None:
        import torch

        torch.manual_seed(7)
        drawn = torch.rand(3)
        torch.manual_seed(7)
        trained(Learning("fathom_memnet", steps=2, seeds=1, deterministic=True))
        assert drawn.equal(torch.rand(3))
        assert not torch.are_deterministic_algorithms_enabled()

    def test_without_a_fixed_workspace_a_gpu_does_not_repeat_itself(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The check alone: there is no GPU here."""
        from primbench.kernels.learning import torch as by_torch

        monkeypatch.delenv(by_torch.CUBLAS, raising=False)
        by_torch._refuse_workspace(Learning("fathom_memnet"))
        with pytest.raises(UnsupportedCase, match="CUBLAS_WORKSPACE_CONFIG=:4096:8 in the environment"):
            by_torch._refuse_workspace(Learning("fathom_memnet", deterministic=True))
        monkeypatch.setenv(by_torch.CUBLAS, ":4096:8")
        by_torch._refuse_workspace(Learning("fathom_memnet", deterministic=True))

    def test_what_torch_cannot_repeat_is_refused_in_a_line(self) -> None:
        from primbench.kernels.learning.torch import _repeatable

        with pytest.raises(UnsupportedCase, match="deterministic=True: x_cuda does not have"), _repeatable(wanted=True):
            raise RuntimeError("x_cuda does not have a deterministic implementation. Turn it off, or wait.")

    def test_two_processes_lose_the_same_to_the_last_bit_and_other_instructions_do_not(self) -> None:
        """Without vector instructions, sums have another order."""
        started = [
            subprocess.Popen(
                [sys.executable, "-P", "-c", TRAIN],
                env={**os.environ, "OMP_NUM_THREADS": "1", **variables}, stdout=subprocess.PIPE,
            )
            for variables in ({}, OLD_CPU)
        ]  # fmt: skip
        step = trained(Learning("mnist_cnn", steps=8, seeds=1, deterministic=True))
        (here,) = description_of(step).learnt().losses  # type: ignore[misc]
        there, otherwise = (msgspec.json.decode(each.communicate(timeout=120)[0]) for each in started)
        assert 8 == len(here)
        assert first_unlike(here, there) is None
        assert first_unlike(here, otherwise) in range(1, 9)
