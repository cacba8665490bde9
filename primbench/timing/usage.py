"""What a process and those it started use at this moment: memory of the host and of a GPU, and the GPU itself."""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from primbench.gpu import vendor_of
from primbench.system.files import attempt, labelled_bytes, read_number
from primbench.system.memory import group_usage
from primbench.system.processes import read_family

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from primbench.devices import Device
    from primbench.measurement.over_time import UsageReader


@contextmanager
def readers(pid: int, device: Device, missing: dict[str, str], root: Path = Path("/")) -> Iterator[list[UsageReader]]:
    """For a process and a device, each with its own cost. missing: why there is none for a series."""
    found = [
        _reader("host_rss_bytes", lambda: rss_bytes(pid, root)),
        _reader("host_pss_bytes", lambda: pss_bytes(pid, root)),
    ]
    usage = attempt(missing, "group_bytes", lambda: group_usage(root))
    if usage is not None:
        found.append(_reader("group_bytes", partial(read_number, usage)))
    if not device.is_gpu:
        yield found
        return
    with vendor_of(device).usage(device, pid, missing, root) as of_gpu:
        yield [*found, *of_gpu]


def _reader(name: str, read: Callable[[], float]) -> UsageReader:
    return lambda missing: {name: attempt(missing, name, read)}


def rss_bytes(pid: int, root: Path = Path("/")) -> int:
    """What a process and its descendants hold in RAM, each counted for itself. Raises OSError, ValueError."""
    pages = read_family(pid, root, lambda folder: int((folder / "statm").read_text().split()[1]))
    return os.sysconf("SC_PAGE_SIZE") * sum(pages)


def pss_bytes(pid: int, root: Path = Path("/")) -> int:
    """The same with every page that n processes share counted as an n-th. The kernel looks at every page for it."""
    return sum(read_family(pid, root, lambda folder: labelled_bytes(folder / "smaps_rollup", "Pss")))
