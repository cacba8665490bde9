"""What the processor shows of itself in here: vector instructions for libraries' kernels, or a program's imitation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.causes import OF_CODE, OF_THREADS
from primbench.doctor.cause import Cause, Finding, Suspect, listed, of
from primbench.system.meaning import FactId

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.compare.beside import Beside
    from primbench.compare.sides import Side
    from primbench.doctor.place import Place
    from primbench.environment.machine import Machine
    from primbench.environment.software import Blas
    from primbench.measurement.implementation import Implementation
    from primbench.results.record import Record

RANK = 4

AVX2 = "avx2"

# Kernels of OpenBLAS for processors that have no AVX2: its TargetList.txt.
OLD_KERNELS = {
    *("generic", "katmai", "coppermine", "northwood", "banias", "prescott", "core2", "penryn", "dunnington", "nehalem"),
    *("sandybridge", "atom", "nano", "athlon", "opteron", "opteron_sse3", "barcelona", "bobcat", "bulldozer"),
    *("piledriver", "steamroller"),
}


# A product of float16 took 8.26 ms by oneDNN's kernel and 15.5 s by its reference (pytorch/pytorch#193951).
TIMES = 1880.0
_OTHER = "other code of the libraries"
_NEITHER = "torch's own code, neither oneDNN nor MKL"


def vector_instructions(place: Place) -> Iterator[Finding]:
    """Whether libraries find the vector instructions for which they have their quick kernels, and take these."""
    if place.machine.vectors is not None and AVX2 not in place.machine.vectors:
        yield from _hidden(place.machine)
    else:
        yield from _left_aside(place.software.blas or [])


def _hidden(machine: Machine) -> Iterator[Finding]:
    """What a processor itself does not have, nobody hides."""
    if machine.virtualization in (None, "none"):
        return
    yield Finding(
        summary="the hypervisor shows no AVX2: libraries take the kernels of old processors, or end with SIGILL",
        evidence=[
            f"/proc/cpuinfo flags: {listed(machine.vectors or []) or 'no vectors'}",
            f"CPU: {machine.cpu_model or 'unknown'}",
        ],
        advice="let the virtual machine have the host's processor: -cpu host, in Proxmox the type 'host' in "
        "place of kvm64",  # t0mer/Find-my-kids#1, OpenMathLib/OpenBLAS#2306
    )


def _left_aside(loaded: list[Blas]) -> Iterator[Finding]:
    old = [blas for blas in loaded if (blas.architecture or "").lower() in OLD_KERNELS]
    if not old:
        return
    yield Finding(
        summary=f"{listed([blas.name for blas in old])} takes kernels for processors without AVX2, which this has",
        about=[FactId("software", "blas")],
        values=[blas.name for blas in old],
        evidence=[f"threadpoolctl: {blas.path}: {blas.architecture}" for blas in old],
        distorts=["everything on the CPU"],
        advice="unset OPENBLAS_CORETYPE, or take a newer build that knows this processor",
    )


def emulation(place: Place) -> Iterator[Finding]:
    """Whether a program interprets the instructions of this one, as where an image is of another architecture."""
    if place.machine.emulator in (None, "none"):
        return
    yield Finding(
        severity="problem",
        summary=f"{place.machine.emulator} stands in for an {place.machine.architecture} processor: it takes 10 to "
        "20 times as long",  # nextstrain/docker-base#35, docker/for-mac#6641
        values=[str(place.machine.emulator), place.machine.architecture],
        evidence=["/proc/thread-self/exe, /proc/cpuinfo", f"uname: {place.machine.architecture}"],
        advice=place.advice(
            "use programs of the machine's own architecture", engine="--platform of the machine, with an image of that"
        ),
    )


def sockets(place: Place) -> Iterator[Finding]:
    """Whether CPUs are shown as the cores of few sockets, by which some programs choose how many threads they start."""
    cores = place.machine.cores_by_package or []
    if len(cores) > 1 and set(cores) == {1}:
        yield Finding(
            summary=f"{len(cores)} sockets of one core each: programs that count sockets, or the cores of one, start "
            "too few threads or too many",
            values=[len(cores)],
            distorts=[],  # by itself, as those that count CPUs are none the slower
            evidence=[
                "/sys/devices/system/cpu/cpuN/topology/physical_package_id",
                f"a hypervisor's choice: {place.machine.virtualization or 'unknown'}",
            ],
            advice="let the virtual machine have its CPUs as the cores of one socket: cores=8,sockets=1 in place of "
            "sockets=8 (QEMU's -smp, libvirt's <topology>, Proxmox), cpuid.coresPerSocket (VMware)",
        )


def threads_by_sockets(beside: Beside) -> Iterator[Suspect]:
    """Sockets of one core in one place alone, where its libraries have other threads."""
    one, other = (_sockets(beside, each) for each in (beside.baseline, beside.side))
    if None in (one, other) or (one == 1) == (other == 1) or not _has_other_threads(beside):
        return
    of_arm = other == 1
    name = beside.side.name if of_arm else beside.baseline.name
    title = f"sockets of one core each in {name}"
    yield Suspect(f"{title}, by which programs choose other numbers of threads", title=title)


def _sockets(beside: Beside, side: Side) -> int | None:
    """How many cores the largest socket has, where there are several; 0 of one socket, None where it is not known."""
    worker = beside.worker(side)
    cores = worker.environment.machine.cores_by_package if worker else None
    return None if cores is None else max(cores) * (len(cores) > 1)


def _has_other_threads(beside: Beside) -> bool:
    changes = beside.differing.limits.changes if beside.differing else []
    return any(each.field[:2] == ("software", "threads") and each.kind == "differs" for each in changes)


def other_implementations(beside: Beside) -> Iterator[Suspect]:
    """A reference, or no library's code where the other place has some, makes nothing faster."""
    baseline, side = beside.baseline, beside.side
    one, other = (_taken(beside.records(each)) for each in (baseline, side))
    if one is None or other is None or one == other:
        return
    told = f"it takes {_only(other, one)} in {side.name}, {_only(one, other)} in {baseline.name}"
    if slow := _slow(other, one):
        title = f"{slow} in {side.name}"
        yield Suspect(f"{title}: {told}", 1.0, TIMES, title)
    elif slow := _slow(one, other):
        title = f"{slow} in {baseline.name}"
        yield Suspect(f"{title}: {told}", 1.0, TIMES, title).of_baseline()
    else:
        yield Suspect(f"{_OTHER}: {told}", 1 / TIMES, TIMES, _OTHER)


