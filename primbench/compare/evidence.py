"""What the records of a slower or faster case say themselves: launches, waiting, clocks, algorithms, pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from primbench import stats
from primbench.compare.criteria import problem_of
from primbench.results.disturbances import WAITED_FRACTION
from primbench.results.metrics import METRICS
from primbench.units import format_frequency, format_percent, format_time

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from primbench.compare.comparison import ArmComparison, CaseComparison
    from primbench.compare.ratio import Estimate
    from primbench.measurement import Measurement
    from primbench.measurement.readings import HostReading
    from primbench.results.cpu_speed import Speed
    from primbench.results.record import Record

NOTABLE_THROTTLING = 0.01
NOTABLE_CPU = 0.05  # runs of the same loop on the same CPU differ by 1 % at full speed
NOTABLE_CLOCK = 0.005  # what nvbench, comparing two runs, takes for a difference in cycles


class Seen(NamedTuple):
    """One case on both sides."""

    one: str
    """Name of the baseline."""
    other: str
    """Name of the arm."""
    of_one: Sequence[Record]
    of_other: Sequence[Record]
    speeds: tuple[Speed | None, Speed | None]
    """Speeds of their CPUs; None where no loop was timed."""
    may_be_slowed_alike: bool
    """Whether these CPUs may be slowed alike."""

    def medians(self, of: Callable[[Measurement], float | None]) -> tuple[float, float] | None:
        """Over processes, of the baseline and of the arm; None where a side does not say."""
        found = [
            [value for record in records if record.measurement and (value := of(record.measurement)) is not None]
            for records in (self.of_one, self.of_other)
        ]
        return (stats.quantile(found[0], 0.5), stats.quantile(found[1], 0.5)) if all(found) else None


def evidence(case: CaseComparison, arm: ArmComparison, seen: Seen) -> list[str]:
    return [*_launches(case, arm, seen), *_quota(seen), *_clock(case, seen), *_algorithm(seen), *_pages(seen)]


def noise(case: CaseComparison, seen: Seen) -> list[str]:
    """What others on the machine may have done, which is no doing of the places: to the place that took longer.

    Where nothing moved for certain, to either.
    """
    slower = {each.ratio > 1 for each in case.estimates if each.has_moved}
    waits_itself = bool(slower) and _waits_for_files_in_turn(case, seen)
    slower = slower or {True, False}
    return [*([] if waits_itself or _quota(seen) else _waits(seen, slower)), *_cpu(seen, slower)]


def _waits_for_files_in_turn(case: CaseComparison, seen: Seen) -> bool:
    """Both met the same others then, and who sleeps for a disk more often has to wait for a CPU after each time."""
    measured = [each.measurement for each in (*seen.of_one, *seen.of_other) if each.measurement]
    return problem_of(case.case.primitive).work == "data loading" and all(each.turns for each in measured)


def _launches(case: CaseComparison, arm: ArmComparison, seen: Seen) -> Iterator[str]:
    """What dearer launches make of a call with so many kernels, against what it was seen to take longer."""
    kernels, cost = seen.medians(_kernels), _cost_of_launch(case, arm)
    grown = _explaining("call", case.estimates)
    if kernels is None or not kernels[1] or cost is None or grown is None:
        return
    if problem_of(case.case.primitive).work == "launch":
        return
    dearer_s = cost.arm_s - cost.baseline_s
    yield (
        f"{kernels[1]:g} kernel{'s' * (kernels[1] != 1)} a call x {_change(dearer_s)} a launch = "
        f"{_change(kernels[1] * dearer_s)}; {METRICS[grown.metric].heading} takes "
        f"{_change(grown.arm_s - grown.baseline_s)}"
    )


def _kernels(measurement: Measurement) -> float | None:
    return measurement.trace.kernels_per_call if measurement.trace else measurement.nodes_per_call


def _cost_of_launch(case: CaseComparison, arm: ArmComparison) -> Estimate | None:
    """What one launch costs, by the launch cases of the same backend and device: a framework's own call first."""
    there = (case.case.backend, case.case.device)
    launches = [
        (launched, each)
        for each in arm.cases
        if (each.case.backend, each.case.device) == there
        and (problem := each.case.known_problem())
        and (launched := problem.one_launch())
    ]
    launches.sort(key=lambda found: found[0] != "dispatch")
    return _explaining("launch", [found for _, each in launches for found in each.estimates])


def _explaining(what: str, estimates: Sequence[Estimate]) -> Estimate | None:
    """The estimate of the first metric in the table that explains this; None where there is none."""
    names = [metric.name for metric in METRICS.values() if metric.explains == what]
    return next((each for name in names for each in estimates if each.metric == name), None)


def _change(seconds: float) -> str:
    return f"{format_time(abs(seconds))} {'more' if seconds >= 0 else 'less'}"


class _Reading(NamedTuple):
    """A share of the time of a case."""

    words: str
    field: str
    notable: float
    """Sides that differ by more than this differ."""


_READINGS = (
    _Reading("waiting for a CPU", "waited_s", WAITED_FRACTION),
    _Reading("with tasks of its machine or control group waiting for a CPU", "cpu_pressure_some_s", 0.1),
)


def share(field: str) -> Callable[[Measurement], float | None]:
    """Of the time of a case, what a counter of the host says."""

    def of(measurement: Measurement) -> float | None:
        return measurement.host.share(getattr(measurement.host, field)) if measurement.host else None

    return of


