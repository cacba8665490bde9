"""A watched job in Prometheus' text format, for the textfile collector of its node exporter, and in OpenMetrics'.

Names and units as in its documentation, "Metric and label naming"; counters count from when watching began. OpenMetrics
1.0 names the family of a counter without "_total", and ends with a line that says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.doctor.job import GpuUse, Stretch

    _Labelled = Sequence[tuple[dict[str, str], object]]

PREFIX = "primbench_watch_"


class _Metric(NamedTuple):
    name: str
    kind: str
    words: str
    field: str

    @property
    def family(self) -> str:
        """As OpenMetrics calls it."""
        return self.name.removesuffix("_total")


_OF_JOB = (
    _Metric("cpu_seconds_total", "counter", "CPU time of the job's processes.", "cpu_time_s"),
    _Metric("migrations_total", "counter", "Moves of its threads to another CPU.", "migrations"),
    _Metric("context_switches_total", "counter", "Context switches of its threads.", "switches"),
    _Metric("minor_faults_total", "counter", "Page faults without reading.", "minor_faults"),
    _Metric("major_faults_total", "counter", "Page faults that read from a disk.", "major_faults"),
    _Metric("read_bytes_total", "counter", "Read from disks.", "read_bytes"),
    _Metric("written_bytes_total", "counter", "Written to disks.", "written_bytes"),
    _Metric("reread_bytes_total", "counter", "Of files, once taken out of memory.", "reread_bytes"),
    _Metric("swapped_in_bytes_total", "counter", "Swapped in again.", "swapped_in_bytes"),
    _Metric("quota_periods_total", "counter", "Periods of the CPU quota.", "periods"),
    _Metric("throttled_periods_total", "counter", "Periods in which it held back.", "throttled_periods"),
    _Metric("throttled_seconds_total", "counter", "How long it held back.", "throttled_s"),
    _Metric("cpu_waiting_seconds_total", "counter", "Some task waited for a CPU.", "cpu_waiting_s"),
    _Metric("memory_waiting_seconds_total", "counter", "Some task waited for memory.", "memory_waiting_s"),
    _Metric("io_waiting_seconds_total", "counter", "Some task waited for a disk.", "io_waiting_s"),
    _Metric("looks_total", "counter", "Looks at the states of threads.", "looks"),
    _Metric("processes", "gauge", "Processes of the job.", "process_count"),
    _Metric("threads", "gauge", "Threads of the job.", "thread_count"),
    _Metric("resident_bytes", "gauge", "Resident memory.", "memory_bytes"),
    _Metric("swapped_bytes", "gauge", "Swapped out.", "swapped_bytes"),
    _Metric("launches_per_second", "gauge", "Calls of the CUDA driver that launch.", "launches_per_s"),
)
_OF_BUSIEST = (
    _Metric("busiest_thread_run_seconds_total", "counter", "The thread that wanted a CPU most, on one.", "ran_s"),
    _Metric("busiest_thread_waited_seconds_total", "counter", "The same, waiting for one.", "waited_s"),
)
_OF_GPUS = (
    _Metric("gpu_busy_ratio", "gauge", "Of the time, in which a kernel ran.", "busy_fraction"),
    _Metric("gpu_memory_used_bytes", "gauge", "Memory in use.", "memory_used_bytes"),
    _Metric("gpu_sm_clock_hertz", "gauge", "Clock of the processors.", "sm_clock_hz"),
    _Metric("gpu_power_watts", "gauge", "Power.", "power_w"),
    _Metric("gpu_pcie_sent_bytes_per_second", "gauge", "Sent over PCIe.", "pcie_sent_bytes_per_s"),
    _Metric("gpu_pcie_received_bytes_per_second", "gauge", "Received over PCIe.", "pcie_received_bytes_per_s"),
    _Metric("gpu_sm_active_ratio", "gauge", "Of the SMs' time, in which they had work.", "sm_active_fraction"),
    _Metric("gpu_nvlink_sent_bytes_per_second", "gauge", "Sent over NVLink.", "nvlink_sent_bytes_per_s"),
    _Metric("gpu_nvlink_received_bytes_per_second", "gauge", "Received over NVLink.", "nvlink_received_bytes_per_s"),
)


def to_openmetrics(pid: int, whole: Stretch, gpus: list[GpuUse]) -> str:
    """As to_prometheus()."""
    lines = [line for metric, of in _of_all(pid, whole, gpus) for line in _lines(metric, metric.family, of)]
    return "\n".join([*lines, "# EOF"]) + "\n"


def to_prometheus(pid: int, whole: Stretch, gpus: list[GpuUse]) -> str:
    """whole: all that was watched by now. gpus: at the last look. What is unknown is left out."""
    lines = [line for metric, of in _of_all(pid, whole, gpus) for line in _lines(metric, metric.name, of)]
    return "\n".join(lines) + "\n"


def _of_all(pid: int, whole: Stretch, gpus: list[GpuUse]) -> Iterator[tuple[_Metric, _Labelled]]:
    job = {"pid": str(pid)}
    yield from ((metric, [(job, whole)]) for metric in _OF_JOB)
    if (busiest := whole.busiest) is not None:  # by its number, as another one's time is no more of the same counter
        thread = job | {"thread": str(busiest.number)}
        yield from ((metric, [(thread, busiest)]) for metric in _OF_BUSIEST)
    yield from ((metric, [(job | {"uuid": gpu.uuid}, gpu) for gpu in gpus]) for metric in _OF_GPUS)


def _lines(metric: _Metric, family: str, of: _Labelled) -> Iterator[str]:
    """family: by which it is described."""
    known = [(labels, value) for labels, each in of if (value := getattr(each, metric.field, None)) is not None]
    if known:
        yield f"# HELP {PREFIX}{family} {metric.words}"
        yield f"# TYPE {PREFIX}{family} {metric.kind}"
    for labels, value in known:
        told = ",".join(f'{label}="{text}"' for label, text in labels.items())
        yield f"{PREFIX}{metric.name}{{{told}}} {value!r}"