def _taken(records: Sequence[Record]) -> set[Implementation] | None:
    """In any process of a place; None where none of them says."""
    measured = [each.measurement for each in records if each.measurement]
    told = [each.implementations for each in measured if each.implementations is not None]
    return {implementation for each in told for implementation in each} if told else None


def _slow(here: set[Implementation], there: set[Implementation]) -> str | None:
    """What is known to be slow of what is taken here alone."""
    if not here:
        return "no code of oneDNN or MKL"
    return next((f"the reference code of {each.library}" for each in here - there if each.is_reference), None)


def _only(here: set[Implementation], there: set[Implementation]) -> str:
    return " and ".join(sorted(map(str, here - there))) or ("nothing besides" if here else _NEITHER)


CAUSES = (
    Cause("cpu-kernels", title="other code for the CPU", slows=("everything on the CPU",), works=OF_CODE, times=300.0,
          source="timed: products of float32 by SSE for AVX2 take 5 times as long, a loop without optimization 200 "
          "times",
          upstream=10, explains_away=("vector-instructions",), severity="warning",
          effect="a library takes other code for what it holds to be another CPU"),
    # After variables that choose code, before libraries and packages that bring it.
    Cause("implementations", upstream=12, between=other_implementations),
    Cause("vector-instructions", slows=("everything on the CPU", "data loading"), reads=of("machine", "vectors"),
          where=lambda place: place.machine.architecture == "x86_64", here=vector_instructions),
    # One CPU of 8 computed: ollama/ollama#7359.
    Cause("sockets", title="sockets of one core each", slows=("everything on the CPU",), works=OF_THREADS, upstream=8.5,
          reads=of("machine", "cores_by_package"), here=sockets, between=threads_by_sockets),
    Cause("emulation", slows=("start-up", "data loading", "launch", "copy", "everything on the CPU"), upstream=-1,
          explains_away=("machine", "kernel", "kernel-parameters", "mitigations", "clock", "system-calls",
                         "file-opens", "packets"),
          reads=of("machine", "emulator"), here=emulation),
)  # fmt: skip
