"""Batches from files, by torch's DataLoader, and the steps on them."""

from __future__ import annotations

import os
import random
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench.datasets.dataset import Bad, Dataset, Good
from primbench.errors import PrimbenchError
from primbench.kernels.loader._failures import in_one_line, quietly, uninterrupted
from primbench.measurement import Samples
from primbench.measurement.readings import DataReading
from primbench.system.files import attempt
from primbench.system.page_cache import held_share
from primbench.timing.sampling import collect, secondary_rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.devices import Device
    from primbench.kernels.model._step import Inference, Training
    from primbench.kernels.model.problem import Model
    from primbench.spec.method import Method
    from primbench.timing.sampling import Pace

MOST_NAMED = 5


class Batch(NamedTuple):
    """Examples side by side."""

    arrays: list[Any]
    """Of the network, on the host; [] where no example is good."""
    decode_s: float
    """Seconds that one example took to decode, the mean."""
    read_bytes: int
    """What was read for all of them."""
    bad: list[Bad]
    """Those that are not in it."""


class _Collation:
    """Puts examples side by side; those that are good stand in for others."""

    def __init__(self, axes: Sequence[int]) -> None:
        self._axes = axes

    def __call__(self, loaded: Sequence[Good | Bad]) -> Batch:
        from torch.utils.data import default_collate

        good = [each for each in loaded if isinstance(each, Good)]
        bad = [each for each in loaded if isinstance(each, Bad)]
        if not good:
            return Batch([], 0.0, 0, bad)
        full = [good[number % len(good)].arrays for number in range(len(loaded))]
        arrays = default_collate(full)
        for number, axis in enumerate(self._axes):
            arrays[number] = arrays[number].movedim(0, axis).contiguous()
        decode_s = sum(each.decode_s for each in good) / len(good)
        return Batch(arrays, decode_s, sum(each.read_bytes for each in good), bad)


class Order:
    """Numbers of all examples, pass after pass, shuffled anew in each; of shards those of one follow one another.

    It has no end: after the last batch of a pass workers would begin anew, and passes here are short.
    """

    def __init__(self, dataset: Dataset, *, by_shard: bool) -> None:
        groups: dict[object, list[int]] = {}
        for number, place in enumerate(dataset.places):
            groups.setdefault(place.extents[0].path if by_shard else number, []).append(number)
        self._groups, self._dice = list(groups.values()), random.Random(0)

    def __iter__(self) -> Iterator[int]:
        while True:
            self._dice.shuffle(self._groups)
            for group in self._groups:
                yield from group


class Loading:
    """Takes a batch, copies it, and makes a step on it."""

    def __init__(self, device: Device, problem: Model, made: Training | Inference, dataset: Dataset) -> None:
        from torch.multiprocessing import get_start_method
        from torch.utils.data import DataLoader

        workers = problem.loader_workers
        self.started = f", {workers} workers by {get_start_method()}," if workers else ""
        self._device, self._made, self._dataset = str(device), made, dataset
        self._is_skipping = problem.on_bad_data == "skip"
        self._bad: dict[str, str] = {}
        self._waited_s = self._decode_s = 0.0
        self._batches_taken = self._bytes_read = 0
        self._decodes_s: list[float] = []
        with quietly(), uninterrupted(), in_one_line():
            loader: Any = DataLoader(
                dataset,
                batch_size=problem.batch_size,
                sampler=Order(dataset, by_shard=problem.data_format == "shards"),
                num_workers=workers,
                collate_fn=_Collation(dataset.axes),
                pin_memory=problem.pin_memory and device.is_gpu,
            )
            self._batches: Any = iter(loader)

    def end(self) -> None:
        """And with it its workers."""
        self._batches = None

    def __call__(self) -> Any:
        self._made.inputs = self._next()
        return self._made()

    def _next(self) -> tuple[Any, ...]:
        """On the device."""
        begun = time.perf_counter()
        batch = self._loaded()
        self._waited_s = time.perf_counter() - begun
        if batch.bad:
            self._note(batch)
        self._decode_s = batch.decode_s
        self._batches_taken += 1
        self._bytes_read += batch.read_bytes
        return tuple(each.to(self._device, non_blocking=True) for each in batch.arrays)

    def _loaded(self) -> Batch:
        """Raises PrimbenchError where a worker died."""
        try:
            found: Batch = next(self._batches)
        except (RuntimeError, OSError, EOFError) as error:  # or what was begun with a worker that is no more
            *_, last = [type(error).__name__, *str(error).strip().splitlines()]
            why = "one was killed, or is out of memory (/dev/shm)"
            raise PrimbenchError(f"data in {self._dataset.folder}: loader_workers: {last}: {why}") from None
        return found

    def _note(self, batch: Batch) -> None:
        """Raises PrimbenchError where bad examples end the case, or there are no others in a batch."""
        self._bad |= {each.name: each.reason for each in batch.bad}
        if self._is_skipping and batch.arrays:
            return
        first = batch.bad[0]
        way_out = "mend it, or go on without it: on_bad_data=skip"
        if self._is_skipping:
            way_out = "so is all of its batch: mend them, or take larger batches"
        raise PrimbenchError(f"data in {self._dataset.folder}: {first.name}: {first.reason}: {way_out}")

    def waits(self, method: Method, pace: Pace) -> Samples:
        """What further steps wait for their batches; what these took to decode is kept for decodes()."""
        self._decodes_s = []

        def take() -> list[float]:
            self()
            self._decodes_s.append(self._decode_s)
            return [self._waited_s]

        return collect(
            take, secondary_rule(method), pace, calls_per_sample=1, taken_by="host clock", metric="data_wait_s",
            loop=pace.loop,
        )  # fmt: skip

    def decodes(self, *_: object) -> Samples:
        return Samples(samples_s=self._decodes_s, calls_per_sample=1, taken_by="host clock", stopped="count")

    def reading(self) -> DataReading:
        paths = [path for path in self._dataset.paths() if os.path.exists(path)]
        return DataReading(
            examples=len(self._dataset),
            read_bytes=self._bytes_read / self._batches_taken,
            cached_fraction=attempt({}, "", lambda: held_share(paths)),
            bad_examples=len(self._bad),
            bad=[f"{name}: {reason}" for name, reason in list(self._bad.items())[:MOST_NAMED]],
        )