def waiting(seen: Seen) -> bool:
    """Whether one side waited notably more for CPUs or by its quota, which medians may not show."""
    return bool(_quota(seen) or _waits(seen))


def _waits(seen: Seen, slower: Collection[bool] = (True, False)) -> list[str]:
    """How much longer one side waited, by the first of the kernel's counters in which they differ.

    slower: whether the arm is, or the baseline, or, with both, either.
    """
    for words, field, notable in _READINGS:
        shares = seen.medians(share(field))
        if shares is not None and abs(shares[1] - shares[0]) > notable and (shares[1] > shares[0]) in slower:
            ours, theirs = format_percent(shares[1]), format_percent(shares[0])
            return [f"{words} for {ours} of its time in {seen.other}, {theirs} in {seen.one}"]
    return []


def _quota(seen: Seen) -> list[str]:
    """How much a CPU quota held back either side, by cpu.stat of all its processes together."""
    here, there = HeldBack.of(seen.of_one), HeldBack.of(seen.of_other)
    if abs(there.share - here.share) <= NOTABLE_THROTTLING:
        return []
    return [f"the CPU quota held back {seen.other} {there.words}, {seen.one} {here.words}"]


class HeldBack(NamedTuple):
    """By its CPU quota, all records of a place together."""

    is_counted: bool
    throttled_s: float
    duration_s: float
    throttled_periods: int
    periods: int

    @classmethod
    def of(cls, records: Sequence[Record]) -> HeldBack:
        """What was not counted is taken for nothing, and is_counted says so: the root group of v2 can have no quota."""
        hosts = host_readings(records)
        return cls(
            any(host.throttled_s is not None for host in hosts),
            sum(host.throttled_s or 0.0 for host in hosts),
            sum(host.duration_s for host in hosts),
            sum(host.throttled_periods or 0 for host in hosts),
            sum(host.quota_periods or 0 for host in hosts),
        )

    @property
    def share(self) -> float:
        """Over 1 where several CPUs were held back at a time."""
        return self.throttled_s / self.duration_s if self.duration_s else 0.0

    @property
    def words(self) -> str:
        if not self.throttled_s:
            return "never" if self.is_counted else "in no way that is counted"
        periods = f"in {self.throttled_periods} of {self.periods} periods, " if self.periods else ""
        held, of = format_time(self.throttled_s), format_time(self.duration_s)
        return f"{periods}for {held} added up over CPUs, in {of} (cpu.stat)"


def host_readings(records: Sequence[Record]) -> list[HostReading]:
    """The counters of the host, of all records that have them."""
    return [each.measurement.host for each in records if each.measurement and each.measurement.host]


def _cpu(seen: Seen, slower: Collection[bool]) -> Iterator[str]:
    """Whether the CPU itself was slower on one side, by the loop of Python that is timed between samples."""
    one, other = seen.speeds
    if one is None or other is None:
        return
    if abs(other.full_s / one.full_s - 1) > NOTABLE_CPU:
        longer = f"{other.full_s / one.full_s:.2f} times as long in {seen.other} as in {seen.one}"
        if (other.full_s > one.full_s) in slower:
            yield (
                f"at its fastest the CPU takes for the same loop of Python {longer}: other CPUs, a load that never "
                "stops, or what slows Python itself"
            )
    elif not seen.may_be_slowed_alike and (other.slowed_fraction > one.slowed_fraction) in slower:
        shares = [format_percent(each.slowed_fraction) for each in (other, one)]
        yield f"the CPU was slow beside {shares[0]} of the samples in {seen.other}, {shares[1]} in {seen.one}"


def _clock(case: CaseComparison, seen: Seen) -> Iterator[str]:
    """Where the SM clocks differ: the ratio of device times in cycles, which the clock has no part in."""
    clocks = seen.medians(lambda measurement: measurement.gpu.sm_clock_hz if measurement.gpu else None)
    moved = _explaining("clock", case.estimates)
    if clocks is None or moved is None or not clocks[0] or abs(clocks[1] / clocks[0] - 1) <= NOTABLE_CLOCK:
        return
    yield (
        f"the SM clock was {format_frequency(clocks[1])} in {seen.other}, {format_frequency(clocks[0])} in {seen.one}: "
        f"counted in cycles, the ratio of {METRICS[moved.metric].heading} is {moved.ratio * clocks[1] / clocks[0]:.3f}"
    )


def _algorithm(seen: Seen) -> Iterator[str]:
    one, other = (
        {each.measurement.algorithm for each in records if each.measurement and each.measurement.algorithm}
        for records in (seen.of_one, seen.of_other)
    )
    if one and other and one != other:
        words = [" or ".join(sorted(each)) for each in (other, one)]
        yield f"done by {words[0]} in {seen.other}, by {words[1]} in {seen.one}"


def _pages(seen: Seen) -> Iterator[str]:
    one, other = (
        sum(bool(each.measurement and each.measurement.pages and each.measurement.pages.misplaced) for each in records)
        for records in (seen.of_one, seen.of_other)
    )
    if one != other:
        yield (
            f"pages were not where they were asked for in {other} of {len(seen.of_other)} processes in {seen.other}, "
            f"{one} of {len(seen.of_one)} in {seen.one}"
        )
