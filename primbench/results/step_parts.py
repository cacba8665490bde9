"""The parts of a step as they were measured: cases, of one process or several."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

import msgspec

from primbench import stats
from primbench.problem.operators import is_collective_on_host, is_wait_for_ranks, profiled_name
from primbench.results.step_explained import COLLECTIVES
from primbench.results.step_timed import Timed, slower_s
from primbench.spec.captured import NotCalledAgain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from primbench.measurement import Measurement, Samples
    from primbench.results.record import Record
    from primbench.spec.captured import Captured
    from primbench.spec.case import Case

OTHERS, VIEWS, IN_STEP, SLOWER, BEYOND = (
    "other operators", "views", "not measured alone", "slower than alone", "kernels beyond its parts",
)  # fmt: skip
"""Rows of parts that are no primitive's. SLOWER: by how much operators take longer in the step. BEYOND: how much
longer a GPU runs kernels of the step than those of its parts alone: they are slower behind others, or of no part.
"""


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
    """Whether it was measured on several inputs in turn, since the step touches more between two uses of its data than
    a call does.
    """
    busy_s: float | None = None
    """Time of the kernels of one call; None where they were not traced."""
    in_step: str = ""
    """Why it was not measured by itself; "" where it was, or nothing is known of its time. device_s is what it took in
    the captured step, and the host's time is in that.
    """
    waits: bool = False
    """Whether a call of it returns once the GPU is done."""
    between_ranks: bool = False
    """Whether several ranks exchange something in it, or one waits until they have."""

    @property
    def is_measured(self) -> bool:
        """Whether it was by itself."""
        return not self.reason and not self.in_step

    @property
    def all_s(self) -> float:
        """Of its calls on the device, as far as known."""
        return self.calls * (self.device_s or 0.0)


def at_once(parts: Sequence[Part], timed: Timed | None) -> Sequence[Part]:
    """As the device had them, where threads of the step may have had some run at the same time as others: all as much
    shorter as it was busy.
    """
    all_s, busy_s = sum(part.all_s for part in parts), timed and timed.helpers and timed.on_gpu_s
    if not busy_s or all_s <= busy_s:
        return parts
    return [each._replace(device_s=each.device_s and each.device_s * busy_s / all_s) for each in parts]


def is_exposure_known(timed: Timed | None) -> TypeGuard[Timed]:
    """Whether it is known how long of a step what ranks exchange ran while nothing that computes did."""
    return timed is not None and any(timed.ranks_s)


def row_of(part: Part, timed: Timed | None) -> str:
    """The row of the step's table that a part counts in."""
    return COLLECTIVES if part.between_ranks and is_exposure_known(timed) else part.row


def in_operators(parts: Sequence[Part], timed: Timed | None) -> Sequence[Part]:
    """Without what ranks exchange by their CPUs, where its time is told apart from that in operators."""
    if not is_exposure_known(timed) or timed.host_s is not None:
        return parts
    return [part for part in parts if not part.between_ranks]


def beginning_s(parts: Sequence[Part], timed: Timed | None) -> float:
    """How long the operators were under way that begin what ranks exchange, which in_operators() leaves out."""
    left = {part.label for part in parts} - {part.label for part in in_operators(parts, timed)}
    return sum(timed.operators_s.get(label, 0.0) for label in left) if timed else 0.0


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
    enqueue_s = median_s(records, lambda found: found.enqueue_s)
    host_s = median_s(records, lambda found: found.enqueue_s or found.batch_s or found.stream_s)
    waits = enqueue_s is None and case.on.is_gpu
    row = _row_of(case)
    label, calls = case.labels.get("label", case.primitive), int(case.labels.get("count", "1"))
    is_far = any(each.cache != each.case.method.cache for each in records)
    if host_s is not None and _leaves_gpu_alone(records):
        return Part(row, label, calls, 0.0, host_s, "", disturbances(records), is_far, 0.0)
    device_s, busy_s = (median_s(records, of) for of in (device_time, lambda found: found.busy_s))
    reason = "" if device_s is not None else why_unknown(records)
    found = Part(
        row, label, calls, device_s, host_s, reason, disturbances(records), is_far, busy_s,
        waits=waits, between_ranks=_is_between_ranks(case),
    )  # fmt: skip
    return _or_in_step(found, case) if reason else found


def _leaves_gpu_alone(records: Sequence[Record]) -> bool:
    """Whether a GPU computes nothing of it: a view, or what is done with a tensor that is on the host."""
    case, measured = records[0].case, [each.measurement for each in records if each.measurement]
    launches_nothing = bool(measured) and all(each.nodes_per_call == 0 for each in measured)
    return case.on.is_gpu and (launches_nothing or bool(case.parameters.get("host_only")))


def _is_between_ranks(case: Case) -> bool:
    ranks = case.parameters.get("ranks", 1)
    return isinstance(ranks, int) and ranks > 1


def _is_wait_for_ranks(case: Case) -> bool:
    return is_wait_for_ranks(profiled_name(str(case.parameters.get("operator", ""))))


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


def _or_in_step(part: Part, case: Case) -> Part:
    """As it took in the captured step, where its labels say."""
    took_ns = case.labels.get("in_step_ns")
    if took_ns is None:
        return part
    found = _in_step(part.label, part.calls, int(took_ns) * 1e-9, part.reason)
    return found._replace(between_ranks=part.between_ranks or _is_wait_for_ranks(case))


def _left_out(each: NotCalledAgain) -> Part:
    if each.seconds is None:
        return Part("", each.name, each.calls, None, None, each.reason, [])
    found = _in_step(each.name, each.calls, each.seconds / each.calls, each.reason)
    return found._replace(between_ranks=is_collective_on_host(f"c10d::{each.name}"))


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


def slowest(timed: Timed, parts: Sequence[Part], shown_s: float) -> tuple[str, float] | None:
    """The operator that has half and more of what operators take longer in the step than alone, by its calls under the
    profiler and alone, and its share of ``shown_s``, which the step has room for of that. None of those that may wait
    for the GPU or for ranks, nor one that seems to have more than there is.
    """
    alone_s = dict[str, float]()
    for part in in_operators(parts, timed):
        alone_s[part.label] = alone_s.get(part.label, 0.0) + part.calls * (part.host_s or part.device_s or 0.0)
    begun_s = beginning_s(parts, timed)
    all_s = slower_s(timed, sum(alone_s.values()) + begun_s, is_least=any(part.reason for part in parts))
    for part in parts:
        if part.waits or part.between_ranks:
            alone_s[part.label] = math.inf
    longer = {name: time_s - alone_s.get(name, 0.0) for name, time_s in timed.operators_s.items()}
    most = max(longer, key=lambda name: longer[name], default="")
    if not all_s < 2 * longer.get(most, 0.0) < 3 * all_s:
        return None
    return most, shown_s * min(longer[most] / all_s, 1.0)
