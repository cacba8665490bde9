"""What the parts of a step add up to, beside the whole: three numbers, and where the time of a step goes."""

from __future__ import annotations

import operator
from collections import Counter
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from primbench.devices import Device
from primbench.results.step_explained import (
    COLLECTIVES,
    FAULTS,
    LAUNCHES,
    LOADING,
    NOT_MEASURED,
    PYTHON,
    QUEUING,
    RANKS,
    STEP,
    UNEXPLAINED,
    Explained,
    Number,
    SumRow,
)
from primbench.results.step_parts import (
    BEYOND,
    OTHERS,
    SLOWER,
    Part,
    at_once,
    beginning_s,
    by_case,
    device_time,
    disturbances,
    in_operators,
    is_exposure_known,
    measured_part,
    median_s,
    row_of,
    slowest,
    told_by_step,
    why_unknown,
    without_record,
)
from primbench.results.step_timed import Timed, of_device, slower_s
from primbench.spec.captured import PARTS, WHOLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from primbench.measurement import Measurement, Samples
    from primbench.results.record import Record
    from primbench.spec.captured import Captured


def totals(records: Iterable[Record]) -> dict[str, Explained]:
    """Of each set of cases that say how often a step makes their calls. records: of one place."""
    found = list(records)
    names = dict.fromkeys(each.case.labels.get("set", "") for each in found if "count" in each.case.labels)
    several = {name: explained(found, parts=name) for name in names}
    return {name: each for name, each in several.items() if each is not None}


def explained(
    records: Iterable[Record], steps: Timed | None = None, *, parts: str = PARTS, captured: Captured | None = None
) -> Explained | None:
    """Of the records of one suite in one place; several of a case, of several processes, count by their median.

    steps: as they ran, where no case is the whole. parts: the set that they are. captured: what its suite
    says of it. None where there are no parts.
    """
    several = list(records)
    calls = [measured_part(each) for each in by_case(several, parts)]
    if not calls:
        return None
    calls += without_record(calls, captured)
    device = several[0].case.device
    whole = next(iter(by_case(several, WHOLE)), [])
    on_gpu = Device.parse(device).is_gpu
    timed = None if whole else steps and of_device(steps, on_gpu=on_gpu)
    numbers, rows = (_on_gpu if on_gpu else _on_cpu)(calls, whole, timed)
    far = sum(part.calls for part in calls if part.is_far)
    found = _explained(device, calls, whole, numbers, rows)
    longer = timed and slowest(timed, calls, found.seconds(SLOWER))
    return replace(found, slowest=longer, timed=timed, far=far, **_labelled(calls, timed), **_unseen(captured))


def _unseen(captured: Captured | None) -> dict[str, int]:
    """What the step ran otherwise than its parts are measured."""
    return {name: getattr(captured, name, 0) for name in ("compiled", "cuda_graphs", "helpers")}


def _explained(
    device: str, parts: Sequence[Part], whole: Sequence[Record], numbers: list[Number], rows: list[SumRow]
) -> Explained:
    unmeasured = [(": ".join(filter(None, (part.label, part.reason))), part.calls) for part in parts if part.reason]
    return Explained(
        device=device,
        numbers=numbers,
        rows=rows,
        calls=sum(part.calls for part in parts),
        in_step=told_by_step(parts),
        unmeasured={reason: round(calls) for reason, calls in _summed(unmeasured).items()},
        disturbed_s=sum(part.all_s for part in parts if part.disturbances),
        disturbances=_disturbed_by(parts, whole),
    )


def _labelled(parts: Sequence[Part], timed: Timed | None) -> dict[str, Any]:
    """Of rows of which there is more to say what they are made of."""
    found: dict[str, Any] = {"others": _by_label(part for part in at_once(parts, timed) if part.row == OTHERS)}
    if not is_exposure_known(timed):
        return found
    alone = [part for part in parts if part.between_ranks and part.is_measured]
    found["collectives"] = _by_label(alone)
    if all(part.is_measured for part in parts):
        own_s = min(timed.ranks_s[0], timed.median_s)
        found["hidden_s"] = max(0.0, sum(part.all_s for part in alone) - own_s)
    return found


def _by_label(parts: Iterable[Part]) -> dict[str, float]:
    """Seconds, by name, the largest first."""
    found = _summed((part.label, part.all_s) for part in parts)
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _disturbed_by(parts: Sequence[Part], whole: Sequence[Record]) -> dict[str, list[str]]:
    largest = max((part for part in parts if part.disturbances), key=lambda part: part.all_s, default=None)
    found = {STEP: disturbances(whole), **({largest.label: largest.disturbances} if largest else {})}
    return {name: words for name, words in found.items() if words}


