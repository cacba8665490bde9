"""Whole models: as large as their originals, and trained as these are.

Parameters and operations of a forward pass are those of the layers that the code, or the paper, of each original has,
counted by hand; of torchvision's three they are what its documentation says.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from primbench.backends import missing
from primbench.registry import networks
from primbench.registry.networks import network

pytestmark = [pytest.mark.wheel, pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))]

# Parameters, and floating-point operations of a forward pass at the original's batch.
SIZES = {
    "alexnet": (61_100_840, 365_664_501_760),
    "encoder": (108_890_112, 3_860_487_733_248),
    "fathom_alexnet": (61_104_937, 91_746_729_984),
    "fathom_autoenc": (471_584, 120_422_400),
    "fathom_deepq": (1_686_180, 598_081_536),
    "fathom_memnet": (1_800, 102_400),
    "fathom_residual": (6_178_624, 519_152_893_952),
    "fathom_seq2seq": (34_633_792, 23_488_102_400),
    "fathom_speech": (2_190_398, 219_216_347_136),
    "fathom_vgg": (137_771_561, 217_929_285_632),
    "gpt2": (124_439_808, 2_333_186_457_600),
    "imdb_rnn": (6_561, 30_725_120),
    "llama_block": (285_224_960, 1_099_511_627_776),
    "lnn": (35_055_877, 2_042_899_194_112),
    "lstm_lm": (19_780_400, 18_564_000_000),
    "mnist_cnn": (1_199_882, 1_535_033_344),
    "resnet18": (11_689_512, 928_805_552_128),
    "resnet50": (25_557_032, 2_093_662_339_072),
    "snn": (8_445_413, 300_471_935_232),
    "tf_cnn_alexnet": (61_842_345, 858_923_925_504),
    "tf_cnn_inception3": (23_819_401, 365_645_961_216),
    "tf_cnn_resnet50": (25_559_081, 490_794_647_552),
}
SMALL = ["fathom_memnet", "fathom_autoenc", "mnist_cnn", "imdb_rnn", "fathom_deepq"]

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # of mallopt(3), with what they are set to where nothing was
OF_GLIBC = {M_TRIM_THRESHOLD: 128 * 1024, M_MMAP_MAX: 65_536}


@pytest.fixture(scope="module", autouse=True)
def what_a_model_leaves_is_kept_for_the_next() -> Iterator[None]:
    """Gigabytes, which take as long to be had anew from the kernel as most models take to compute."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):  # musl gives them back, and that is only slower
        yield
        return
    library.mallopt(M_MMAP_MAX, 0)
    library.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
    yield
    for parameter, value in OF_GLIBC.items():
        library.mallopt(parameter, value)
    library.malloc_trim(0)


def test_every_model_is_here() -> None:
    assert list(SIZES) == networks.names()


def on_meta(name: str) -> tuple[Any, tuple[Any, ...]]:
    """The module, and one example, without data."""
    import torch

    with torch.device("meta"):
        module = network(name).module()
    batch = network(name).inputs(np.random.default_rng(0), 1)
    return module, tuple(torch.from_numpy(each).to("meta") for each in batch)


@pytest.mark.parametrize("name", SIZES)
def test_a_model_is_as_large_as_its_original(name: str) -> None:
    """torch counts products, convolutions and attention; recurrent layers of nn.RNN are products on meta, too."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    module, batch = on_meta(name)
    found = network(name)
    assert SIZES[name] == (sum(each.numel() for each in module.parameters()), found.flop(found.batch_size))
    with FlopCounterMode(display=False) as counted, torch.no_grad():
        found.predict(module.eval(), *batch)
    assert found.flop(1) == counted.get_total_flops()


@pytest.mark.parametrize("name", SIZES)
def test_a_batch_is_what_the_model_takes(name: str) -> None:
    found = network(name)
    one, other = (found.inputs(np.random.default_rng(seed), 2) for seed in (0, 0))
    assert all(np.array_equal(each, same) for each, same in zip(one, other, strict=True))
    assert {each.dtype.name for each in one} <= {"float32", "int64"}


@pytest.mark.parametrize("name", SMALL)
def test_training_makes_the_loss_smaller(name: str) -> None:
    """On one batch, which it can learn by heart."""
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(0)
        found = network(name)
        module = found.module().train()
        optimiser = found.optimiser(module.parameters())
        batch = [torch.from_numpy(each) for each in found.inputs(np.random.default_rng(0), min(found.batch_size, 4))]
        losses = []
        for _ in range(12):
            optimiser.zero_grad()
            loss = found.loss(module, *batch)
            loss.backward()
            assert all(each.grad is not None for each in module.parameters())
            found.after_backward(module)
            optimiser.step()
            losses.append(float(loss.detach()))
    assert np.mean(losses[-3:]) < np.mean(losses[:3])


def test_the_word_that_fills_up_stays_zero() -> None:
    """Of Fathom's memory network, whose gradients have noise added to them."""
    import torch

    found = network("fathom_memnet")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = found.module().train()
        optimiser = found.optimiser(module.parameters())
        batch = [torch.from_numpy(each) for each in found.inputs(np.random.default_rng(0), 32)]
        before = [each.detach().clone() for each in module.parameters()]
        for _ in range(3):
            optimiser.zero_grad()
            found.loss(module, *batch).backward()
            found.after_backward(module)
            optimiser.step()
    assert [0, 0] == [int(each.weight[0].count_nonzero()) for each in (module.A, module.B)]
    moved = [(each - other).ne(0).sum() for each, other in zip(module.parameters(), before, strict=True)]
    assert [200, 380, 380, 400, 400] == sorted(int(each) for each in moved)  # noise reaches all others


@pytest.mark.parametrize(("name", "rate"), [("resnet50", 0.1), ("inception3", 0.005), ("alexnet", 0.005)])
def test_rates_of_learning_are_those_of_the_tool(name: str, rate: float) -> None:
    import torch

    found = network(f"tf_cnn_{name}")
    (group,) = found.optimiser([torch.nn.Parameter(torch.zeros(1))]).param_groups
    assert (rate, 0) == (group["lr"], group["momentum"])


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
def test_a_step_in_each_mode_is_that_of_float64(name: str) -> None:
    """Of one example: loss and predictions, and gradients that are numbers and move the loss.

    `primbench model` compares gradients, too, for which float64 takes minutes on a CPU where a network is large.
    """
    import torch

    found = network(name, draws=False)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = found.module().train()
    batch = [torch.from_numpy(each) for each in found.checked_inputs(np.random.default_rng(0), 1)]
    loss = found.loss(module, *batch)
    loss.backward()
    found.after_backward(module)
    norms = [float(each.grad.norm()) for each in module.parameters() if each.grad is not None]
    assert np.isfinite(norms).all()
    assert max(norms) > 0
    module.zero_grad()  # whose memory the weights take in float64
    with torch.no_grad():
        predictions = found.predict(module.eval(), *batch).double()
        exact = [each.double() if each.is_floating_point() else each for each in batch]
        expected = found.predict(module.double(), *exact)
        assert float(loss.detach()) == pytest.approx(float(found.loss(module.train(), *exact)), rel=1e-3)
    assert float((predictions - expected).abs().max()) <= 1e-4 * float(expected.abs().max())
