"""A step whose batches come from files, by torch's DataLoader."""

from __future__ import annotations

import contextlib
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from primbench.datasets.dataset import Dataset, find, format_of, write
from primbench.environment.filesystems import filesystem_of
from primbench.errors import PrimbenchError
from primbench.kernels.loader._sockets import sockets_kept
from primbench.kernels.model._loading import Loading
from primbench.problem import described
from primbench.system.page_cache import write_back
from primbench.timing.files import DataFolder, cooling, said

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.datasets.format import ExamplePlace, Format
    from primbench.devices import Device
    from primbench.kernels.model._step import Inference, Training
    from primbench.kernels.model.problem import Model
    from primbench.problem import Step
    from primbench.problem.network import Network


def from_disk(device: Device, problem: Model, network: Network, made: Training | Inference) -> Step:
    """The step on batches that are loaded. The folder that was made for it is there until the step is not.

    Raises UnsupportedCase for what the network, the installation or the file system lacks, PrimbenchError where the
    folder has no such examples or cannot be read.
    """
    form = format_of(network)
    with contextlib.ExitStack() as opened:
        folder = problem.data_folder or _made(form, problem, opened)
        places = find(form, folder, as_shards=problem.data_format == "shards")
        dataset = Dataset(form, folder, _spread(places, problem.examples), is_kept=problem.page_cache == "warm")
        if len(dataset) < problem.batch_size:
            raise PrimbenchError(
                f"data in {folder}: {len(dataset)} examples, and a batch has {problem.batch_size}: "
                f"--batch-size {len(dataset)} at most"
            )
        where = filesystem_of(folder, Path("/")) or "an unknown file system"
        if problem.page_cache == "cold":
            cooling(where, dataset.paths())
        else:
            dataset.read()
        with sockets_kept(problem.loader_workers, opened):
            loading = Loading(device, problem, made, dataset)
        opened.callback(loading.end)
        kept = opened.pop_all()

    def step() -> Any:
        return loading()

    weakref.finalize(step, kept.close)
    return described(
        step,
        algorithm=f"torch.utils.data.DataLoader{loading.started} of {problem.data_format} on {where}",
        host_buffers=[],
        others={"data_wait_s": loading.waits, "decode_s": loading.decodes},
        data=loading.reading,
        waits="the host waits for data before it launches a step",
    )


def _made(form: Format, problem: Model, opened: contextlib.ExitStack) -> str:
    """The path of a new folder of examples, written back to the disk."""
    folder = DataFolder("")
    opened.callback(folder.remove)
    with said(folder.path):
        write(form, folder.path, problem.examples, as_shards=problem.data_format == "shards")
        write_back(folder.path)
    return folder.path


def _spread(places: Sequence[ExamplePlace], count: int) -> list[ExamplePlace]:
    """So many at equal distances, or all that there are."""
    count = min(count, len(places))
    return [places[number * len(places) // count] for number in range(count)]
