"""What a kernel gives once it is set up: a function that enqueues the work, and what it says of itself."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from primbench.dtypes import Array
    from primbench.measurement import Samples
    from primbench.measurement.learnt import Learnt
    from primbench.measurement.readings import DataReading

Step = Callable[[], Any]
"""Enqueues the work once and returns the output. Allocates and waits for nothing.

The output is an array of the backend, a host array, or where it is neither, an object that can poison() and get()
itself as a backend does its arrays.
"""
Setup = Callable[..., Step]
"""``setup(backend, problem, *inputs) -> step``; the inputs are already arrays of the backend."""


class Description(NamedTuple):
    """What a step says of itself."""

    algorithm: str | None = None
    """Which way the library took, as the record shows it."""
    others: Mapping[str, Callable[..., Samples]] = {}
    """What takes each of ``Measurement.others``, by name; it gets the Method and the timing.sampling.Pace."""
    refused_calls: Callable[..., dict[str, int]] | None = None
    """What takes ``Measurement.refused_calls``; it gets the same two."""
    counts: Mapping[str, int] = {}
    """Those of ``Measurement.counts``, by name."""
    data: Callable[[], DataReading] | None = None
    """What gives ``Measurement.data``, once all else is timed."""
    waits: str = ""
    """Why a GPU's calls cannot be queued ahead, as where the host waits for data first; they have no device time."""
    launches_nothing: bool = False
    """Whether it launches nothing on a GPU, so that there is no device time, and all that a call takes is the host's.
    """
    stream_only: bool = False
    """Whether its device time is that of calls that follow one another on a stream, which a graph would send another
    way.
    """
    host_buffers: Sequence[tuple[Array, int | None]] | None = None
    """Host arrays that its calls read or write, each with the memory node it is to be on or None; None where these are
    its inputs and its output.
    """
    before: Callable[[], None] | None = None
    """What is called before each call of a CPU's that is timed, which is a sample by itself then, and its own time is
    not counted.
    """
    undo: Callable[[], None] | None = None
    """What brings back what calls have changed. It is called before each sample of a CPU's where all calls are given
    the same inputs, after which come no more than most_calls of them; its own time is not counted.
    """
    most_calls: int = 1
    """How many calls may follow one ``undo``."""
    learnt: Callable[[], Learnt] | None = None
    """What gives ``Measurement.learnt``, once all else is timed."""
    inputs: Sequence[Any] = ()
    """Arrays that its calls are given, where those are not what the set-up was given."""
    touched_bytes: Callable[[], int] | None = None
    """What gives the bytes that the last call has touched, where the problem does not know them."""
    is_process: bool = False
    """Whether each call is a process of its own, which no call before it warms up."""


def described(step: Step, **fields: Any) -> Step:
    """The step, its Description changed in some fields. It stays a plain function: a call costs nothing more."""
    described: Any = step if hasattr(step, "__dict__") else functools.partial(step)  # as a built-in function has none
    described.description = description_of(step)._replace(**fields)
    return cast("Step", described)


def description_of(step: Step) -> Description:
    """What described() said of a step; an empty Description where it was not called."""
    found: Description = getattr(step, "description", Description())
    return found
