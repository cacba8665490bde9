"""A step and its parts as they were measured: cases, of one process or several, and steps timed as they ran."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from primbench import stats
from primbench.spec.captured import NotCalledAgain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from primbench.measurement import Measurement, Samples
    from primbench.results.record import Record
    from primbench.spec.captured import Captured
    from primbench.spec.case import Case

OTHERS, VIEWS, IN_STEP, SLOWER = "other operators", "views", "not measured alone", "slower than alone"
"""Rows of parts that are no primitive's. SLOWER: by how much operators take longer in the step."""


LONGER_PROFILED = 1.5
"""Times as long as others, from which on steps under the profiler tell nothing of these."""


HARDLY = 0.02
"""Share of a step that is next to nothing."""


class Part(NamedTuple):
    """A part of a step: calls that are one case."""

    row: str
    """Row of the table that it is in."""
    label: str
    calls: int
    """How many calls of it a step has."""
    device_s: float | None
    """Time of one call on the device; None where it was not measured."""
    host_s: float | None
    """Time of one call on the host; None where it was not measured."""
    reason: str
    """Why device_s is not known."""
    disturbances: list[str]
    """What disturbed it, in words."""
    is_far: bool = False
    """Whether it was measured with a cold cache, since the step touches more than it holds from one use of its data to
    the next.
    """
    busy_s: float | None = None
    """Time of the kernels of one call; None where they were not traced."""
    in_step: str = ""
    """Why it was not measured by itself; "" where it was, or nothing is known of its time. device_s is what it took in
    the captured step, and the host's time is in that.
    """

    @property
    def all_s(self) -> float:
        """Of its calls on the device, as far as known."""
        return self.calls * (self.device_s or 0.0)


def by_case(records: Sequence[Record], name: str) -> list[list[Record]]:
    """Those of the set of that name; several of a case are of several processes."""
    found: dict[object, list[Record]] = {}
    for record in records:
        if record.case.labels.get("set", "") == name:
            found.setdefault(part_of(record), []).append(record)
    return list(found.values())


def part_of(record: Record) -> bytes:
    """What tells the cases of one suite apart, wherever they ran."""
    case = record.case
    return msgspec.json.encode((case.primitive, case.parameters, case.labels), order="deterministic")


def measured_part(records: Sequence[Record]) -> Part:
    case = records[0].case
    host_s = median_s(records, lambda found: found.enqueue_s or found.batch_s or found.stream_s)
    is_view = bool(case.parameters.get("host_only"))
    row = _row_of(case)
    label, calls = case.labels.get("label", case.primitive), int(case.labels.get("count", "1"))
    is_far = any(each.cache != each.case.method.cache for each in records)
    if is_view and case.on.is_gpu and host_s is not None:  # which computes nothing
        return Part(row, label, calls, 0.0, host_s, "", disturbances(records), is_far, 0.0)
    device_s, busy_s = (median_s(records, of) for of in (device_time, lambda found: found.busy_s))
    reason = "" if device_s is not None else why_unknown(records)
    found = Part(row, label, calls, device_s, host_s, reason, disturbances(records), is_far, busy_s)
    return _or_in_step(found, case.labels) if reason else found


def _row_of(case: Case) -> str:
    if case.parameters.get("host_only"):
        return VIEWS
    return OTHERS if "operator" in case.parameters else case.primitive


def without_record(parts: Sequence[Part], captured: Captured | None) -> list[Part]:
    """Calls of the step that nothing was measured of: a run was cut off, or they cannot be made again."""
    if captured is None:
        return []
    gone = {"captured, but not in these results": captured.parts - sum(part.calls for part in parts)}
    if isinstance(captured.left_out, int):
        gone["they cannot be made again, as comments in the step's file say"] = captured.left_out
    found = [Part("", "", calls, None, None, reason, []) for reason, calls in gone.items() if calls > 0]
    return found if isinstance(captured.left_out, int) else [*found, *map(_left_out, captured.left_out)]


def _or_in_step(part: Part, labels: Mapping[str, str]) -> Part:
    """As it took in the captured step, where its labels say."""
    took_ns = labels.get("in_step_ns")
    return part if took_ns is None else _in_step(part.label, part.calls, int(took_ns) * 1e-9, part.reason)