def _summed(amounts: Iterable[tuple[str, float]]) -> dict[str, float]:
    """By name."""
    found: dict[str, float] = {}
    for name, amount in amounts:
        found[name] = found.get(name, 0.0) + amount
    return found


def _total(parts: Sequence[Part], of: Callable[[Part], float | None]) -> float:
    return sum(part.calls * (of(part) or 0.0) for part in parts)


_device_s, _busy_s, _host_s = (operator.attrgetter(f"{name}_s") for name in ("device", "busy", "host"))


def _lacks(parts: Sequence[Part], of: Callable[[Part], float | None]) -> bool:
    return any(of(part) is None for part in parts)


def _by_name(parts: Sequence[Part], timed: Timed | None) -> list[SumRow]:
    """What a device does in the calls that were measured, the largest first. What ranks exchange takes of the step what
    it does while nothing else runs, where that is known: hidden, it may take any time.
    """
    calls: Counter[str] = Counter()
    for part in parts:
        if not part.reason:
            calls[row_of(part, timed)] += part.calls
    taken = _summed((row_of(part, timed), part.all_s) for part in parts if not part.reason)
    if is_exposure_known(timed):
        taken[COLLECTIVES] = timed.collectives_s
    largest = sorted((name for name in taken if taken[name]), key=lambda name: -taken[name])
    return [SumRow(name=name, seconds=taken[name], calls=calls[name]) for name in largest]


def _of_rows_s(rows: Iterable[SumRow]) -> float:
    return sum(row.seconds or 0.0 for row in rows)


def _left(parts: Sequence[Part], rest_s: float | None, known: Sequence[tuple[str, float]] = ()) -> list[SumRow]:
    """What no part accounts for. rest_s: None where the step's time is not known. known: what is known to be in it, as
    far as it leaves time for that: a GPU may compute meanwhile.
    """
    unmeasured = sum(part.calls for part in parts if part.reason)
    rows = [SumRow(name=NOT_MEASURED, seconds=None, calls=unmeasured)] if unmeasured else []
    if rest_s is None:
        return rows
    found = []
    for name, seconds in known:
        if (taken_s := min(seconds, rest_s)) > 0:
            found.append(SumRow(name=name, seconds=taken_s))
            rest_s -= taken_s
    return [*found, *rows, SumRow(name=UNEXPLAINED, seconds=None if unmeasured else round(rest_s, 15) + 0.0)]


def _waits(timed: Timed | None) -> list[tuple[str, float]]:
    """Of a script's step."""
    waits = [(LOADING, timed.waits_s), (RANKS, timed.waits_for_rank_s), (QUEUING, timed.queues_s)] if timed else []
    return [(name, seconds) for name, seconds in waits if seconds]


def _on_cpu(parts: Sequence[Part], whole: Sequence[Record], timed: Timed | None) -> tuple[list[Number], list[SumRow]]:
    """A CPU computes in the calls themselves: there is one number."""
    step_s = timed.median_s if timed else median_s(whole, device_time)
    parts_s = _total(parts, _device_s)
    numbers = [_number("step", parts_s, step_s, whole, is_least=_lacks(parts, _device_s))]
    # Last, since a part by itself is called by Python, too.
    operators = in_operators(parts, timed)
    alone_s = _total(operators, _device_s) + beginning_s(parts, timed)
    slower = slower_s(timed, alone_s, is_least=_lacks(operators, _device_s))
    own = [(PYTHON, timed.of_step(timed.between_s or 0.0)), (FAULTS, timed.faults_s), (SLOWER, slower)] if timed else []
    rows = _by_name(parts, timed)
    return numbers, [*rows, *_left(parts, step_s and step_s - _of_rows_s(rows), [*_waits(timed), *own])]


