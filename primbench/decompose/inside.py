"""How long of a step passes inside operators, as torch's profiler notes where each begins and ends.

That makes a step longer, by half a microsecond an event on a CPU of 2023, partly inside operators: what a step takes by
itself beyond this is no more than what passes in Python, modules and autograd.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

STEPS = 5  # that are profiled
_END = "primbench: a step ends"
_OF_AUTOGRAD = "autograd::"  # what evaluates a node, of which operators are a part


class Inside:
    """Steps that run under the profiler, one after the other."""

    def __init__(self) -> None:
        self._profile: Any = None
        self._ends = 0

    @property
    def is_enough(self) -> bool:
        return self._ends > STEPS

    def end(self) -> None:
        """A step ends, and the next one begins. Raises RuntimeError where the script has a profiler of its own."""
        from torch.profiler import ProfilerActivity, profile, record_function

        if self._profile is None:
            profiler = profile(activities=[ProfilerActivity.CPU])
            profiler.__enter__()
            self._profile = profiler
        with record_function(_END):
            self._ends += 1

    def leave(self) -> list[float]:
        """How long of each whole step some operator was under way, in seconds."""
        profiler, self._profile = self._profile, None
        if profiler is None:
            return []
        profiler.__exit__(None, None, None)
        # events() of torch.profiler makes a tree of them, which takes half a minute where these take a second.
        events = profiler.profiler.kineto_results.events()
        spans = [(each.start_ns(), each.start_ns() + each.duration_ns(), each.name()) for each in events]
        ends = sorted(start for start, _, name in spans if name == _END)
        inside = sorted(
            (start, end) for start, end, name in spans if "::" in name and not name.startswith(_OF_AUTOGRAD)
        )
        return [1e-9 * sum(_lengths(inside, *step)) for step in itertools.pairwise(ends)]


def _lengths(spans: Iterable[tuple[int, int]], begun: int, ended: int) -> Iterator[int]:
    """Of what spans, in their order, cover together between two moments: they nest, and several threads have some."""
    covered = begun
    for start, end in spans:
        if start >= ended:
            break
        if end > covered:
            yield min(end, ended) - max(start, covered)
            covered = min(end, ended)
