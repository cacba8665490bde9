"""A network with its first weights, and what is compared of a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from primbench.problem import Array
    from primbench.problem.network import Network

SUMS = 8
# Elements worked on at once, which torch leaves to one thread: memory that is new to a process takes longer than sums.
BLOCK = 1 << 15
SEED = 0  # of the weights, the same on every device and in the reference


def module_of(network: Network, device: str, seed: int = SEED) -> Any:
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return network.module().to(device)


def values_of(loss: Any, module: Any) -> Array:
    """float64[1 + 8 * gradients]: the loss, then eight sums of each gradient, NaN where one of its elements is.

    Each sum is over every eighth element, with a random sign, the same on all devices: so many numbers are enough to
    see a difference by its norm, which one unit that ReLU cuts off hardly moves.
    """
    import numpy as np

    sums = [_sums(number, each) for number, each in enumerate(gradients(module))]
    return np.concatenate([loss.detach().double().cpu().numpy().reshape(1), *sums])


def gradients(module: Any) -> list[Any]:
    return [each.grad for each in module.parameters() if each.grad is not None]


def _sums(number: int, gradient: Any) -> Array:
    import numpy as np

    dense = gradient.to_dense() if gradient.is_sparse else gradient
    dice, found = np.random.default_rng(number), np.zeros(SUMS)
    for part in dense.detach().reshape(-1).split(BLOCK):
        signed = np.zeros(-(-part.numel() // SUMS) * SUMS)
        signed[: part.numel()] = part.double().cpu().numpy()
        signed *= 1 - 2.0 * np.unpackbits(np.frombuffer(dice.bytes(len(signed) // 8), np.uint8))
        found += signed.reshape(-1, SUMS).sum(0)
    return found