def _left_out(each: NotCalledAgain) -> Part:
    if each.seconds is None:
        return Part("", each.name, each.calls, None, None, each.reason, [])
    return _in_step(each.name, each.calls, each.seconds / each.calls, each.reason)


def _in_step(label: str, calls: int, call_s: float, reason: str) -> Part:
    return Part(IN_STEP, label, calls, call_s, call_s, "", [], in_step=reason)


def told_by_step(parts: Iterable[Part]) -> list[NotCalledAgain]:
    """What was not measured by itself, and took so long in the captured step, the largest first."""
    found = (part for part in parts if part.in_step)
    return [
        NotCalledAgain(name=part.label, calls=part.calls, reason=part.in_step, seconds=part.all_s)
        for part in sorted(found, key=lambda part: -part.all_s)
    ]


def device_time(found: Measurement) -> Samples | None:
    """Of a call that waits for the GPU itself, such as item(), all that is known is its period."""
    return found.device_s or found.batch_s or found.stream_s


def why_unknown(records: Sequence[Record]) -> str:
    """Why the device's time of a case is."""
    record = next((each for each in records if each.status != "ok"), records[0])
    if record.measurement is None or record.status != "ok":
        return f"{record.status}: {record.reason}"
    return next((why for name, why in record.measurement.missing.items() if name.startswith("device")), "not timed")


def median_s(records: Sequence[Record], of: Callable[[Measurement], Samples | None]) -> float | None:
    """Over processes, each by its median."""
    measured = [each.measurement for each in records if each.measurement and each.status == "ok"]
    found = [taken.median_s for each in measured if (taken := of(each))]
    return stats.quantile(found, 0.5) if found else None


def disturbances(records: Iterable[Record]) -> list[str]:
    """What disturbed a case in any process, each once."""
    return list(dict.fromkeys(each for record in records for each in record.disturbed_by))


class Timed(msgspec.Struct, frozen=True, kw_only=True):
    """Steps of a script, timed as they ran while one like them was captured."""

    steps: int
    """How many there were."""
    median_s: float
    interval: tuple[float, float] | None
    """95 % interval of the median; None for fewer than six."""
    least_s: float
    most_s: float
    waits_s: float
    """The median of how long the script waited for its data loader."""
    queues_s: float | None = None
    """By how much the median is longer since its thread waited for a CPU; None where that is not known."""
    faults_s: float = 0.0
    """The median of how long it waited for pages of memory that it was the first to touch, as far as that is known."""
    ranks_s: list[float] = []
    """How long collectives were under way in such a step and nothing beside them, by rank; [] of one rank, or where
    that is not known. Whom all wait for has the least; this step is rank 0's.
    """
    between_s: float | None = None
    """The median of how long no operator was under way, in Python, modules and autograd; None where it is not known, or
    steps differ.
    """
    between_interval: tuple[float, float] | None = None
    """95 % interval of it; None of fewer than six steps."""
    inside_s: float | None = None
    """The median of how long some operator was, in the same steps; None where it is not known, steps differ, or parts
    were measured in another place.
    """
    between_share: tuple[float, float] | None = None
    """95 % interval of the share that between_s has of both; None of fewer than six steps, or where inside_s is not
    known.
    """
    blocked_s: float | None = None
    """The median of how long the host waited for the GPU in the same steps, which is in neither; None where it is not
    known, and on a CPU.
    """
    profiled_s: float | None = None
    """How long steps under the profiler took, where that is so much longer that they do not tell of the others; None
    where it is not.
    """
    unlike: int = 0
    """How many of these steps called other modules than the one whose parts were measured, or them other times."""
    elsewhere: list[str] = []
    """In what the place where parts were measured is another, in words."""

    @property
    def left_s(self) -> float:
        """What the median has for operators and for what lies between them: it, without waits and collectives, of which
        a host waits for those on its GPU as for other kernels.
        """
        collective_s = sum(self.ranks_s[:1]) if self.blocked_s is None else self.blocked_s
        return max(0.0, self.median_s - self.waits_s - (self.queues_s or 0.0) - collective_s)

    def of_step(self, time_s: float) -> float:
        """A part of between_s and inside_s, where both take longer than there is for them, as much less as both."""
        both_s = (self.between_s or 0.0) + (self.inside_s or 0.0)
        return time_s if self.inside_s is None or both_s <= self.left_s else time_s * self.left_s / both_s

    @property
    def never_waits(self) -> bool:
        """Whether the host next to never waits for its GPU, as far as that is known."""
        if self.blocked_s is None or self.between_s is None or self.inside_s is None:
            return False
        return self.blocked_s <= HARDLY * (self.blocked_s + self.between_s + self.inside_s)

    @property
    def waits_for_rank_s(self) -> float:
        """How much longer than the rank that all wait for, but no longer than a step: profiled ones told it."""
        return min(self.ranks_s[0] - min(self.ranks_s), self.median_s) if self.ranks_s else 0.0


