"""What stands between this process and the kernel: filters, security modules, another kernel, the root file system."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.causes import OF_FILES, ON_CPU
from primbench.causes._job_cpus import is_traced, kernel_time
from primbench.compare.dear_calls import dear_calls, dearer_opens
from primbench.compare.filters import filters
from primbench.doctor.cause import Cause, Finding, listed, of
from primbench.environment.costs import SLOW_CALLS_S, SLOW_SYSTEM_CALL_S
from primbench.environment.filesystems import NETWORK_LIKE
from primbench.system.meaning import FactId
from primbench.system.sandbox import GVISOR
from primbench.units import format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.doctor.place import Place
    from primbench.spec.setting import Activity

RANK = 6

# The kernel from which a seccomp filter alone no longer switches this mitigation on: Linux 5.16, spec_store_bypass.
FREE_OF_SECCOMP = (5, 16)
SLOW_OPEN_S = 10e-6  # opening a file and closing it takes 1 to 4 us, and with a scanner that reads its head 12
SLOW_PACKET_S = 15e-6  # a datagram to oneself takes 4 to 8 us, and 22 behind 3000 rules of a firewall
MANY_INTERRUPTIONS_HZ = 2500  # Linux' own clock interrupts a busy CPU 100 to 1000 times a second
WHAT_CALLS_DO = {
    "mmap": "mapping a page and unmapping it",
    "clone": "starting a thread",
    "futex": "waking nobody (futex)",
}
IN_LAYERS = ("overlay", "squashfs", "aufs", "erofs")


def runtime(place: Place) -> Iterator[Finding]:
    """Which runtime this process is in."""
    found = place.confinement.runtime
    if found is None or found.name is not None:
        return
    yield Finding(
        severity="note",
        summary="this is some container" if found.in_container else "whether this is a container cannot be told",
        values=[str(found.in_container)],
        evidence=found.evidence,
        advice="the advice here is for no runtime in particular; PRIMBENCH_RUNTIME=name in the environment says which",
    )


def speculation(place: Place) -> Iterator[Finding]:
    """Whether being filtered makes every load and branch of this process slower, as it did by default before 5.16."""
    switched = [
        f"{label}: {words}"
        for label, words in (
            ("Speculation_Store_Bypass", place.confinement.speculation_store_bypass),
            ("SpeculationIndirectBranch", place.confinement.speculation_indirect_branch),
        )
        if words in ("thread force mitigated", "thread mitigated", "conditional force disabled", "conditional disabled")
    ]
    if not switched:
        return
    kernel = place.machine.kernel
    by_filter = place.confinement.seccomp == "filter"
    old = place.kernel_version is not None and place.kernel_version < FREE_OF_SECCOMP
    why = "because it has a seccomp filter" if by_filter and old else "for this process alone"
    yield Finding(
        summary=f"the kernel mitigates speculation {why}: Python and launching take 15 to 50 % longer",
        values=[int(by_filter and old)],
        evidence=[f"{place.proc}/status: {line}" for line in switched]
        + [f"seccomp: {place.confinement.seccomp or 'unknown'}, kernel {kernel}"],
        at_most=2.0,
        advice=place.advice(
            "boot the host with spec_store_bypass_disable=prctl spectre_v2_user=prctl, or run Linux 5.16 or newer",
            engine="--security-opt seccomp=unconfined",
        ),
    )


def system_calls(place: Place) -> Iterator[Finding]:
    """What a system call costs. Launches in steady state make none; allocating, registering and start-up make many."""
    cost_s = place.confinement.system_call_s
    slow = {name: each_s for name, each_s in (place.confinement.calls_s or {}).items() if each_s > SLOW_CALLS_S[name]}
    if cost_s is not None and cost_s > SLOW_SYSTEM_CALL_S:
        yield _dear(place, f"a cheap system call takes {format_time(cost_s)}", cost_s, "getppid", "system_call_s")
    elif slow:
        name, each_s = max(slow.items(), key=lambda each: each[1] / SLOW_CALLS_S[each[0]])
        yield _dear(place, f"{WHAT_CALLS_DO[name]} takes {format_time(each_s)}", each_s, name, "calls_s", name)


def _dear(place: Place, what: str, reading_s: float, call: str, *fact: str) -> Finding:
    count = place.confinement.seccomp_filters
    return Finding(
        summary=f"{what}: a filter, a tracer or a sandbox looks at each",
        about=[FactId("confinement", *fact)],
        values=[call],
        reading=reading_s,
        evidence=[
            f"{call}, timed",
            f"seccomp: {place.confinement.seccomp or 'unknown'}"
            + (f", {count} filters one behind the other" if count else ""),
        ],
        advice=place.advice(
            "see whether a tracer (strace, proot) or a sandboxed kernel is at work",
            engine="--security-opt seccomp=unconfined",
        ),
    )


def file_opens(place: Place) -> Iterator[Finding]:
    """What opening a file costs: scanners for viruses, sandboxes and file systems that are programs look at each."""
    yield from _slow_open("open_file_s", place.confinement.open_file_s, "a file", "the interpreter", None)
    temporary = "a temporary file"
    yield from _slow_open(
        "open_temporary_s", place.confinement.open_temporary_s, temporary, temporary, ["data loading"]
    )


def _slow_open(
    field: str, cost_s: float | None, what: str, of_what: str, distorts: list[Activity] | None
) -> Iterator[Finding]:
    if cost_s is not None and cost_s > SLOW_OPEN_S:
        yield Finding(
            about=[FactId("confinement", field)],
            summary=f"opening {what} takes {format_time(cost_s)}: a scanner, a filter or another program looks at each",
            reading=cost_s,
            evidence=[f"open() and close() of {of_what}, timed"],
            distorts=distorts,
            advice="see whether a scanner watches files (fanotify), a filter hands calls to a program, or FUSE is used",
        )


def packets(place: Place) -> Iterator[Finding]:
    """What a packet costs between processes of this machine: rules of a firewall and agents look at each."""
    cost_s = place.confinement.packet_s
    if cost_s is not None and cost_s > SLOW_PACKET_S:
        yield Finding(
            summary=f"a packet to this process itself takes {format_time(cost_s)}: a firewall of many rules, or a "
            "program in the kernel, looks at each, or a sandbox hands them on",
            reading=cost_s,
            evidence=["a datagram of one byte by the loopback, timed"],
            advice="let the first rule accept what comes by lo (nft list ruleset and iptables -S show them), and see "
            "what is attached to the network (bpftool net)",
        )


def interruptions(place: Place) -> Iterator[Finding]:
    """Whether a thread that only computes is stopped for a moment thousands of times a second."""
    rate_hz = place.confinement.interruptions_hz
    if rate_hz is not None and rate_hz > MANY_INTERRUPTIONS_HZ:
        yield Finding(
            summary=f"this process is interrupted {rate_hz:.0f} times a second while it computes: a sampling profiler, "
            "or a device that interrupts its CPU",
            reading=rate_hz,
            evidence=["gaps between looks at the clock"],
            advice="end perf and agents that profile all processes; /proc/interrupts counts what interrupts CPUs",
        )


def probes(place: Place) -> Iterator[Finding]:
    """Whether the kernel stops this process at functions that it calls, as perf, bpftrace and agents ask for."""
    if place.confinement.probed:
        yield Finding(
            summary="a probe is set on functions that this process calls (uprobe): each call of them enters the kernel",
            evidence=[f"{place.proc}/maps: [uprobes]"],
            advice="end bpftrace, perf or the agent; as root, /sys/kernel/tracing/uprobe_events lists those of perf",
        )


def tracer(place: Place) -> Iterator[Finding]:
    """Whether another process traces this one, as debuggers and strace do, which stop it at each system call."""
    if place.confinement.tracer not in (None, "none"):
        yield Finding(
            summary=f"process {place.confinement.tracer} traces this one: strace stops it twice at each system call",
            values=[str(place.confinement.tracer)],
            evidence=[f"{place.proc}/status TracerPid"],
            advice="let it go: end strace, or detach the debugger",
        )


def security_profile(place: Place) -> Iterator[Finding]:
    """Whether a security module looks at every file opened and every call to the driver."""
    profile = place.confinement.lsm_profile
    if profile and "unconfined" not in profile and profile not in ("none", "kernel"):
        yield Finding(
            severity="note",
            summary=f"a security module confines this process: {profile}",
            values=[profile],
            evidence=[f"{place.proc}/attr/current"],
        )


def machine_kind(place: Place) -> Iterator[Finding]:
    """Whether the kernel stands on the hardware, on a hypervisor, or is none."""
    hint = place.machine.virtualization or "none"
    if hint not in ("none", GVISOR):
        yield Finding(
            severity="note",
            summary=f"a virtual machine ({hint}): nodes, PCI tree and clocks are what the hypervisor shows",
            values=[hint],
            evidence=["/proc/cpuinfo: hypervisor; /sys/class/dmi/id"],
        )


def kernel_parameters(place: Place) -> Iterator[Finding]:
    """What the kernel was booted with that moves results."""
    if place.machine.kernel_parameters:
        yield Finding(
            severity="note",
            summary=f"the kernel was booted with {' '.join(place.machine.kernel_parameters)}",
            values=[*place.machine.kernel_parameters],
            evidence=["/proc/cmdline"],
            at_least=0.0,
        )


def mitigations(place: Place) -> Iterator[Finding]:
    """What the processor is known to be open to and the kernel does nothing about."""
    bare = [name for name, words in (place.machine.mitigations or {}).items() if words.startswith("Vulnerable")]
    if bare:
        yield Finding(
            severity="note",
            summary=f"not mitigated: {listed(bare)}; faster on the CPU than a machine that mitigates them",
            values=[*bare],
            evidence=["/sys/devices/system/cpu/vulnerabilities"],
            distorts=["everything on the CPU"],
            at_least=0.5,
            at_most=1.0,
        )


def root_filesystem(place: Place) -> Iterator[Finding]:
    """Whether files are read through layers or over a network: imports and library loading take longer."""
    kind = place.confinement.root_filesystem or ""
    if kind.startswith(NETWORK_LIKE + IN_LAYERS):
        yield Finding(
            severity="note",
            summary=f"/ is of type {kind}: the first import of a framework is slower than from a local disk",
            values=[kind],
            evidence=[f"{place.proc}/mountinfo"],
            distorts=["start-up"] if kind.startswith(IN_LAYERS) else None,
        )


CAUSES = (
    Cause("runtime", effect="that may be what is to be compared", reads=of("confinement", "runtime"), here=runtime),
    Cause("speculation", under="mitigations", explains_away=("mitigations",), slows=ON_CPU,
          reads=of("confinement", "seccomp", "speculation_store_bypass", "speculation_indirect_branch"),
          here=speculation),
    Cause("filters", title="other filters of system calls", slows=OF_FILES, times=3.0, a_system_call_s=1e-6,
          source="a cheap system call takes 0.2 us, and with filters of all its arguments several times as long",
          upstream=8, refuses=r"Operation not permitted|Function not implemented|Permission denied",
          effect="they look at each system call, of which launches in steady state make none", between=filters),
    Cause("system-calls", under="filters", slows=("start-up", "copy"),
          reads=of("confinement", "system_call_s", "calls_s"), here=system_calls),
    # of a case that is made of them, with who is seen to look at each
    Cause("dear-calls", explains_away=("system-calls", "tracer"), between=dear_calls),
    Cause("file-opens", slows=OF_FILES, reads=of("confinement", "open_file_s", "open_temporary_s"), here=file_opens,
          between=dearer_opens),
    Cause("packets", slows=("collective", "data loading"), reads=of("confinement", "packet_s"), here=packets),
    Cause("interruptions", slows=("launch", "copy", "everything on the CPU", *OF_FILES),
          reads=of("confinement", "interruptions_hz"), here=interruptions),
    Cause("probes", slows=(*OF_FILES, "launch", "copy", "everything on the CPU"), reads=of("confinement", "probed"),
          here=probes),
    Cause("tracer", slows=(*OF_FILES, "launch", "copy", "everything on the CPU"), explains_away=("launches", "asleep"),
          reads=of("confinement", "tracer"), here=tracer, in_job=is_traced, order_in_job=-1),
    Cause("security-profile", slows=("start-up",), reads=of("confinement", "lsm_profile"), here=security_profile),
    Cause("machine-kind", slows=("launch", "copy", "collective"), reads=of("machine", "virtualization"),
          here=machine_kind),
    Cause("kernel-parameters", slows=("everything on the CPU",), reads=of("machine", "kernel_parameters"),
          here=kernel_parameters),
    Cause("mitigations", title="other mitigations of the CPU", slows=(*ON_CPU, *OF_FILES), times=2.5,
          source="20 % (moby/moby#41389) to 2.1 times (PlummersSoftwareLLC/Primes#570)", upstream=4, severity="warning",
          effect="each makes system calls, branches or loads dearer; a process mitigated for its filter takes 15 to 50 "
          "% longer", reads=of("machine", "mitigations"), here=mitigations),
    Cause("root-filesystem", under="files", slows=OF_FILES, reads=of("confinement", "root_filesystem"),
          here=root_filesystem),
    Cause("kernel-time", slows=("everything on the CPU", "data loading"), in_job=kernel_time, order_in_job=1),
)  # fmt: skip
