"""What a step has to give: the same network in float64 on the CPU, and how far rounding may take it from that."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench.dtypes import TF32_ROUNDOFF, UNIT_ROUNDOFF
from primbench.errors import VerificationError
from primbench.kernels.model._values import BLOCK, SEED, SUMS, gradients, module_of, values_of
from primbench.problem import Reference
from primbench.registry.networks import is_shipped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.problem import Array
    from primbench.problem.network import Network

TINY = 1e-2  # of the largest gradient of all: one that is smaller everywhere is what others leave when they cancel
# Weights are moved by so many roundings at once: many operations follow one another, and float32 sums are long.
ROUNDINGS = {"float32": 256, "tf32": 32, "bfloat16": 32, "float16": 32}
ALLOWED = 4  # times what that does
REPEATED = 0.01  # of the tolerance: what two passes in float64 may differ by


class _Found(NamedTuple):
    """What a step gives."""

    values: Array
    """float64[batches, values]."""
    sizes: Array
    """Of the same shape: what each value is a part of."""


def expected(
    network: Network, batches: Sequence[Sequence[Array]], *, is_training: bool, arithmetic: str, tolerance: float
) -> list[Reference]:
    """Each value's error is over its size, more where a rounding of the weights takes it farther.

    A deep network that is not trained yet cuts off other units when its weights are rounded, and then some gradients
    have little to do with those of exact weights: the same rounding, done in float64, shows which and by how much.

    network: that draws nothing. batches: one a rank, of which training has the mean of the gradients, and each rank its
    own loss. arithmetic: of products and convolutions, a dtype or tf32. Raises VerificationError where a network that
    somebody brought changes its inputs, or gives something else from the same weights and inputs: that would count as
    what rounding moves.
    """
    import numpy as np
    import torch

    take = _trained if is_training else _predicted
    arrays = _doubles(batches)
    module = module_of(network, "cpu").double()
    drawn = torch.get_rng_state()
    exact = take(network, module, arrays)
    if not is_shipped(network.name):  # those are known to give the same, and a large one takes seconds
        _check_unchanged(network, arrays, _doubles(batches))
        again = take(network, module, _doubles(batches))
        has_drawn = not torch.equal(drawn, torch.get_rng_state())  # of few numbers, two drawings can be the same
        if has_drawn or (np.abs(again.values - exact.values) / exact.sizes > REPEATED * tolerance).any():
            raise VerificationError(
                f"model {network.name}: a step gives something else the next time, so that nothing is right or wrong: "
                "where draws is False nothing is drawn, as by nn.Dropout(0.5 if self.draws else 0.0), or kept for later"
            )
    _round(module, ROUNDINGS[arithmetic] * UNIT_ROUNDOFF.get(arithmetic, TF32_ROUNDOFF))
    rounded = take(network, module, arrays)
    references = []
    for values, sizes, others in zip(exact.values, exact.sizes, rounded.values, strict=True):
        moved = np.abs(others - values) / sizes
        farthest = _of_tensors(moved) if is_training else moved.max()
        references.append(Reference(..., values, sizes * (1 + ALLOWED * farthest / tolerance)))
    return references


def _doubles(batches: Sequence[Sequence[Array]]) -> list[list[Any]]:
    """Copies."""
    import torch

    return [[_double(torch.from_numpy(each.copy())) for each in batch] for batch in batches]


def _check_unchanged(network: Network, used: list[list[Any]], given: list[list[Any]]) -> None:
    import numpy as np

    pairs = zip(chain.from_iterable(used), chain.from_iterable(given), strict=True)
    if not all(np.array_equal(one.detach(), other, equal_nan=True) for one, other in pairs):
        raise VerificationError(
            f"model {network.name}: a step changes its inputs, which the next one may be given again: "
            "have it work on copies, as x = x - mean does instead of x -= mean"
        )


def _of_tensors(moved: Array) -> Array:
    """Of the loss, and the largest of the sums of each gradient."""
    import numpy as np

    largest = moved[1:].reshape(-1, SUMS).max(1)
    return np.concatenate([moved[:1], np.repeat(largest, SUMS)])


def _predicted(network: Network, module: Any, batches: Sequence[Sequence[Any]]) -> _Found:
    import numpy as np
    import torch

    with torch.no_grad():
        values = np.stack([network.predict(module.eval(), *batch).double().numpy() for batch in batches])
    return _Found(values, np.full_like(values, max(np.abs(values).max(), np.finfo(np.float32).tiny)))


def _trained(network: Network, module: Any, batches: Sequence[Sequence[Any]]) -> _Found:
    """The gradients of the mean of all losses are the mean of the gradients."""
    import numpy as np

    losses, module = [], module.train()
    module.zero_grad()
    for batch in batches:
        loss = network.loss(module, *batch)
        (loss / len(batches)).backward()
        losses.append(loss.detach())
    network.after_backward(module)
    values = np.tile(values_of(losses[0], module), (len(losses), 1))
    values[:, 0] = losses
    return _Found(values, _sizes(values[:, 0], module))


def _round(module: Any, roundoff: float) -> None:
    """Each weight moved by up to that share of itself."""
    import torch

    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for each in module.parameters():
            rows = torch.atleast_1d(each)
            for part in rows.split(max(1, BLOCK * len(rows) // max(1, rows.numel()))):
                moves = torch.rand(part.shape, generator=generator, dtype=part.dtype)
                part.mul_(moves.mul_(2 * roundoff).add_(1 - roundoff))


def _double(array: Any) -> Any:
    return array.double() if array.is_floating_point() else array


def _sizes(losses: Array, module: Any) -> Array:
    import numpy as np

    norms = [float(each.norm()) for each in gradients(module)]
    floor = TINY * max(norms, default=0.0)
    of_gradients = np.repeat(np.maximum(norms, floor), SUMS)
    return np.stack([np.append(max(abs(loss), floor), of_gradients) for loss in losses])
