"""Do whole models take as long as when a file of them was kept, and how busy is the GPU in a step of theirs?

The kept cases are measured once more, in a process for each model, those first that took the least; at the end, how
many agree within 1 %, of those with as many kernels as then and of the others. With --twice two processes in a row
measure each model, and are compared with one another instead: that needs no GPU of the same kind. With --busy, in how
many the GPU is busy for 0.95 to 1.02 of its own time, by what CUPTI logs in a process of its own, which sets each step
up once more. There each kernel is launched by itself, and in a graph the next one begins sooner, so that beside each
ratio stands by how much that is a kernel. Steps whose kernels run beside each other are told, and not counted. No model
is begun that by then would pass --budget; ended by SIGTERM, it counts those that were measured.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from primbench.results import file as results_file
from primbench.results.metrics import METRICS, main_of
from primbench.results.record import Record, model_of
from primbench.units import format_time
from primbench.workers.session import Session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.measurement import Measurement
    from primbench.problem import Value
    from primbench.results.record import Worker
    from primbench.spec.method import Method

KEPT = Path(__file__).parents[1] / "suites/reference/h200-models-torch.jsonl"
AGREE, BUSY = 0.01, (0.95, 1.02)
MIN_TIME_S, MAX_TIME_S = 0.05, 0.5
TRACED = 2.0  # times as long as without: what is traced is set up by another process, as is a second run
START_S = 6.0  # of a process


def chosen(asked: argparse.Namespace) -> list[Record]:
    """The records that are to be measured again."""
    kept = [record for record in results_file.read(asked.kept).records if record.measurement]
    wanted = {"network": asked.names, "mode": asked.mode, "dtype": asked.dtype}
    return [
        record
        for record in kept
        if all(not values or record.case.parameters[name] in values for name, values in wanted.items())
        and (not asked.batch or (record.case.parameters["batch_size"] == 1) == (asked.batch == "1"))
    ]


def again(kept: Sequence[Record], budget_s: float, *, busy: bool, twice: bool) -> Iterator[tuple[Record, Record]]:
    """A kept record and the new one, or two new ones, as far as there is time."""
    end_s = time.monotonic() + budget_s
    for records in _by_model(kept):
        needed_s = (TRACED if busy or twice else 1) * (START_S + sum(record.duration_s for record in records))
        if time.monotonic() + needed_s <= end_s:
            earlier = [*_measured(records, busy=False)] if twice else records
            yield from zip(earlier, _measured(records, busy=busy), strict=True)


def _by_model(kept: Sequence[Record]) -> list[list[Record]]:
    """The quickest model first."""
    models: dict[Value, list[Record]] = {}
    for record in kept:
        models.setdefault(record.case.parameters["network"], []).append(record)
    return sorted(models.values(), key=lambda records: sum(record.duration_s for record in records))


def _measured(records: Sequence[Record], *, busy: bool) -> Iterator[Record]:
    """The same cases, in a process of their own."""
    cases = [replace(record.case, method=_shorter(record.case.method)) for record in records]
    with Session(trace=busy) as session, closing(session.run(cases)) as lines:
        for line in lines:
            if isinstance(line, Record):
                yield line
            else:
                _say_where(line)


def _shorter(method: Method) -> Method:
    return replace(method, min_time_s=MIN_TIME_S, max_time_s=MAX_TIME_S)


def _say_where(worker: Worker) -> None:
    print(f"on {model_of(worker) or worker.device}, torch {worker.versions.get('torch')}", flush=True)


class Again(NamedTuple):
    """Of a case: what is printed, its time over the kept one, whether with as many kernels, and for how much of it the
    GPU is busy, if they run one by one."""

    words: str
    ratio: float | None = None
    alike: bool = False
    busy: float | None = None


def compared(kept: Record, new: Record) -> Again:
    parameters = kept.case.parameters
    name = " ".join(str(parameters[each]) for each in ("network", "mode", "batch_size", "dtype"))
    before, now = kept.measurement, new.measurement
    metric = main_of(before)
    found = metric.samples(now) if metric else None
    if metric is None or found is None or before is None or now is None or (held := metric.samples(before)) is None:
        return Again(f"{name}: {new.status}: {new.reason or 'no such time'}")
    ratio, (share, busy) = found.median_s / held.median_s, _busy(now)
    nodes, kept_nodes = now.nodes_per_call, before.nodes_per_call
    words = f"{METRICS[metric.name].heading} {format_time(found.median_s)}, before {format_time(held.median_s)}"
    words += f", {ratio:.4f}{'' if abs(ratio - 1) <= AGREE else ' !'}"
    words += "" if nodes == kept_nodes else f" ({_count(nodes)} kernels, {_count(kept_nodes)} before)"
    return Again(f"{name}: {words}{share}", ratio, nodes == kept_nodes, busy)


def _count(nodes: float | None) -> str:
    return "unknown" if nodes is None else f"{nodes:.0f}"


def _busy(found: Measurement) -> tuple[str, float | None]:
    """In words, and over its own time; None where kernels run beside each other, whose times add up to more."""
    trace = found.trace
    if trace is None or found.device_s is None:
        return "", None
    share = trace.busy_s.median_s / found.device_s.median_s
    words = f", busy / device {share:.3f}"
    if (gap_s := found.gap_per_kernel_s) is not None:
        return f"{words}, {-gap_s * 1e6:+.2f} us for each of {trace.kernels_per_call:.0f} kernels", share
    overlap = (trace.overlapped_s or 0.0) / trace.busy_s.median_s
    path = f"{_count(found.longest_path_per_call)} of {_count(found.nodes_per_call)} nodes on the longest path"
    return f"{words}, {path}, {overlap:.0%} of busy concurrent", None


def _agreeing(ratios: Sequence[float]) -> str:
    return f"{sum(abs(ratio - 1) <= AGREE for ratio in ratios)} of {len(ratios)}"


def _unwind(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # `timeout` sends it twice
    raise KeyboardInterrupt


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="of models; all, where none is named")
    parser.add_argument("--kept", type=Path, default=KEPT, help="a results file of primbench model")
    parser.add_argument("--budget", type=float, default=280.0, help="seconds")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--busy", action="store_true", help="trace each as well")
    how.add_argument("--twice", action="store_true", help="compare two runs in a row instead")
    parser.add_argument("--mode", action="append", choices=("train", "inference"))
    parser.add_argument("--dtype", action="append", choices=("float32", "bfloat16"))
    parser.add_argument("--batch", choices=("original", "1"))
    asked = parser.parse_args()
    kept, found = chosen(asked), list[Again]()
    signal.signal(signal.SIGTERM, _unwind)
    with contextlib.suppress(KeyboardInterrupt):
        for before, now in again(kept, asked.budget, busy=asked.busy, twice=asked.twice):
            found.append(compared(before, now))
            print(found[-1].words, flush=True)
    alike = [each.ratio for each in found if each.ratio is not None and each.alike]
    others = [each.ratio for each in found if each.ratio is not None and not each.alike]
    what = "the run before" if asked.twice else "what was kept"
    print(f"within {AGREE:.0%} of {what}: {_agreeing(alike)} with as many kernels, {_agreeing(others)} others")
    print(f"{len(kept) - len(found)} of {len(kept)} not run")
    shares = [each.busy for each in found if each.busy is not None]
    if shares:
        fitting = sum(BUSY[0] <= share <= BUSY[1] for share in shares)
        print(f"busy / device from {BUSY[0]} to {BUSY[1]} in {fitting} of {len(shares)} whose kernels run one by one")


if __name__ == "__main__":
    main()
