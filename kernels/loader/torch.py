"""Loader by torch.utils.data.DataLoader."""

from __future__ import annotations

import contextlib
import weakref
from typing import TYPE_CHECKING, Any

from primbench.errors import PrimbenchError, UnsupportedCase
from primbench.kernels.loader._failures import in_one_line, quietly
from primbench.kernels.loader._items import encoded, inflated, sums
from primbench.kernels.loader._sockets import sockets_kept
from primbench.problem import Step, described, kernel

if TYPE_CHECKING:
    from primbench.kernels.loader.problem import Loader
    from primbench.problem import Array


@kernel("loader", "torch")
def torch_loader(backend: Any, problem: Loader, differences: Any) -> Step:
    """A call takes every batch of one pass. Workers end with the step, which alone holds the loader.

    Raises UnsupportedCase for pinned memory where there is no GPU.
    """
    import torch
    from torch.multiprocessing import get_start_method
    from torch.utils.data import DataLoader

    if problem.pin_memory and not torch.cuda.is_available():
        raise UnsupportedCase("pin_memory copies to memory that a GPU's driver knows, and there is no GPU")
    items = Encoded(backend.get(differences)) if problem.decode == "png" else Raw(differences)
    output = Taken(problem)
    held: list[Any] = []
    with contextlib.ExitStack() as opened:
        with quietly(), sockets_kept(problem.workers, opened):
            held += [
                DataLoader(
                    items,
                    batch_size=problem.batch,
                    num_workers=problem.workers,
                    pin_memory=problem.pin_memory,
                    persistent_workers=problem.workers > 0,
                )
            ]
            opened.callback(held.clear)  # and with it end the workers, before their sockets are removed
            with in_one_line():
                for _ in held[0]:  # starts the workers
                    pass
        kept = opened.pop_all()

    def step() -> Any:
        count = 0
        for batch in held[0]:
            if output.wanted:
                output.take(count, batch)
            count += len(batch)
        if count != problem.items:
            raise PrimbenchError(f"a pass had {count} items, of {problem.items}")
        output.wanted = False
        return output

    weakref.finalize(step, kept.close)
    started = f", workers by {get_start_method()}" if problem.workers else ""
    return described(step, algorithm=f"torch.utils.data.DataLoader{started}", host_buffers=[])


class Raw:
    """Items as they are."""

    def __init__(self, items: Any) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, number: int) -> Any:
        return self._items[number]


class Encoded:
    """Items that are decoded whenever they are asked for."""

    def __init__(self, differences: Array) -> None:
        self._items = [encoded(each) for each in differences]

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, number: int) -> Any:
        import torch

        return torch.from_numpy(inflated(self._items[number]))


class Taken:
    """The output of a call: the sums of the items that it took, in the call that follows poison() alone."""

    def __init__(self, problem: Loader) -> None:
        import numpy as np

        self._found = np.empty((problem.items, 2), np.int64)
        self.wanted = False

    def poison(self) -> None:
        from primbench.dtypes import poison_host

        poison_host(self._found)
        self.wanted = True

    def take(self, first: int, batch: Any) -> None:
        self._found[first : first + len(batch)] = sums(batch.numpy())

    def get(self) -> Array:
        return self._found.copy()
