"""Every metric that is shown, exported and compared: one entry here, of which all others ask.

A new one is an entry, and the code that measures it. Its samples are found by its name: a field of Measurement, or a
key of ``Measurement.others``.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Literal

from primbench import stats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.measurement import Measurement, Samples
    from primbench.problem import Work

FEWEST_BEYOND = 10
"""Samples beyond a quantile of the tail, without which it is not known well enough to be compared."""

_LAST = 9


@dataclass(frozen=True)
class Metric:
    """One time of a case, in seconds a call, or of the part of one that it is of."""

    name: str
    """Its name in files and exports, with its unit at the end."""
    heading: str
    """Heading of its column in a table."""
    what: str
    """What is timed, in words."""
    whose: Literal["GPU", "CPU", "host", "both"]
    """Whose time it is: the GPU's, the CPU's as the device that computes, the host's beside a GPU, or both of these."""
    _: KW_ONLY
    samples_of: str = ""
    """The metric whose samples it is computed from, itself unless named."""
    quantile: float | None = 0.5
    """Which quantile of the samples it is; None is the mean."""
    preference: int = _LAST
    """Its order: a case is judged by that of its metrics which has the least, unless the primitive prefers another."""
    gives_rates: bool = False
    """Whether flop and bytes a second are computed from it where it is ``Measurement.main``."""
    own_of: tuple[Work, ...] = ()
    """Work of which this is the device's own time all the same, since calls wait for the device by themselves."""
    explains: Literal["launch", "call", "clock"] | None = None
    """What a difference in it tells: "launch", what the host has to do for one; "call", how much longer a call takes as
    a whole; "clock", what the GPU's clock moves.
    """
    repeats: str = ""
    """A metric that on some devices has the very same samples; then only that one is compared."""
    is_column: bool = True
    """Whether the table of records has a column of it."""
    is_compared: bool = True
    """Whether it is compared between places."""

    @property
    def is_mean(self) -> bool:
        return self.quantile is None

    @property
    def is_median(self) -> bool:
        return self.quantile == 0.5

    @property
    def is_tail(self) -> bool:
        return self.quantile is not None and self.quantile > 0.5

    def is_own_time_of(self, work: Work) -> bool:
        """Whether the host has no part in it, of a primitive that does such work."""
        return self.whose in ("GPU", "CPU") or work in self.own_of

    def samples(self, measurement: Measurement | None) -> Samples | None:
        """The samples that the metric is computed from; None where they were not taken."""
        name = self.samples_of or self.name
        found: Samples | None = getattr(measurement, name, None)
        return found or (measurement.others.get(name) if measurement else None)

    def distinct_samples(self, measurement: Measurement) -> Samples | None:
        """As samples(), but None where they are the very samples of the metric that this one repeats."""
        found = self.samples(measurement)
        repeated = METRICS[self.repeats].samples(measurement) if self.repeats else None
        return None if found is not None and found == repeated else found

    def of(self, found: Sequence[Samples]) -> float | None:
        """The metric's value over all these samples together; None where there are none, or too few for a tail.

        In a sample of several calls the slow one among them does not show.
        """
        together = found[0].samples_s if len(found) == 1 else [sample for each in found for sample in each.samples_s]
        if not together:
            return None
        if self.quantile is None:
            return math.fsum(together) / len(together)
        if self.is_tail and not (
            all(each.calls_per_sample == 1 for each in found)
            and len(together) >= round(FEWEST_BEYOND / (1 - self.quantile))
        ):
            return None
        return stats.quantile(together, self.quantile)


# From left to right as tables show them. A quota that stops every tenth sample shows in the means, and in no median.
_ALL = (
    Metric("enqueue_s", "enqueue", "a call that only enqueues, the queue not full", "host",
           preference=5, explains="launch"),
    Metric(
        "stream_s", "stream", "one of many calls in a row, as a loop in Python makes them", "both",
        preference=3, gives_rates=True, own_of=("copy", "collective"), explains="call",
    ),
    Metric("device_s", "device", "one of many calls in a row, launches out of the way", "GPU",
           preference=1, gives_rates=True, explains="clock"),
    Metric("busy_s", "busy", "the kernels of a call, added up, as the GPU logged them", "GPU", preference=6),
    Metric("batch_s", "batch", "one of many calls in a row", "CPU", preference=2, gives_rates=True),
    Metric("wall_s", "wall", "a single call, waited for", "both", preference=4, repeats="batch_s", explains="call"),
    Metric(
        "enqueue_single_s", "enqueue single", "a single call that only enqueues, the queue empty", "host",
        is_column=False, is_compared=False,
    ),
    Metric("h2d_s", "h2d", "a copy to the GPU while others go from it", "GPU", is_column=False),
    Metric("d2h_s", "d2h", "a copy from the GPU while others go to it", "GPU", is_column=False),
    Metric("data_wait_s", "data wait", "what a step waits for its batch to be read and decoded", "host"),
    Metric("decode_s", "decode", "decoding one example, in whichever process does it", "host"),
    Metric("batch_mean_s", "batch mean", "batch_s, slow samples included", "CPU", samples_of="batch_s", quantile=None),
    Metric("enqueue_mean_s", "enqueue mean", "the same of enqueue_s", "host", samples_of="enqueue_s", quantile=None),
    Metric(
        "wall_mean_s", "wall mean", "the same of wall_s", "both",
        samples_of="wall_s", quantile=None, repeats="batch_s",
    ),
    Metric("wall_p99_s", "wall p99", "the slow calls of wall_s", "both", samples_of="wall_s", quantile=0.99),
    Metric(
        "enqueue_single_p99_s", "enqueue p99", "the slow calls of enqueue_single_s", "host",
        samples_of="enqueue_single_s", quantile=0.99,
    ),
)  # fmt: skip
METRICS = {metric.name: metric for metric in _ALL}
SAMPLED = [metric for metric in _ALL if not metric.samples_of]
COLUMNS = [metric for metric in SAMPLED if metric.is_column]
BY_PREFERENCE = sorted(_ALL, key=lambda metric: metric.preference)
MAIN = [metric for metric in BY_PREFERENCE if metric.gives_rates]


def main_of(measurement: Measurement | None) -> Metric | None:
    """The metric of ``Measurement.main``."""
    return next((metric for metric in MAIN if metric.samples(measurement)), None)
