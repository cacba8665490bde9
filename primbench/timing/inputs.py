"""The steps that a case calls: on one set of inputs, or on as many as it takes to find the cache cold at every call."""

from __future__ import annotations

import math
import time
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench import stats
from primbench.errors import UnsupportedCase
from primbench.numa.pages import HostExtent
from primbench.problem import Step, description_of
from primbench.system import memory
from primbench.timing.feasibility import check_memory
from primbench.timing.pages import extents_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from primbench.backends import Backend
    from primbench.measurement.implementation import Implementation
    from primbench.problem import Array, Problem, Setup
    from primbench.spec.method import Method

MAX_SETS = 4096
MAX_SETS_IN_STEP = 1024  # of one of hundreds of parts: more take longer to set up than to time
PLACES = 16  # of which the median moves by 0.7 % from one process to another, where one place moves by 2 %
ELSEWHERE_S = 0.3  # in which a tuned set-up makes as many as it can


def set_up(
    backend: Backend, problem: Problem, inputs: Sequence[Array], method: Method, setup: Setup
) -> tuple[list[Step], list[HostExtent]]:
    """The steps of every input set, and where the host memory lies that they were given."""
    steps, extents = list[Step](), list[HostExtent]()
    copies: list[list[Any]] = [[] for _ in inputs]
    turns = InputTurns.together(1, len(inputs))

    def add() -> Step:
        given = []
        for number, (each, several) in enumerate(zip(inputs, copies, strict=True)):
            place = turns.place(len(steps), number)
            if place == len(several):
                several.append(problem.laid_out(number, backend.put(each)))
                extents.extend(extents_of(backend, several[-1:]))
            given.append(several[place])
        steps.append(setup(backend, problem, *given))
        return steps[-1]

    first = add()
    sizes = [int(getattr(each, "nbytes", 0)) for (each,) in copies] or [problem.memory_bytes()]  # a set-up's own
    turns = input_turns(backend, problem, method, sizes, partial(_set_bytes, problem, first))
    if turns.sets > 1:
        check_memory(backend, problem, turns.sets)
    for _ in range(turns.sets - 1):
        add()
    return steps, extents


