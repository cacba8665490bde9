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
            self._profile = profile(activities=[ProfilerActivity.CPU])
            self._profile.__enter__()
        with record_function(_END):
            self._ends += 1

    def leave(self) -> list[float]:
        """How long of each whole step some operator was under way, in seconds."""
        if self._profile is None:
            return []
        self._profile.__exit__(None, None, None)
        spans = [(each.time_range.start, each.time_range.end, each.name) for each in self._profile.events()]
        self._profile = None
        ends = sorted(start for start, _, name in spans if name == _END)
        inside = [(start, end) for start, end, name in spans if "::" in name and not name.startswith(_OF_AUTOGRAD)]
        return [1e-6 * sum(_lengths(inside, *step)) for step in itertools.pairwise(ends)]


def _lengths(spans: Iterable[tuple[float, float]], begun: float, ended: float) -> Iterator[float]:
    """Of what spans cover together between two moments: they nest, and lie beside each other on several threads."""
    covered = begun
    for start, end in sorted(spans):
        if start >= ended:
            break
        if end > covered:
            yield min(end, ended) - max(start, covered)
            covered = min(end, ended)
