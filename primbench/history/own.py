"""Results files as runs of series: a point a case and metric, the median over its processes."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from primbench.baselines.yardstick import key_of, median_s
from primbench.compare.sessions import began
from primbench.history.series import DISTURBANCES, Observed, RunSurroundings, RunValue
from primbench.results import file as results_file
from primbench.results.cpu_speed import speed
from primbench.results.metrics import METRICS, Metric
from primbench.results.record import model_of
from primbench.spec.naming import name_of
from primbench.system.meaning import FactId

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
    from pathlib import Path

    from primbench.results.file import Results
    from primbench.results.record import Header, Record, Worker

COMPARED = [each for each in METRICS.values() if each.is_compared and each.is_median]


def observed(path: Path, told: Callable[[str, Exception], None]) -> Observed:
    """told: of a damage behind its header, once it is read. Raises FileError where that is none."""
    header = results_file.read_header(path)
    time = began(header.started_utc)
    boot = header.environment.machine.boot_id

    def read() -> Sequence[RunValue]:
        results, damage = results_file.read_in_part(path)
        if damage is not None:
            told(str(path), damage)
        return [*_observations(results)]

    return Observed(file=str(path), time=time, boot=boot, started=time, labels=header.labels, read=read)


def _observations(results: Results) -> Iterator[RunValue]:
    workers = {each.worker: each for each in results.workers}
    facts = _facts(results.header)
    of_header = RunSurroundings(results.header.environment, facts)
    around = {number: RunSurroundings(each.environment, facts) for number, each in workers.items()}
    for key, (metric, records) in _by_series(results, workers).items():
        first = records[0]
        worker = _worker(workers, first)
        times_s = [time_s for each in records if (time_s := median_s(each, metric))]
        yield RunValue(
            key=key, name=_name(first), metric=metric.name, machine=(model_of(worker) if worker else None) or "",
            estimate_s=median(times_s), surroundings=around[worker.worker] if worker else of_header,
            readings=_readings(first),
        )  # fmt: skip


def _worker(workers: Mapping[int, Worker], record: Record) -> Worker | None:
    return None if record.worker is None else workers.get(record.worker)


def _by_series(results: Results, workers: Mapping[int, Worker]) -> dict[Hashable, tuple[Metric, list[Record]]]:
    found: dict[Hashable, tuple[Metric, list[Record]]] = {}
    for record in results.latest():
        if record.status != "ok" or record.measurement is None:
            continue
        worker = _worker(workers, record)
        for metric in COMPARED:
            samples = metric.distinct_samples(record.measurement)
            if samples is not None and samples.median_s > 0:
                place = (record.case.arm, record.case.placement, _machine(worker))
                found.setdefault((key_of(record.case, metric), place), (metric, []))[1].append(record)
    return found


def _machine(worker: Worker | None) -> Hashable:
    """What is another machine where it is another: models and how many CPUs there are, and nothing that is updated."""
    if worker is None:
        return None
    machine = worker.environment.machine
    return model_of(worker), machine.cpu_model, machine.architecture, machine.cpus_total


def _name(record: Record) -> str:
    arm = f" in {record.case.arm}" if record.case.arm else ""
    return f"{name_of(record.case)}{arm}"


def _facts(header: Header) -> dict[FactId, Any]:
    kernels = {FactId("kernels", path): digest for path, digest in header.kernels.items()}
    return kernels | {FactId("labels", name): value for name, value in header.labels.items()}


def _readings(record: Record) -> dict[FactId, float]:
    measured = record.measurement
    if measured is None or measured.main is None:
        return {}
    loops = speed([loop_s for _, loop_s in measured.main.loops_s])
    gpu = measured.gpu
    found = {
        "cpu_loop_s": loops.full_s if loops else None,
        "sm_clock_hz": gpu.sm_clock_hz if gpu else None,
        "memory_clock_hz": gpu.memory_clock_hz if gpu else None,
    }
    disturbed = {FactId(DISTURBANCES, each.kind.split()[0]): 1.0 for each in record.disturbances}
    return disturbed | {FactId("readings", name): value for name, value in found.items() if value}
