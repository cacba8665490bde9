"""Two places: what differs between here and another one, as a file tells of it, and what that difference does.

Only what both know is compared: a difference to something unknown is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from primbench.doctor.finding import Finding, Part, Severity
from primbench.doctor.place import Place
from primbench.doctor.software import driver_library, library_copies
from primbench.environment.difference import Change, Difference, difference
from primbench.system.files import format_cpu_list
from primbench.units import format_bytes, format_time

CPU_PARTS: list[Part] = ["launch", "everything on the CPU"]


WORK: list[Part] = ["kernel", *CPU_PARTS, "copy", "collective"]


STACK = "results of the two compare stacks, not places"
HARDWARE = "results of the two compare machines, not places"


class Rule(NamedTuple):
    """fields: of the environment, as ``difference`` names them; the first rule that a field matches takes it."""

    check: str
    fields: str
    severity: Severity
    distorts: list[Part]
    effect: str


RULES = (
    Rule(
        "against-gpu-count",
        r"devices\.gpu_count",
        "warning",
        ["copy", "collective"],
        "all-reduce has other ranks and other ways between them, and device numbers may mean other boards",
    ),
    Rule("against-gpu", r"devices\.gpus\[.+\]\..+", "warning", ["kernel", "copy"], HARDWARE),
    Rule("against-driver", r"devices\..*driver_version", "warning", ["launch", "copy", "kernel"], STACK),
    Rule(
        "against-mps",
        r"devices\.mps_control",
        "problem",
        ["launch", "kernel"],
        "with a multi-process service on one side only, programs share a GPU there and take turns on the other",
    ),
    Rule("against-blas", r"software\.providers\.NumPy's gemm", "warning", ["everything on the CPU"], STACK),
    Rule("against-preloads", r"software\.(preloads\..+|providers\.malloc)", "warning", [*CPU_PARTS, "copy"], STACK),
    Rule("against-libraries", r"software\.(libraries\..+|blas)", "warning", WORK, STACK),
    Rule(
        "against-cpu-kernels",
        r"software\.kernels\..+",
        "warning",
        ["everything on the CPU"],
        "a library takes other code for what it holds to be another CPU",
    ),
    Rule("against-packages", r"software\.packages\..+", "warning", WORK, STACK),
    Rule("against-python", r"software\.(python_.+|libc)", "warning", CPU_PARTS, STACK),
    Rule(
        "against-nccl",
        r"software\.(variables\.NCCL_.+|files\..*nccl.*)",
        "warning",
        ["collective"],
        "NCCL chooses other ways and algorithms",
    ),
    Rule(
        "against-threads",
        r"software\.(threads\..+|variables\..+_NUM_THREADS)",
        "warning",
        ["everything on the CPU", "copy", "collective"],
        "what is computed and copied on the CPU takes turns where there are fewer",
    ),
    Rule(
        "against-variables",
        r"software\.(variables|files)\..+",
        "warning",
        WORK,
        "libraries read them",
    ),
    Rule(
        "against-cpus",
        r"limits\.(cpu_quota|cpu_period_s|cpus_allowed)",
        "warning",
        [*CPU_PARTS, "copy", "collective"],
        "a quota stops threads, and as many are started as there are CPUs",
    ),
    Rule(
        "against-memory",
        r"limits\.(memory_limit_bytes|memory_nodes_allowed)|confinement\.(set_mempolicy|mbind)",
        "note",
        ["copy", "everything on the CPU"],
        "memory comes from other nodes, or less of it",
    ),
    Rule(
        "against-shared-memory",
        r"limits\.(shm_bytes|memlock_bytes)",
        "note",
        ["collective"],
        "ranks share memory in /dev/shm and lock what RDMA sends",
    ),
    Rule(
        "against-mitigations",
        r"confinement\.speculation_.+|machine\.mitigations(\..+)?",
        "warning",
        CPU_PARTS,
        "each makes system calls, branches or loads dearer; a process mitigated for its filter takes 15 to 50 % longer",
    ),
    Rule(
        "against-filters",
        r"confinement\.(seccomp.*|no_new_privileges|lsm_profile)",
        "note",
        ["start-up"],
        "they look at each system call, of which launches in steady state make none",
    ),
    Rule("against-runtime", r"confinement\.runtime(\.name)?", "note", [], "that may be what is to be compared"),
    Rule(
        "against-clock", r"machine\.clocksource", "warning", ["launch"], "every short time has the clock's cost in it"
    ),
    Rule(
        "against-frequency",
        r"machine\.(governor|turbo|deepest_idle_s)",
        "warning",
        CPU_PARTS,
        "CPUs run at other clocks and wake in another time",
    ),
    Rule(
        "against-huge-pages",
        r"(machine|confinement)\.transparent_hugepage.*",
        "warning",
        ["copy", "everything on the CPU"],
        "pageable copies and large arrays differ",
    ),
    Rule(
        "against-numa-balancing",
        r"machine\.numa_balancing",
        "warning",
        ["launch", "copy"],
        "moving pages stops threads for milliseconds",
    ),
    Rule(
        "against-network",
        r"machine\.infiniband",
        "warning",
        ["collective"],
        "without its adapters NCCL uses sockets between machines",
    ),
    Rule(
        "against-machine",
        r"machine\.(cpu_model|architecture|cpus_total|cpu_kinds.*|last_level_caches.*|memory_bytes|iommu|virtualization)|nodes.*",
        "warning",
        ["copy", "everything on the CPU"],
        HARDWARE,
    ),
    Rule("against-kernel", r"machine\.kernel.*", "note", CPU_PARTS, "scheduling and system calls are another kernel's"),
)


NAMESPACES = {
    "ipc": ("--ipc=host", "NCCL's ranks on the two sides share no memory, and GPUs no handles"),
    "net": ("--network=host", "NCCL's ranks on the two sides see other adapters and addresses"),
    "uts": ("--uts=host", "NCCL takes the two sides for two machines, unless NCCL_HOSTID says otherwise"),
}


def compare(here: Place, there: Place, name: str) -> list[Finding]:
    """Every difference that is known to move results, and what is wrong with the libraries loaded in the other place.

    name: of the file that tells of it.
    """
    found = difference(here.environment, there.environment, same_work=False)
    differing = [_finding(rule, changes, name) for rule, changes in by_rule(found)]
    loaded_there = [
        replace(finding, summary=f"in {name}: {finding.summary}")
        for check in (library_copies, driver_library)
        for finding in check(there)
    ]
    return [*differing, *_namespaces(here, there, name), *loaded_there]


def by_rule(found: Difference) -> list[tuple[Rule, list[Change]]]:
    """What is known to differ and to move results."""
    taken: dict[str, list[Change]] = {}
    for part in (found.stack, found.limits, found.confinement, found.machine):
        for change in part.changes:
            rule = next((rule for rule in RULES if re.fullmatch(rule.fields, change.field)), None)
            if rule is not None and change.kind == "differs":
                taken.setdefault(rule.check, []).append(change)
    return [(rule, taken[rule.check]) for rule in RULES if rule.check in taken]


def in_words(change: Change, one: str, other: str) -> str:
    """one, other: where the two are, such as "here"."""
    return (
        f"{_short(change.field)} is {_word(change.field, change.a)} {one} and {_word(change.field, change.b)} {other}"
    )


def nothing_differs(name: str) -> Finding:
    """That the comparison was made, for whoever would otherwise see no word of it."""
    return Finding(
        check="against",
        severity="note",
        summary=f"of what both tell, nothing that is known to move results differs between here and {name}",
    )


def _finding(rule: Rule, changes: Sequence[Change], name: str) -> Finding:
    lines = [in_words(change, "here", f"in {name}") for change in changes]
    if len(lines) > 1:
        fields = ", ".join(_short(change.field) for change in changes)
        summary = f"{len(lines)} things differ between here and {name}: {fields}"
    else:
        summary = lines[0]
    return Finding(
        check=rule.check,
        severity=rule.severity,
        summary=summary,
        evidence=lines if len(lines) > 1 else [changes[0].field],
        distorts=rule.distorts,
        advice=f"{rule.effect}; make them equal, or say so where results of the two are compared",
    )


def _short(field: str) -> str:
    """Without the group, which says nothing to people: "limits.cpu_quota" is "cpu_quota"."""
    return re.sub(
        r"^(machine|limits|confinement|devices|software\.(packages|libraries|preloads|providers|variables|files)|software)\.",
        "",
        field,
    )


def _word(field: str, value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):  # a whole node that one of them has
        return "present"
    if isinstance(value, list):
        numbers = all(isinstance(each, int) for each in value)
        return (format_cpu_list(value) if numbers else ", ".join(map(str, value))) or "none"
    if field.endswith("_bytes") and isinstance(value, int):
        return format_bytes(value)
    return format_time(value) if field.endswith("_s") and isinstance(value, int | float) else str(value)


def _namespaces(here: Place, there: Place, name: str) -> Iterator[Finding]:
    """Identities mean something within one kernel only: two places that see one GPU are on one."""
    ours, theirs = here.environment.confinement.namespaces or {}, there.environment.confinement.namespaces or {}
    uuids = [{gpu.uuid for gpu in place.gpus if gpu.uuid} for place in (here, there)]
    if uuids[0].isdisjoint(uuids[1]):
        return
    for kind, (option, effect) in NAMESPACES.items():
        if kind in ours and kind in theirs and ours[kind] != theirs[kind]:
            yield Finding(
                check="against-namespaces",
                severity="warning",
                summary=f"here and {name} do not share the {kind} namespace: {effect}",
                evidence=[f"/proc/self/ns/{kind}: {ours[kind]} here, {theirs[kind]} in {name}"],
                distorts=["collective"],
                advice=f"where one job spans both, start both by `docker run {option}` or `podman run {option}`",
            )
