"""Which host memory the calls of a case read and write, and where its pages are before and after they are timed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from primbench.numa import mempolicy, pages
from primbench.numa.pages import HostExtent, Residency, extent_of
from primbench.problem import description_of
from primbench.system.files import attempt
from primbench.timing.verify import is_host_array, on_host

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.backends import Backend
    from primbench.measurement.readings import Pages
    from primbench.problem import Array, Step


@dataclass(frozen=True)
class WatchedPages:
    """Host memory that is about to be timed, and where its pages were. None is unknown, with the reason in missing."""

    extents: list[HostExtent]
    page_nodes: Sequence[int]
    before: Residency | None
    missing: dict[str, str]


def watch(steps: Sequence[Step], extents: Sequence[HostExtent], page_nodes: Sequence[int] | None) -> WatchedPages:
    """Look at the pages before the timing. page_nodes: as timing.measure_on() has it.

    extents: of what the steps were given and return, which counts where they do not name their buffers themselves.
    """
    named = [named for step in steps if (named := description_of(step).host_buffers) is not None]
    timed = [_extent(*each) for buffers in named for each in buffers] if named else list(extents)
    wanted = _nodes_of_policy() if page_nodes is None else page_nodes
    missing: dict[str, str] = {}
    before = None
    if timed:
        before = attempt(missing, "pages", lambda: pages.look(timed, wanted))
    else:
        missing["pages"] = "no host memory is timed"
    return WatchedPages(timed, wanted, before, missing)


def _nodes_of_policy() -> list[int]:
    _, nodes = attempt({}, "get_mempolicy", mempolicy.current_policy) or ("", [])
    return nodes


def pages_since(watched: WatchedPages) -> tuple[Pages | None, dict[str, str]]:
    """Where the pages are now and whether they were where they were to be, or None and the reason."""
    before, missing = watched.before, dict(watched.missing)
    if before is None:
        return None, missing
    after = attempt(missing, "pages", lambda: pages.look(watched.extents, watched.page_nodes))
    return (pages.verdict(before, after) if after else None), missing


def extents_of(backend: Backend, arrays: Sequence[Any]) -> list[HostExtent]:
    """Where arrays of a CPU backend lie; none for a GPU's. What is no array, as a step may return, has none.

    Their places alone: what is kept would be memory that the case otherwise gives back.
    """
    if backend.device.is_gpu:
        return []
    import numpy as np

    are_arrays = [array for array in arrays if hasattr(array, "dtype") and not isinstance(array, np.generic)]
    found = [on_host(backend, array) for array in are_arrays]
    return [extent_of(array) for array in found if is_host_array(array)]


def _extent(array: Array, node: int | None) -> HostExtent:
    return extent_of(array, None if node is None else (node,))
