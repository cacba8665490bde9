"""What memory a step takes, without any: the network is run on torch's meta device, which has shapes and no data.

Where that does not tell what a network keeps, such as of one that looks at its numbers, it is run on one example.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from primbench.system.memory import available_memory_bytes

if TYPE_CHECKING:
    from primbench.problem.network import Network

BESIDE_WEIGHTS = 4  # of their size: gradients, two moments of an optimiser such as Adam, first weights for the check
BUCKETS = 1  # of several ranks: in which gradients are all-reduced


def step_bytes(kind: type[Network], batch_size: int, *, is_training: bool, is_reduced: bool = False) -> int:
    """Weights and what training keeps beside them, the batch, and what a backward pass keeps of the forward one.

    is_reduced: whether several ranks sum their gradients.
    """
    weights, of_example = _weights_bytes(kind), _example_bytes(kind)
    if not is_training:
        return weights + batch_size * of_example
    held = 1 + BESIDE_WEIGHTS + (BUCKETS if is_reduced else 0)
    return held * weights + batch_size * (of_example + _kept_bytes(kind))


# Asked for several times a case, and of the same network by several cases: a forward pass of many small operations,
# as of seq2seq's unrolled cells, takes half a second.


@functools.cache
def _weights_bytes(kind: type[Network]) -> int:
    return sum(each.numel() * each.element_size() for each in _module(kind).state_dict().values())


@functools.cache
def _example_bytes(kind: type[Network]) -> int:
    return sum(each.nbytes for each in _example(kind))


@functools.cache
def _kept_bytes(kind: type[Network]) -> int:
    """Of one example. 0 where the network does not run on a CPU either: then a batch that does not fit is not skipped,
    and fails by the words of torch."""
    try:
        return _kept_on("meta", kind)
    except Exception:  # whatever a network's code says of numbers that are not there
        if (free := available_memory_bytes()) is not None and _weights_bytes(kind) > free:
            return 0  # and what the weights need is refused already
    try:
        return _kept_on("cpu", kind)
    except Exception:  # which is told, if it is one, once the step itself is made
        return 0


def _kept_on(device: str, kind: type[Network]) -> int:
    import torch

    with torch.random.fork_rng(devices=[]):
        module = _module(kind, device)
        own = {each.untyped_storage()._cdata for each in module.parameters()}  # noqa: SLF001 - no address tells on meta
        kept: dict[int, Any] = {}

        def keep(tensor: Any) -> Any:
            storage = tensor.untyped_storage()
            if storage._cdata not in own:  # noqa: SLF001
                kept[storage._cdata] = storage  # noqa: SLF001 - held, so that no other gets its place
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            kind().loss(module, *(torch.from_numpy(each).to(device) for each in _example(kind)))
    return sum(storage.nbytes() for storage in kept.values())


def _module(kind: type[Network], device: str = "meta") -> Any:
    import torch

    with torch.device(device):
        return kind().module()


def _example(kind: type[Network]) -> Any:
    import numpy as np

    return kind().inputs(np.random.default_rng(0), 1)