def _on_gpu(parts: Sequence[Part], whole: Sequence[Record], timed: Timed | None) -> tuple[list[Number], list[SumRow]]:
    """The step's period is what its kernels take, and what the GPU waits beside them: for launches, and for the rest of
    the host's time.
    """
    device_s, host_s = _total(parts, _device_s), _total(parts, _host_s)
    whole_device_s = median_s(whole, _at_work)
    whole_host_s = median_s(whole, lambda found: found.enqueue_s)
    all_host_s = _all_host_s(parts, whole_host_s, timed)
    step_s = timed.median_s if timed else median_s(whole, lambda found: found.stream_s)
    longer_s = max(device_s, host_s)
    on_device = _on_device(parts, whole, timed, is_least=_lacks(parts, _device_s))
    of_host_s = timed.work_s if timed else whole_host_s
    on_host = _number("host", host_s, of_host_s, whole, is_least=_lacks(parts, _host_s))
    both = _number("step", longer_s, step_s, whole, is_least=_lacks(parts, _device_s) or on_host.is_least)
    numbers = [on_device, on_host, both]
    rows = _by_name(at_once(parts, timed), timed)
    device_s = _of_rows_s(rows)
    calls = sum(part.calls for part in parts if not part.reason)
    if step_s is None:
        launches = SumRow(name=LAUNCHES, seconds=longer_s - device_s, calls=calls)
        return numbers, [*rows, launches, *_left(parts, None)]
    busy_s = _at_least_s(device_s, parts, timed)
    launches_s, between_s = _idle(step_s, whole_device_s or busy_s, host_s, all_host_s)
    rest_s = step_s - device_s - launches_s - (between_s or 0.0)
    slower = (SLOWER, slower_s(timed, host_s, may_wait_s=device_s, is_least=both.is_least))
    return numbers, [
        *rows,
        SumRow(name=LAUNCHES, seconds=launches_s, calls=calls),
        SumRow(name=PYTHON, seconds=between_s),
        *_left(parts, rest_s, [*_beyond(parts, device_s, busy_s, timed), *_waits(timed), slower]),
    ]


def _at_least_s(device_s: float, parts: Sequence[Part], timed: Timed | None) -> float:
    """How long a GPU computes in a step, which may run what no part has; NCCL's kernels wait for other ranks, too."""
    if timed is None or len(timed.ranks_s) > 1 or any(part.between_ranks for part in parts):
        return device_s
    return max(device_s, timed.on_gpu_s or 0.0)


def _beyond(parts: Sequence[Part], device_s: float, busy_s: float, timed: Timed | None) -> Iterator[tuple[str, float]]:
    """What a GPU ran of a step beside what its parts take alone, where all are known, and were measured there."""
    if timed and not timed.elsewhere and not _lacks(parts, _device_s):
        yield BEYOND, busy_s - device_s


def _at_work(found: Measurement) -> Samples | None:
    """For how long the GPU is: of concurrent kernels the sum says more."""
    return found.device_s if found.has_concurrent_kernels and found.device_s else found.busy_s or found.device_s


def _on_device(parts: Sequence[Part], whole: Sequence[Record], timed: Timed | None, *, is_least: bool) -> Number:
    """Kernels beside kernels where all were traced; else graphs beside a graph, with the gaps in between, or beside the
    kernels of a script's step.
    """
    busy_s = median_s(whole, lambda found: found.busy_s)
    if busy_s is not None and not _lacks(parts, _busy_s):
        return _number("busy", _total(parts, _busy_s), busy_s, whole, is_least=False)
    step_s = timed.on_gpu_s if timed else median_s(whole, lambda found: found.device_s or found.busy_s)
    return _number("device", _total(parts, _device_s), step_s, whole, is_least=is_least)


def _all_host_s(parts: Sequence[Part], whole_host_s: float | None, timed: Timed | None) -> float | None:
    """Of the step; of a script's, its calls that were measured and what lies between all of them, or where that is not
    known, all that its host does.
    """
    if timed is None:
        return None if _lacks(parts, _host_s) else whole_host_s
    if timed.between_s is None:
        return None if _lacks(parts, _host_s) else timed.work_s
    return _total(parts, _host_s) + timed.between_s


def _idle(step_s: float, device_s: float, host_s: float, whole_host_s: float | None) -> tuple[float, float | None]:
    """How long the GPU waits for launches, and for the rest of the host's time. device_s, whole_host_s: of the step."""
    waits_s = max(0.0, step_s - device_s)
    launches_s = min(waits_s, max(0.0, host_s - device_s))
    if whole_host_s is None:
        return launches_s, None
    return launches_s, min(waits_s - launches_s, max(0.0, whole_host_s - max(host_s, device_s)))


def _number(name: str, parts_s: float, step_s: float | None, whole: Sequence[Record], *, is_least: bool) -> Number:
    missing = None
    if step_s is None:
        missing = why_unknown(whole) if whole else "no case is all of it, nor were others like it timed as they ran"
    return Number(name=name, parts_s=parts_s or None, step_s=step_s, missing=missing, is_least=is_least)
