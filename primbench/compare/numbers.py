"""One case in the processes of one side: a number of each process and metric.

Where a loop was timed beside the samples there are two: of all, and of those beside which the CPU was at full speed,
or, of processes in turn, no thread waited for one.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from primbench import stats
from primbench.compare.moments import medians, moments
from primbench.results.cpu_speed import FEWEST, Speed, not_held_up, slowed_fraction, speed, undisturbed
from primbench.results.metrics import METRICS, Metric

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from primbench.measurement import Measurement, Samples
    from primbench.results.record import Record

Value = TypeVar("Value")
MetricValues = dict[str, dict[int, float]]
"""Metric -> process -> seconds."""


class CaseNumbers:
    """Of the records of all processes that ran the case."""

    def __init__(self, records: Sequence[Record]) -> None:
        measured = [(each, found) for each in records if (found := each.measurement)]
        self.took_turns = bool(measured) and all(found.turns for _, found in measured)
        """Whether all that was measured was measured in turn with other sides."""
        by_process: dict[int, list[Measurement]] = {}
        for record, found in measured:
            if record.status == "ok":
                by_process.setdefault(record.case.process, []).append(found)
        self._sampled = {process: _sampled(found) for process, found in by_process.items()}

    @cached_property
    def of_all(self) -> MetricValues:
        """Of every metric that is compared, by all samples."""
        return self._values(Metric.of)

    @cached_property
    def undisturbed(self) -> MetricValues:
        """As ``of_all``, by samples taken at full CPU speed; metrics with no loop timed beside them are left out."""
        if self.speed is None:
            return {}
        full_s = self.speed.full_s
        return self._values(lambda metric, found: _at_full_speed(full_s, metric, found))

    @cached_property
    def moments(self) -> dict[str, dict[int, list[float]]]:
        """As ``of_all``, what medians are of by ``moments.moments``; of processes that took turns."""
        return self._values(_of_moments) if self.took_turns else {}

    @cached_property
    def moments_alone(self) -> dict[str, dict[int, list[float]]]:
        """As ``moments``, nan where another program held the process up."""
        return self._values(_of_alone) if self.took_turns else {}

    @cached_property
    def alone(self) -> MetricValues:
        """As ``of_all``, of what counts in ``moments_alone``."""
        return {metric: medians(of) for metric, of in self.moments_alone.items()}

    @cached_property
    def speed(self) -> Speed | None:
        """How fast the CPU was, where that is known. By the arm's own loops: slower CPUs are slower."""
        return speed([loop_s for found in self._loops_s.values() for loop_s in found])

    @cached_property
    def slowed(self) -> dict[int, float]:
        """Process -> the share of its timed loops that the CPU ran slowly."""
        if self.speed is None:
            return {}
        return {process: slowed_fraction(found, self.speed.full_s) for process, found in self._loops_s.items() if found}

    @cached_property
    def _loops_s(self) -> dict[int, list[float]]:
        """Process -> seconds of every loop of Python that was timed between the samples."""
        return {
            process: [
                loop_s
                for metric, samples in found
                if not metric.samples_of
                for each in samples
                for _, loop_s in each.loops_s
            ]
            for process, found in self._sampled.items()
        }

    def _values(self, value_of: Callable[[Metric, Sequence[Samples]], Value | None]) -> dict[str, dict[int, Value]]:
        """Metric -> process -> its one value, in the metric's unit. A time of 0 tells nothing and is left out."""
        values: dict[str, dict[int, Value]] = {}
        for process, found in self._sampled.items():
            for metric, samples in found:
                if metric.is_compared and (value := value_of(metric, samples)):
                    values.setdefault(metric.name, {})[process] = value
        return values


def _sampled(measured: Sequence[Measurement]) -> list[tuple[Metric, list[Samples]]]:
    """Each metric with the samples that it is computed from, of those that were taken and that it does not repeat."""
    every = ((metric, [metric.distinct_samples(each) for each in measured]) for metric in METRICS.values())
    return [(metric, samples) for metric, found in every if (samples := [each for each in found if each is not None])]


def _at_full_speed(full_s: float, metric: Metric, found: Sequence[Samples]) -> float | None:
    if metric.samples_of:
        return None
    kept = [sample for each in found for sample in undisturbed(each, full_s)]
    return stats.quantile(kept, 0.5) if len(kept) >= FEWEST else None


def _of_moments(metric: Metric, found: Sequence[Samples]) -> list[float] | None:
    return moments([sample for each in found for sample in each.samples_s]) if metric.is_median else None


def _of_alone(metric: Metric, found: Sequence[Samples]) -> list[float] | None:
    return moments([sample for each in found for sample in not_held_up(each)]) if metric.is_median else None
