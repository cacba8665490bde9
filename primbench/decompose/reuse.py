"""How much data a step touches from one use of what a call is given to the next.

That is the stack distance of an LRU cache, by which Mattson et al. 1970 ("Evaluation techniques for storage
hierarchies") tell whether a cache of some size still holds it. A step is one of many, so that what it touches first was
last touched in the step before: its calls are walked through twice, and the second time counts.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench import stats
from primbench.problem.operators import Touched

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from primbench.problem.operands import Operand
    from primbench.problem.operators import Call

INDICES = ("torch.int64", "torch.int32")


class Reuse(NamedTuple):
    """How far apart two uses of a tensor or storage lie."""

    distance: int
    """Bytes that are touched from one to the next, its own among them: between two uses of a byte lie all others of it,
    too.
    """
    own_bytes: int


def touched(given: Sequence[Any], made: Iterable[Any], device: str) -> Touched:
    """What a call touches. given, made: tensors. device: cpu or cuda, those on others count for nothing.

    Where indices are given beside other tensors, as of rows of a table, it reads no more of each than it returns.
    """
    read, written = _storages(given, device), _storages(made, device)
    most = sum(written.values()) if any(str(each.dtype) in INDICES for each in given) else math.inf
    several = {id(each): each for each in given}.values()
    # What is written in place is given.
    return Touched(
        {each: int(min(size, most)) for each, size in read.items()},
        {each: size for each, size in written.items() if each not in read},
        tuple(next(iter(_storages([each], device)), 0) for each in several),
    )


def tensors_in(value: Any) -> Iterator[Any]:
    """Those among arguments or results."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from tensors_in(each)


def made_of(tensor: Any) -> Iterator[Any]:
    """The tensors that have the memory that one stands for, be it one of torch.func, or made of others."""
    import torch
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):  # noqa: SLF001
        tensor = torch._C._functorch.get_unwrapped(tensor)  # noqa: SLF001
    if is_traceable_wrapper_subclass(tensor):
        for name in tensor.__tensor_flatten__()[0]:
            yield from made_of(getattr(tensor, name))
    else:
        yield tensor


def _storages(tensors: Iterable[Any], device: str) -> dict[int, int]:
    """By their addresses, which an allocator hands out again with their lines in the cache: bytes of the tensors."""
    import torch

    found: dict[int, int] = {}
    for each in itertools.chain.from_iterable(map(made_of, tensors)):
        if each.is_nested or each.layout != torch.strided or each.device.type != device or not each.numel():
            continue
        if each._is_zerotensor():  # noqa: SLF001 - which has no memory, as a gradient that is known to be 0
            continue
        storage = each.untyped_storage()
        lengths = (int(length) for length, stride in zip(each.shape, each.stride(), strict=True) if stride)
        own_bytes = math.prod(lengths) * each.element_size()
        found[storage.data_ptr()] = min(storage.nbytes(), found.get(storage.data_ptr(), 0) + own_bytes)
    return found


def distances(calls: Sequence[Call]) -> list[dict[int, Reuse]]:
    """Of each call in their order, of each storage that it is given; {} where it is not known what a call touches. What
    a call returns does not count as given: a cache need not read what is written whole.
    """
    trace = [call.touched or Touched() for call in calls]
    stack = _Stack(2 * sum(len(each.given) + len(each.made) for each in trace))
    for each in trace:
        stack.touch(each)
    found = []
    for each in trace:
        found.append({one: Reuse(stack.since_bytes(one) + size, size) for one, size in each.given.items()})
        stack.touch(each)
    return found


class Use(NamedTuple):
    """What a case is given by a call that is one of it."""

    places: tuple[int, ...]
    """Which tensors of the call are the inputs of the case; () is not known."""
    of_tensors: tuple[int, ...]
    """The storage of each tensor of the call, as Touched has them."""
    by_storage: Mapping[int, Reuse]
    """Of distances()."""

    def of_inputs(self) -> list[Reuse]:
        """[] where they are not known, or nothing counts; what has no storage that does is as near as can be."""
        if not self.by_storage or len(self.of_tensors) <= max(self.places, default=-1):
            return []
        return [self.by_storage.get(self.of_tensors[place], Reuse(0, 0)) for place in self.places]


def places_of(inputs: Sequence[Operand], call: Call) -> tuple[int, ...]:
    """Of a case's inputs among the tensors of the call; () where one is none of them."""
    own = call.tensors
    found = [next((place for place, each in enumerate(own) if each is one), -1) for one in inputs]
    return () if -1 in found else tuple(found)


def reuse_bytes(uses: Sequence[Use]) -> int | list[int] | None:
    """The median over calls of the distance of each input of a case; where it is not known which its inputs are, the
    distance that half of the bytes lie within. None where the calls are given nothing.
    """
    by_input = [use.of_inputs() for use in uses]
    if by_input and all(by_input):
        return [median_bytes(each) or 0 for each in zip(*by_input, strict=True)]
    return median_bytes(reuse for use in uses for reuse in use.by_storage.values())


def median_bytes(several: Iterable[Reuse]) -> int | None:
    """The distance that half of the bytes lie within; None of nothing."""
    found = list(several)
    return stats.weighted_median(found) if found else None


class _Stack:
    """Storages in the order of their last use. Their bytes stand at the moment of that, in a Fenwick tree, of which a
    sum takes a logarithm of the moments.
    """

    def __init__(self, moments: int) -> None:
        self._sums = [0] * (moments + 1)
        self._last: dict[int, tuple[int, int]] = {}  # moment and bytes
        self._now = 0

    def touch(self, each: Touched) -> None:
        for address, size in itertools.chain(each.given.items(), each.made.items()):
            if address in self._last:
                moment, before = self._last[address]
                self._add(moment, -before)
            self._now += 1
            self._last[address] = self._now, size
            self._add(self._now, size)

    def since_bytes(self, address: int) -> int:
        """Of others, used since this one."""
        return self._until(self._now) - self._until(self._last[address][0])

    def _add(self, moment: int, size: int) -> None:
        while moment < len(self._sums):
            self._sums[moment] += size
            moment += moment & -moment

    def _until(self, moment: int) -> int:
        total = 0
        while moment:
            total += self._sums[moment]
            moment -= moment & -moment
        return total
