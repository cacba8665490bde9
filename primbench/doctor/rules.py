"""What a difference between two places does to results. Which of them a field comes under, its Meaning says."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from primbench.doctor.finding import Part, Severity

CPU_PARTS: list[Part] = ["launch", "everything on the CPU"]
WORK: list[Part] = ["kernel", *CPU_PARTS, "copy", "collective"]
STACK = "results of the two compare stacks, not places"
HARDWARE = "results of the two compare machines, not places"


class Rule(NamedTuple):
    """name: what Meaning.rule has. cause: what a comparison calls it, None where it is none of what it measures.

    upstream: causes with smaller numbers are told first: who has another CPU has other kernels of the same libraries.
    """

    name: str
    severity: Severity
    distorts: list[Part]
    effect: str
    cause: str | None = None
    upstream: int = 0

    @property
    def check(self) -> str:
        """The name of this check in findings."""
        return f"against-{self.name}"


RULES = (
    Rule(
        "gpu-count",
        "warning",
        ["copy", "collective"],
        "all-reduce has other ranks and other ways between them, and device numbers may mean other boards",
    ),
    Rule("gpu", "warning", ["kernel", "copy"], HARDWARE, cause="another GPU", upstream=1),
    Rule("driver", "warning", ["launch", "copy", "kernel"], STACK, cause="another driver", upstream=4),
    Rule(
        "mps",
        "problem",
        ["launch", "kernel"],
        "with a multi-process service on one side only, programs share a GPU there and take turns on the other",
    ),
    Rule("blas", "warning", ["everything on the CPU"], STACK, cause="another BLAS", upstream=9),
    Rule("preloads", "warning", [*CPU_PARTS, "copy"], STACK, cause="other libraries before all others", upstream=10),
    Rule("libraries", "warning", WORK, STACK, cause="other libraries", upstream=11),
    Rule(
        "cpu-kernels",
        "warning",
        ["everything on the CPU"],
        "a library takes other code for what it holds to be another CPU",
        cause="other code for the CPU",
        upstream=12,
    ),
    Rule("packages", "warning", WORK, STACK, cause="other packages", upstream=13),
    Rule("python", "warning", CPU_PARTS, STACK, cause="another Python", upstream=14),
    Rule(
        "nccl",
        "warning",
        ["collective"],
        "NCCL chooses other ways and algorithms",
        cause="other settings of NCCL",
        upstream=15,
    ),
    Rule(
        "threads",
        "warning",
        ["everything on the CPU", "copy", "collective"],
        "what is computed and copied on the CPU takes turns where there are fewer",
        cause="other threads",
        upstream=8,
    ),
    Rule("variables", "warning", WORK, "libraries read them", cause="other variables", upstream=16),
    Rule(
        "cpus",
        "warning",
        [*CPU_PARTS, "copy", "collective"],
        "a quota stops threads, and as many are started as there are CPUs",
        cause="other CPUs",
        upstream=5,
    ),
    Rule(
        "priority",
        "warning",
        [*CPU_PARTS, "copy", "collective"],
        "where other programs want the same CPUs, these go first on one side",
        cause="another priority",
        upstream=5,
    ),
    Rule(
        "memory",
        "note",
        ["copy", "everything on the CPU"],
        "memory comes from other nodes, or less of it",
        cause="other memory",
        upstream=6,
    ),
    Rule("shared-memory", "note", ["collective"], "ranks share memory in /dev/shm and lock what RDMA sends"),
    Rule(
        "mitigations",
        "warning",
        CPU_PARTS,
        "each makes system calls, branches or loads dearer; a process mitigated for its filter takes 15 to 50 % longer",
    ),
    Rule("filters", "note", ["start-up"], "they look at each system call, of which launches in steady state make none"),
    Rule("files", "note", ["start-up", "data loading"], "what is read and kept there takes another way"),
    Rule("runtime", "note", [], "that may be what is to be compared"),
    Rule("clock", "warning", ["launch"], "every short time has the clock's cost in it"),
    Rule("frequency", "warning", CPU_PARTS, "CPUs run at other clocks and wake in another time"),
    Rule(
        "huge-pages",
        "warning",
        ["copy", "everything on the CPU"],
        "pageable copies and large arrays differ",
        cause="other huge pages",
        upstream=7,
    ),
    Rule("numa-balancing", "warning", ["launch", "copy"], "moving pages stops threads for milliseconds"),
    Rule("network", "warning", ["collective"], "without its adapters NCCL uses sockets between machines"),
    Rule("machine", "warning", ["copy", "everything on the CPU"], HARDWARE, cause="another machine", upstream=2),
    Rule(
        "kernel",
        "note",
        CPU_PARTS,
        "scheduling and system calls are another kernel's",
        cause="another Linux",
        upstream=3,
    ),
)
