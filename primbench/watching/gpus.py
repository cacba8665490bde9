"""What the GPUs of a job do, by NVML: those on which one of its processes has a context.

How much the driver says is up to 1 s old: it averages utilisation over as long (nvml.h, nvmlUtilization_t). GPM's
counters, from Hopper on, are of the time since the look before.
"""

from __future__ import annotations

import math
import time
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from primbench.doctor.job import GpuUse
from primbench.gpu.nvidia import gpm
from primbench.gpu.nvidia.counters import load_of
from primbench.gpu.nvidia.nvml import NvmlDevice, ask, boards, library, read_fields
from primbench.gpu.nvidia.processes import processes_on
from primbench.system.files import attempt
from primbench.system.pci import link_bytes_per_s

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from primbench.measurement.readings import GpuProcess


ASK_AGAIN_S = 5.0  # at boards that no process of the job held, once it holds one


class _Known(NamedTuple):
    """What does not change of a GPU."""

    facts: dict[str, Any]
    """Fields of GpuUse."""
    shares: gpm.ReadShares | None
    """What tells shares of the time since the look before; None, and why each is unknown, where it has no such
    counters.
    """
    unknown: dict[str, str]
    missing: dict[str, str]
    """Why facts are unknown."""


class GpuReader:
    """A look at the GPUs of processes, a call each. samples: of counters, which it holds.

    Each query takes locks of the driver, under which the job may have to wait for its own: what stays as it is it asks
    once, and others' boards, once the job has its own, every few seconds.
    """

    def __init__(self, there: Sequence[NvmlDevice], samples: ExitStack) -> None:
        self._there, self._samples = there, samples
        self._known: dict[NvmlDevice, _Known] = {}
        self._held: list[NvmlDevice] = []
        self._asked_s, self._pids = -math.inf, frozenset[int]()

    def __call__(self, pids: Collection[int]) -> list[GpuUse]:
        """Raises LookupError."""
        held = {gpu: there for gpu in self._asked(frozenset(pids)) if (there := processes_on(gpu)).keys() & {*pids}}
        self._held = [*held]
        return [self._use(gpu, there, pids) for gpu, there in held.items()]

    def _asked(self, pids: frozenset[int]) -> Sequence[NvmlDevice]:
        """Of all boards a process that has just come may hold one."""
        is_due = time.monotonic() - self._asked_s >= ASK_AGAIN_S
        if self._held and not is_due and pids <= self._pids:
            return self._held
        self._asked_s, self._pids = time.monotonic(), pids
        return self._there

    def _use(self, gpu: NvmlDevice, there: dict[int, GpuProcess], pids: Collection[int]) -> GpuUse:
        if gpu not in self._known:
            self._known[gpu] = _known(gpu, self._samples)
        return _use(gpu, there, pids, self._known[gpu])


def _known(gpu: NvmlDevice, samples: ExitStack) -> _Known:
    missing: dict[str, str] = {}
    unknown: dict[str, str] = {}
    facts = {"uuid": ask("nvmlDeviceGetUUID", gpu.handle), **read_fields(_FACTS, gpu, missing)}
    return _Known(facts, samples.enter_context(gpm.shares(gpu, unknown, gpm.EVERY)), unknown, missing)


def _use(gpu: NvmlDevice, there: dict[int, GpuProcess], pids: Collection[int], known: _Known) -> GpuUse:
    missing = dict(known.missing)
    load = load_of(gpu)
    reasons = load.clocks_event_reasons
    return GpuUse(
        **known.facts,
        **_usage(gpu, missing),
        **_counted(gpu, known.shares, known.unknown, missing),
        sm_clock_hz=load.sm_clock_hz,
        power_w=load.power_w,
        temperature_c=load.temperature_c,
        held_by=None if reasons is None else dict.fromkeys(reasons, 1.0),
        own=[pid for pid in there if pid in pids],
        others=[process for pid, process in there.items() if pid not in pids],
        missing=missing | {name: load.missing[name] for name in _OF_LOAD if name in load.missing},
    )


def _usage(gpu: NvmlDevice, missing: dict[str, str]) -> dict[str, Any]:
    """Two fields of each answer."""
    calls = ("nvmlDeviceGetUtilizationRates", "nvmlDeviceGetMemoryInfo")
    rates, memory = (cache(partial(ask, call, gpu.handle)) for call in calls)
    readers: dict[str, Callable[[], Any]] = {
        "busy_fraction": lambda: rates().gpu / _PERCENT,
        "memory_fraction": lambda: rates().memory / _PERCENT,
        "memory_used_bytes": lambda: memory().used,
        "memory_bytes": lambda: memory().total,
    }
    return {name: attempt(missing, name, read) for name, read in readers.items()}