class InputTurns(NamedTuple):
    """How inputs go round."""

    sets: int
    """How many sets of them there are."""
    of_inputs: Sequence[int]
    """How often the copies of each input go round while the sets do once: as often as there are sets is one copy."""

    @classmethod
    def together(cls, sets: int, inputs: int) -> InputTurns:
        """So many sets, each of copies of its own."""
        return cls(sets, [1] * inputs)

    def place(self, number: int, of_input: int) -> int:
        """Which copy of an input is in the set of this number; its turns are of one length, or of two next to it."""
        turns = self.of_inputs[of_input]
        return number + (-(number * turns // self.sets) * self.sets) // turns


def _set_bytes(problem: Problem, step: Step) -> int:
    """What a call touches; of a problem that does not know what it writes, by what a call has written."""
    touched_bytes = description_of(step).touched_bytes
    if touched_bytes is None:
        return problem.memory_bytes()
    step()
    return touched_bytes()


def elsewhere(backend: Backend, problem: Problem, inputs: Sequence[Array], setup: Setup) -> list[Step]:
    """More steps of the same problem, on memory of their own; none where that makes no difference.

    What a GPU's cache holds is as near as it happens to lie: a product of 6 MB took 5.38 to 5.74 us on an H200, on the
    same memory always the same. Processes that follow one another are given the same memory, those that live side by
    side are not.
    """
    if not backend.device.is_gpu or problem.bytes_moved() is None:
        return []
    if problem.memory_bytes() > last_level_cache_bytes(backend):
        return []
    try:
        check_memory(backend, problem, PLACES)
    except UnsupportedCase:
        return []
    steps, start = list[Step](), time.monotonic()
    while len(steps) < PLACES - 1 and time.monotonic() - start < ELSEWHERE_S:
        steps.append(setup(backend, problem, *map(backend.put, inputs)))
    first_calls(backend, steps)
    return steps


def made_together(problem: Problem, method: Method, processes: int) -> tuple[Array, ...]:
    """The inputs of a problem, while so many processes make theirs; () where the host may not have the memory for all.

    They are made one by one then, and who finds no memory left refuses before any is taken. On a CPU each takes its
    inputs and as much for the rest, and the last one is still to find both.
    """
    import numpy as np

    if (2 * processes + 1) * problem.memory_bytes() > memory.available_memory_bytes():
        return ()
    return problem.inputs(np.random.default_rng(method.seed))


class FirstCalls(NamedTuple):
    """What the first calls of a case showed."""

    extents: list[HostExtent]
    """Where in host memory the outputs lie."""
    implementations: list[Implementation] | None
    """As Measurement has them."""
    output: Any = None
    """The output of the first step."""


def first_calls(backend: Backend, steps: Sequence[Step]) -> FirstCalls:
    """Call every step once, which loads and tunes what is lazy."""
    listening = None if backend.device.is_gpu else getattr(backend, "taken", None)
    with listening() if listening else nullcontext([]) as heard:
        output = steps[0]() if steps else None
        extents = extents_of(backend, [output])
        extents += [extent for step in steps[1:] for extent in extents_of(backend, [step()])]
        backend.synchronize()
    return FirstCalls(extents, next(iter(heard), None), output)


def input_turns(
    backend: Backend, problem: Problem, method: Method, sizes: Sequence[int], set_bytes: Callable[[], int]
) -> InputTurns:
    """One set when hot, enough to exceed twice the last-level cache when cold, and of a part of a step as many copies
    of each input as leave it as near as there. Raises UnsupportedCase for too many.

    sizes: of the inputs on the device, in bytes. set_bytes: what a call touches.
    """
    if method.cache == "hot":
        return _turns_in_step(backend, problem, method.reuse_bytes, sizes, set_bytes)
    if not (needed := set_bytes()):
        raise UnsupportedCase(
            f"a cold cache: {problem.primitive} has no inputs that a cache could hold: ask for a hot one"
        )
    sets = cold_sets(needed, last_level_cache_bytes(backend))
    if sets > MAX_SETS:
        raise UnsupportedCase(f"a cold cache would need {sets} sets of inputs, {MAX_SETS} are the limit: a larger size")
    return InputTurns.together(sets, len(sizes))


def _turns_in_step(
    backend: Backend,
    problem: Problem,
    reuse_bytes: int | tuple[int, ...] | None,
    sizes: Sequence[int],
    set_bytes: Callable[[], int],
) -> InputTurns:
    """All near where inputs are so in the step, or cannot be farther away here."""
    near = InputTurns.together(1, len(sizes))
    if reuse_bytes is None or not problem.memory_bytes():
        return near
    distances = list(reuse_bytes) if isinstance(reuse_bytes, tuple) else [reuse_bytes] * len(sizes)
    if len(distances) != len(sizes):
        raise UnsupportedCase(
            f"reuse_bytes has {len(distances)} numbers, and {problem.primitive} takes {len(sizes)} here: "
            "one for each input, or a single one for all"
        )
    cache_bytes = last_level_cache_bytes(backend)
    if not backend.device.is_gpu:
        found = InputTurns.together(_sets_on_cpu(distances, sizes, set_bytes, cache_bytes), len(sizes))
    elif max(distances) <= sum(sizes):
        return near
    else:
        touched_bytes = problem.bytes_moved() or set_bytes()  # of the memory that a kernel takes it may not touch all
        found = turns_apart([min(each, 2 * cache_bytes) for each in distances], sizes, touched_bytes)
    try:
        check_memory(backend, problem, found.sets)
    except UnsupportedCase:
        return near
    return found


def _sets_on_cpu(distances: Sequence[int], sizes: Sequence[int], set_bytes: Callable[[], int], cache_bytes: int) -> int:
    """Cold where the step touches more than the cache holds between uses of half of the bytes, and all inputs alike:
    what a call changes would run off to infinity while others do not, where it is shared by calls that go round.
    """
    middle = stats.weighted_median(zip(distances, sizes, strict=True))
    if middle <= cache_bytes or (needed := set_bytes()) >= 2 * cache_bytes:  # which pushes itself out
        return 1
    sets = cold_sets(needed, cache_bytes)
    return sets if sets <= MAX_SETS_IN_STEP else 1


def turns_apart(distances: Sequence[int], sizes: Sequence[int], touched_bytes: int) -> InputTurns:
    """How inputs go round so that as much is touched between two uses of one as its distance says.

    The nearest come first: a call touches each of their copies between two uses of one that is farther, and of those
    that are as far or farther, and of what it writes, another one each time. One that would take too many copies is
    near, and so are all that are farther, which would take more yet.
    """
    far = sorted((number for number, size in enumerate(sizes) if size), key=distances.__getitem__)
    while True:
        counts, most = [1] * len(sizes), 1
        near_bytes = sum(sizes) - sum(sizes[number] for number in far)
        rest_bytes = max(touched_bytes, sum(sizes)) - near_bytes
        for place, number in enumerate(far):
            counts[number] = most = max(most, math.ceil((distances[number] - near_bytes) / rest_bytes))
            if most > MAX_SETS_IN_STEP:
                far = far[:place]
                break
            near_bytes += most * sizes[number]
            rest_bytes -= sizes[number]
        else:
            return InputTurns(most, [max(1, most // count) for count in counts])


def cold_sets(set_bytes: int, cache_bytes: int) -> int:
    """Input sets that together exceed twice the cache: between two uses of one, all the others pass through."""
    return math.ceil(2 * cache_bytes / set_bytes) + 1


def last_level_cache_bytes(backend: Backend) -> int:
    """Size of the cache nearest to memory: a GPU's L2, or those of the CPUs that this process may use, together."""
    if not backend.device.is_gpu:
        return memory.last_level_cache_bytes()
    from primbench.gpu import vendor_of

    return vendor_of(backend.device).l2_cache_bytes()
