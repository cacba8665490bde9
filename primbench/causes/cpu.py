"""CPUs: how much of them, which ones, how they are shared and clocked, and the clock that times everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.causes import HARDWARE, OF_FILES, ON_CPU, SLOWED
from primbench.causes._job_cpus import held_back_by_quota, others_on_cpus
from primbench.compare.stopped import limited_later
from primbench.doctor.cause import Cause, Finding, listed, of
from primbench.system.files import format_cpu_list
from primbench.system.meaning import FactId
from primbench.units import format_percent, format_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from primbench.doctor.place import Place
    from primbench.system.cores import CpuKind

RANK = 4

# Read without a system call (Linux, clocksource drivers with a vDSO mode); on other architectures there is one choice.
QUICK_CLOCK_SOURCES = {"kvm-clock", "hyperv_clocksource_tsc_page"}
SLOW_CLOCK_S = 200e-9  # a reading through the vDSO takes 20 to 60 ns from Python; by a system call several hundred
COARSE_CLOCK_S = 1e-6
SLOW_WAKE_UP_S = 50e-6  # of the same size as a whole launch and its wait
CONTENDED_FRACTION = 0.1  # a machine that only runs this program stays below a few percent
STOLEN_FRACTION = 0.01


def cpu_quota(place: Place) -> Iterator[Finding]:
    """Whether a quota stops the threads that launch, for up to a whole period at a time."""
    cpus, quota = len(place.limits.cpus_allowed), place.limits.cpu_quota
    if quota is None or (quota >= cpus and not place.limits.throttled_periods):
        return
    evidence = [f"control group {place.limits.cgroup_version or ''}".strip() + f": {quota:g} CPUs' worth of time"]
    if place.limits.cpu_period_s is not None:
        evidence[0] += f", counted anew every {format_time(place.limits.cpu_period_s)}"
    if place.limits.throttled_periods is not None:
        of = f" of {place.limits.periods}" if place.limits.periods is not None else ""
        evidence.append(
            f"held back in {place.limits.throttled_periods}{of} periods, {format_time(place.limits.throttled_s)} in all"
        )
    summary = f"the CPU quota grants {quota:g} of the {cpus} CPUs that threads may run on"
    if quota >= cpus:
        summary = f"a CPU quota of {quota:g} CPUs held back threads of its control group; {cpus} may run at once here"
    whole = max(1, min(cpus, int(quota)))
    threads = f"{whole} thread{'s' * (whole > 1)}"
    yield Finding(
        severity="problem" if place.limits.throttled_periods else "warning",
        summary=summary,
        values=[quota, cpus],
        evidence=evidence,
        advice="whole CPUs in place of a quota: "
        + place.advice(
            f"a cpuset or affinity (taskset, Slurm's --cpus-per-task); or let {threads} run at most",
            engine=f"--cpuset-cpus {format_cpu_list(place.limits.cpus_allowed[:whole])}",
            kubernetes="requests equal to limits, on a node whose CPU manager policy is static",
        ),
    )


def cpus_allowed(place: Place) -> Iterator[Finding]:
    """Whether the CPUs that threads may run on belong together."""
    yield from _of_several_nodes(place)
    yield from _parts_of_cores(place)


def _of_several_nodes(place: Place) -> Iterator[Finding]:
    allowed, there = set(place.limits.cpus_allowed), place.machine.cpus_total
    spanned = [node.id for node in place.nodes if allowed & set(node.cpus)]
    if len(spanned) > 1:
        cut = there is not None and len(allowed) < there
        yield Finding(
            severity="warning" if cut else "note",
            summary=f"threads may run on nodes {listed(spanned)}, and their memory comes from where they first run",
            about=[FactId("limits", "cpus_allowed"), FactId("topology", "nodes")],
            values=[*spanned],
            evidence=[f"CPUs allowed: {format_cpu_list(allowed)}"],
            advice=place.advice(
                "measure with --numa-node auto, which takes the GPU's node, or --numa-node N",
                engine="--cpuset-cpus and --cpuset-mems of one node",
            ),
        )


def _parts_of_cores(place: Place) -> Iterator[Finding]:
    allowed = set(place.limits.cpus_allowed)
    cores = [core for package in place.topology.packages or [] for core in package.cores]
    shared = [core for core in cores if allowed & set(core) and not allowed.issuperset(core)]
    if shared:
        yield Finding(
            summary=f"{len(shared)} of the cores are allowed in part: whoever has the other threads of them slows ours",
            about=[FactId("limits", "cpus_allowed"), FactId("topology", "packages")],
            values=[len(shared)],
            evidence=[f"CPUs {format_cpu_list(core)} are one core" for core in shared[:3]]
            + [f"CPUs allowed: {format_cpu_list(allowed)}"],
            distorts=[*SLOWED],
            advice="let the cpuset hold all threads of its cores",
        )


def cpu_kinds(place: Place) -> Iterator[Finding]:
    """Whether threads may land on CPUs that are slower than others."""
    allowed, kinds = set(place.limits.cpus_allowed), place.machine.cpu_kinds or []
    there = _by_kind(kinds, allowed)
    within = {name: cpus for name, cpus in there.items() if cpus}
    evidence = [f"{name}: CPUs {cpus} of those allowed" for name, cpus in within.items()]
    evidence += [f"{name}: none of those allowed" for name in there if name not in within]
    if len(within) > 1:
        quickest = next(iter(within))
        yield Finding(
            summary=f"threads may run on CPUs of {len(within)} kinds, and times depend on where they land",
            values=[len(within)],
            evidence=evidence,
            advice=f"measure with --cpu-kind {quickest}, or let the cpuset hold CPUs of one kind: {within[quickest]}",
        )
    elif within and kinds[0].name not in within:
        yield Finding(
            summary=f"threads may run on {next(iter(within))} CPUs alone: this machine has quicker ones",
            values=[next(iter(within))],
            evidence=evidence,
            advice=place.advice(
                "let the cpuset or affinity hold quicker CPUs",
                engine=f"--cpuset-cpus {format_cpu_list(kinds[0].cpus)}",
            ),
        )


def _by_kind(kinds: Iterable[CpuKind], allowed: set[int]) -> dict[str, str]:
    """Which of the allowed CPUs are of a kind, "" where none is."""
    return {kind.name: format_cpu_list(allowed & set(kind.cpus)) for kind in kinds}


def cpu_contention(place: Place) -> Iterator[Finding]:
    """Whether others want the same CPUs now."""
    contention = place.contention
    if contention.waiting_fraction is not None and contention.waiting_fraction > CONTENDED_FRACTION:
        yield Finding(
            summary=f"tasks waited for a CPU in {format_percent(contention.waiting_fraction)} of the last 10 s",
            about=[FactId("contention", "waiting_fraction")],
            values=[format_percent(contention.waiting_fraction)],
            evidence=["/proc/pressure/cpu: some avg10"],
            advice="see what else runs (top), stop it, or measure on CPUs of one's own (--cpus LIST)",
        )
    if contention.stolen_fraction is not None and contention.stolen_fraction > STOLEN_FRACTION:
        yield Finding(
            summary=f"the hypervisor gave {format_percent(contention.stolen_fraction)} of this machine's CPU time away",
            about=[FactId("contention", "stolen_fraction")],
            values=[format_percent(contention.stolen_fraction)],
            evidence=["/proc/stat: steal, since boot"],
            advice="ask for a virtual machine with CPUs of its own",
        )


def cpu_frequency(place: Place) -> Iterator[Finding]:
    """Whether CPUs run at their full clock, and how long they take to wake."""
    if place.machine.governor is not None and place.machine.governor != "performance":
        yield Finding(
            summary=f"the frequency governor is {place.machine.governor!r}: CPUs slow down while they wait for the GPU",
            about=[FactId("machine", "governor")],
            values=[place.machine.governor],
            evidence=["cpufreq/scaling_governor"],
            distorts=[*SLOWED],
            advice="on the host, as root, choose the governor 'performance' for the time of measuring",
            fix=["cpupower frequency-set -g performance"],
        )
    if place.machine.turbo is False:
        yield Finding(
            severity="note",
            summary="turbo is off: steadier, and slower on the CPU than the same machine with turbo",
            about=[FactId("machine", "turbo")],
            evidence=["intel_pstate/no_turbo or cpufreq/boost"],
            distorts=[*SLOWED],
            at_most=2.0,
        )
    if place.machine.deepest_idle_s is not None and place.machine.deepest_idle_s > SLOW_WAKE_UP_S:
        yield Finding(
            severity="note",
            summary=f"an idle CPU may take {format_time(place.machine.deepest_idle_s)} to wake: seen after waits "
            "that block",
            about=[FactId("machine", "deepest_idle_s")],
            values=[format_time(place.machine.deepest_idle_s)],
            evidence=["cpuidle/state*/latency"],
            distorts=["launch"],
            advice="for the smallest times, on the host, as root, allow only the quick idle states",
            fix=["cpupower idle-set --disable-by-latency 10"],
        )


def clock(place: Place) -> Iterator[Finding]:
    """Whether reading the clock costs about nothing."""
    bad = _is_slow_clock(place)
    unusual = place.machine.architecture == "x86_64" and place.machine.clocksource not in (None, "tsc")
    if not (bad or unusual):
        return
    quick = place.machine.clocksource in QUICK_CLOCK_SOURCES and not bad
    yield Finding(
        severity="note" if quick else "warning",
        summary=f"the clock is read from {place.machine.clocksource or 'an unknown source'}, at "
        f"{format_time(place.machine.clock_s)} a reading",
        values=[place.machine.clocksource or ""],
        reading=place.machine.clock_s,
        evidence=[
            "clocksource0/current_clocksource",
            f"its smallest step: {format_time(place.machine.clock_resolution_s)}",
        ],
        distorts=[] if quick else ["launch", "everything on the CPU"],
        advice=None
        if quick
        else "on the host, see why the kernel left the tsc (dmesg | grep -i clocksource), or boot with tsc=reliable "
        "where its maker vouches for it",
    )


def _is_slow_clock(place: Place) -> bool:
    """Under a profiler or its like it is Python that takes so long."""
    slow = _exceeds(place.machine.clock_s, SLOW_CLOCK_S) or _exceeds(place.machine.clock_resolution_s, COARSE_CLOCK_S)
    return slow and not place.software.hooks


def _exceeds(reading_s: float | None, limit_s: float) -> bool:
    return reading_s is not None and reading_s > limit_s


CAUSES = (
    Cause("machine", title="another machine", slows=("copy", "everything on the CPU", *OF_FILES), upstream=2,
          severity="warning", effect=HARDWARE),
    Cause("kernel", title="another Linux", slows=SLOWED, upstream=3,
          effect="scheduling and system calls are another kernel's"),
    Cause("cpus", title="other CPUs", counts="CPUs", slows=(*ON_CPU, "copy", "collective", *OF_FILES), upstream=6,
          stops=True, explains_away=("few-cpus",), severity="warning",
          effect="a quota stops threads, and as many are started as there are CPUs"),
    Cause("cpu-quota", under="cpus", slows=(*SLOWED, "copy"), explains_away=("launches",),
          reads=of("limits", "cpu_quota", "throttled_periods"), here=cpu_quota, between=limited_later,
          in_job=held_back_by_quota),
    Cause("cpus-allowed", slows=(*SLOWED, "copy"), reads=of("topology", "nodes", "packages"), here=cpus_allowed),
    Cause("cpu-kinds", slows=(*SLOWED, "copy"), reads=of("machine", "cpu_kinds"), here=cpu_kinds),
    Cause("cpu-contention", slows=SLOWED, explains_away=("launches",),
          reads=of("contention", "waiting_fraction", "stolen_fraction"), here=cpu_contention, in_job=others_on_cpus),
    Cause("cpu-frequency", title="other clocks of the CPU", slows=ON_CPU, times=10.0,
          source="from the lowest to the highest frequency", upstream=4, severity="warning",
          effect="CPUs run at other clocks and wake in another time",
          reads=of("machine", "governor", "turbo", "deepest_idle_s"), here=cpu_frequency),
    Cause("clock", title="another clock", slows=("launch",), a_sample_s=4e-6,
          source="a reading takes 0.03 us from tsc, 0.7 us from acpi_pm and hpet", upstream=4, severity="warning",
          effect="every short time has the clock's cost in it",
          reads=of("machine", "clocksource", "clock_s", "clock_resolution_s"), here=clock),
    Cause("cpu-groups", title="other control groups of CPU time",
          slows=("everything on the CPU", "collective", "start-up"), works={"": ("launch", "collective", "start-up")},
          calls=("futex", "clone"), times=1.1, by_each=True,
          source="timed: 30 of them made waking a thread 2.06 times as long", upstream=9.5,
          effect="who falls asleep, wakes or begins is entered in each of them"),
)  # fmt: skip