def slower_s(timed: Timed | None, parts_s: float, *, is_least: bool, may_wait_s: float = 0.0) -> float:
    """By how much operators take longer in the step than alone, where they take ``parts_s``, beyond new memory.

    is_least: whether more than that is not known of them. may_wait_s: how long the host may wait for its GPU in them,
    where how long it does is not known.
    """
    if timed is None or is_least:
        return 0.0
    waits_s = may_wait_s if timed.blocked_s is None else 0.0
    return max(0.0, timed.of_step(timed.inside_s or 0.0) - parts_s - waits_s - timed.faults_s)


def timed(captured: Captured | None, elsewhere: list[str] | None = None) -> Timed | None:
    """None where no step was timed."""
    if captured is None or not captured.times_s:
        return None
    times_s = captured.times_s
    ran_s = [time_s - queued_s for time_s, queued_s in zip(times_s, captured.queues_s, strict=False)]
    median_s = stats.quantile(times_s, 0.5)
    return Timed(
        steps=len(times_s),
        median_s=median_s,
        interval=stats.median_interval(times_s),
        least_s=min(times_s),
        most_s=max(times_s),
        waits_s=stats.quantile(captured.waits_s, 0.5) if captured.waits_s else 0.0,
        queues_s=median_s - stats.quantile(ran_s, 0.5) if ran_s else None,
        faults_s=stats.quantile(captured.faults_s, 0.5) if captured.faults_s else 0.0,
        ranks_s=captured.exposed_s,
        unlike=captured.unlike,
        elsewhere=elsewhere or [],
        **_between(captured, ran_s or times_s, elsewhere),
    )


def _between(captured: Captured, ran_s: Sequence[float], elsewhere: list[str] | None) -> dict[str, Any]:
    """What is known of the time in operators and between them."""
    if not captured.between_s or captured.unlike:
        return {"between_s": _between_s(captured, ran_s)}
    between_s, inside_s = stats.quantile(captured.between_s, 0.5), stats.quantile(captured.inside_s, 0.5)
    blocked_s = stats.quantile(captured.blocked_s, 0.5) if captured.blocked_s else None
    profiled_s = between_s + inside_s + (blocked_s or 0.0)
    if profiled_s > LONGER_PROFILED * stats.quantile(ran_s, 0.5):
        return {"profiled_s": profiled_s}
    return {
        "blocked_s": blocked_s,
        "between_s": between_s,
        "between_interval": stats.median_interval(captured.between_s),
        "inside_s": None if elsewhere else inside_s,
        "between_share": None if elsewhere else stats.median_interval(_shares(captured)),
    }


def _shares(captured: Captured) -> list[float]:
    """Of each step under the profiler, how much of it passed between operators."""
    both = zip(captured.between_s, captured.inside_s, strict=False)
    return [between_s / (between_s + inside_s) for between_s, inside_s in both if between_s + inside_s > 0]


def _between_s(captured: Captured, ran_s: Sequence[float]) -> float | None:
    """Of a file that has no ``between_s``, what is known from below. ran_s: how long each step lasted, without what it
    waited for a CPU. None where their scatter hides it, too.
    """
    if not captured.inside_s or captured.unlike:
        return None
    active_s = [each - waited_s for each, waited_s in itertools.zip_longest(ran_s, captured.waits_s, fillvalue=0.0)]
    known_s = stats.quantile(captured.inside_s, 0.5) + sum(captured.exposed_s[:1])
    between_s = stats.quantile(active_s, 0.5) - known_s
    low_s, high_s = stats.median_interval(active_s) or (0.0, 0.0)
    return None if 0 < between_s < high_s - low_s else max(0.0, between_s)
