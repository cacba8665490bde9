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
    """What a step says of itself.

    algorithm: which way the library took, as the record shows it. others: by name, what takes each of
    ``Measurement.others``; refused_calls: what takes that of Measurement. Both get the Method and the
    timing.sampling.Pace. counts: by name, those of ``Measurement.counts``.
    stream_only: its device time is that of calls that follow one another on a stream, which a graph would send another
    way. host_buffers: host arrays that its calls read or write, each with the memory node it is to be on or None; None
    where these are its inputs and its output.
    data: what gives that of Measurement, once all else is timed.
    waits: why a GPU's calls cannot be queued ahead, as where the host waits for data first; they have no device time.
    launches_nothing: on a GPU, so that there is no device time, and all that a call takes is the host's.
    learnt: what is known of Measurement.learnt once all is timed.
    before: is called before each call of a CPU's that is timed, which is a sample by itself then, and its own time is
    not counted.
    undo: brings back what calls have changed. It is called before each sample of a CPU's where all calls are given the
    same inputs, after which come no more than most_calls of them; its own time is not counted.
    touched_bytes: what the last call has touched, where the problem does not know what it writes.
    is_process: whether each call is a process of its own, which no call before it warms up.
    """

    algorithm: str | None = None
    others: Mapping[str, Callable[..., Samples]] = {}
    refused_calls: Callable[..., dict[str, int]] | None = None
    counts: Mapping[str, int] = {}
    data: Callable[[], DataReading] | None = None
    waits: str = ""
    launches_nothing: bool = False
    stream_only: bool = False
    host_buffers: Sequence[tuple[Array, int | None]] | None = None
    before: Callable[[], None] | None = None
    undo: Callable[[], None] | None = None
    most_calls: int = 1
    learnt: Callable[[], Learnt] | None = None
    touched_bytes: Callable[[], int] | None = None
    is_process: bool = False


def described(step: Step, **fields: Any) -> Step:
    """The step, its Description changed in some fields. It stays a plain function: a call costs nothing more."""
    described: Any = step if hasattr(step, "__dict__") else functools.partial(step)  # as a built-in function has none
    described.description = description_of(step)._replace(**fields)
    return cast("Step", described)


def description_of(step: Step) -> Description:
    """What described() said of a step; an empty Description where it was not called."""
    found: Description = getattr(step, "description", Description())
    return found
