"""What memory a step takes, without any: the network is run on torch's meta device, which has shapes and no data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from primbench.problem.network import Network

BESIDE_WEIGHTS = 4  # of their size: gradients, two moments of an optimiser such as Adam, and how they were at first
BUCKETS = 1  # of several ranks: in which gradients are all-reduced


def step_bytes(network: Network, batch_size: int, *, is_training: bool, is_reduced: bool = False) -> int:
    """Weights and what training keeps beside them, the batch, and what a backward pass keeps of the forward one.

    is_reduced: whether several ranks sum their gradients.
    """
    import numpy as np
    import torch

    with torch.device("meta"):
        module = network.module()
    weights: int = sum(each.numel() * each.element_size() for each in module.state_dict().values())
    batch = network.inputs(np.random.default_rng(0), 1)
    batch_bytes = batch_size * sum(each.nbytes for each in batch)
    if not is_training:
        return weights + batch_bytes
    held = 1 + BESIDE_WEIGHTS + (BUCKETS if is_reduced else 0)
    return held * weights + batch_bytes + batch_size * _kept_bytes(network, module, batch)


def _kept_bytes(network: Network, module: Any, batch: Any) -> int:
    """Of one example. 0 where torch has no shapes of an operation that the network uses, or that needs more of them."""
    import torch

    own = {each.untyped_storage()._cdata for each in module.parameters()}  # noqa: SLF001 - no address tells on meta
    kept: dict[int, Any] = {}

    def keep(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage._cdata not in own:  # noqa: SLF001
            kept[storage._cdata] = storage  # noqa: SLF001 - held, so that no other gets its place
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        try:
            network.loss(module, *(torch.from_numpy(each).to("meta") for each in batch))
        except (NotImplementedError, RuntimeError, ValueError):
            return 0
    return sum(storage.nbytes() for storage in kept.values())