def _counted(
    gpu: NvmlDevice, shares: gpm.ReadShares | None, unknown: Mapping[str, str], missing: dict[str, str]
) -> dict[str, Any]:
    """By GPM; what went over PCIe else by NVML, which looks at 20 ms of it."""
    reasons = dict(unknown)
    found = {} if shares is None else shares(reasons)
    counted = {field: found.get(name) for field, name in _OF_GPM.items()}
    missing |= {field: reasons[name] for field, name in _OF_GPM.items() if name in reasons}
    return counted | (read_fields(_SAMPLED, gpu, missing) if shares is None else {})


_OF_LOAD = ("sm_clock_hz", "power_w", "temperature_c")
_PERCENT = 100
_THROUGHPUT_UNIT_BYTES = 1024  # nvmlDeviceGetPcieThroughput counts KB of as many, over 20 ms


def _throughput(counter: str) -> Callable[[NvmlDevice], float]:
    return lambda gpu: (
        _THROUGHPUT_UNIT_BYTES * ask("nvmlDeviceGetPcieThroughput", gpu.board, getattr(library(), counter))
    )


def _link_bytes_per_s(gpu: NvmlDevice) -> float:
    generation = ask("nvmlDeviceGetMaxPcieLinkGeneration", gpu.board)  # an idle link may be at a lower one
    return link_bytes_per_s(generation, ask("nvmlDeviceGetCurrPcieLinkWidth", gpu.board))


_OF_GPM = {
    "sm_active_fraction": "sm_active_fraction",
    "tensor_active_fraction": "tensor_active_fraction",
    "dram_bandwidth_fraction": "dram_bandwidth_fraction",
    "pcie_sent_bytes_per_s": "pcie_tx_bytes_per_s",
    "pcie_received_bytes_per_s": "pcie_rx_bytes_per_s",
    "nvlink_sent_bytes_per_s": "nvlink_tx_bytes_per_s",
    "nvlink_received_bytes_per_s": "nvlink_rx_bytes_per_s",
}
_SAMPLED: dict[str, Callable[[NvmlDevice], Any]] = {
    "pcie_sent_bytes_per_s": _throughput("NVML_PCIE_UTIL_TX_BYTES"),
    "pcie_received_bytes_per_s": _throughput("NVML_PCIE_UTIL_RX_BYTES"),
}
_FACTS: dict[str, Callable[[NvmlDevice], Any]] = {
    "name": lambda gpu: ask("nvmlDeviceGetName", gpu.handle),
    "sm_clock_max_hz": lambda gpu: ask("nvmlDeviceGetMaxClockInfo", gpu.board, library().NVML_CLOCK_SM) * 1e6,
    "pcie_link_bytes_per_s": _link_bytes_per_s,
}
_AVERAGED = ("busy_fraction", "memory_fraction", "sm_clock_hz", "power_w", "temperature_c", *_OF_GPM)


def together(looks: Sequence[list[GpuUse] | None]) -> list[GpuUse] | None:
    """Each GPU once, averaged over the looks at it; None where none was possible."""
    known = [look for look in looks if look is not None]
    found: dict[str, list[GpuUse]] = {}
    for gpu in (gpu for look in known for gpu in look):
        found.setdefault(gpu.uuid, []).append(gpu)
    return [_average(each) for each in found.values()] if known else None


def _average(looks: Sequence[GpuUse]) -> GpuUse:
    averaged = {name: _mean([(getattr(look, name), look.looks) for look in looks]) for name in _AVERAGED}
    averaged["looks"] = sum(look.looks for look in looks)
    own = dict.fromkeys(pid for look in looks for pid in look.own)
    others = {process.pid: process for look in looks for process in look.others}
    return replace(looks[-1], **averaged, held_by=_held_by(looks), own=[*own], others=[*others.values()])


def _held_by(looks: Sequence[GpuUse]) -> dict[str, float] | None:
    told = [(look.held_by, look.looks) for look in looks if look.held_by is not None]
    reasons = dict.fromkeys(reason for held_by, _ in told for reason in held_by)
    shares = {reason: _mean([(held_by.get(reason, 0.0), looks) for held_by, looks in told]) for reason in reasons}
    return {reason: share for reason, share in shares.items() if share is not None} if told else None


def _mean(values: Sequence[tuple[float | None, int]]) -> float | None:
    """Of values with their weights."""
    known = [(value, weight) for value, weight in values if value is not None]
    return sum(value * weight for value, weight in known) / sum(weight for _, weight in known) if known else None


@contextmanager
def reader() -> Iterator[tuple[Callable[[Collection[int]], list[GpuUse] | None], str | None]]:
    """What reads GPUs, and None; where NVML cannot be used what finds none, and why: each try would take a while."""
    missing: dict[str, str] = {}
    there = attempt(missing, "gpus", boards)
    if there is None:
        yield lambda pids: None, missing["gpus"]
        return
    with ExitStack() as samples:
        read = GpuReader(there, samples)
        yield lambda pids: attempt({}, "gpus", partial(read, pids)), None
