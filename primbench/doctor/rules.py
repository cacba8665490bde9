"""What a difference between two places does to results. Which of them a field comes under, its Meaning says."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from primbench.doctor.finding import Activity, Severity
    from primbench.problem import Work

CPU_PARTS: list[Activity] = ["launch", "everything on the CPU"]
FILE_PARTS: list[Activity] = ["start-up", "data loading"]
WORK: list[Activity] = ["kernel", *CPU_PARTS, "copy", "collective"]
STACK = "results of the two compare stacks, not places"
HARDWARE = "results of the two compare machines, not places"
OF_CODE: Mapping[str, tuple[Work, ...]] = {"": ("kernel",), "numba": ("kernel", "copy", "launch")}
OF_THREADS: Mapping[str, tuple[Work, ...]] = {"": ("kernel", "copy", "collective"), "numpy": ("kernel",)}


class Rule(NamedTuple):
    """name: what Meaning.rule has. cause: what a comparison calls it, None where it is none of what it measures.

    upstream: causes with smaller numbers are told first: who has another CPU has other kernels of the same libraries,
    and who pins threads otherwise has fewer CPUs.
    works: on a CPU, what a case has to do to be distorted, by its backend, "" for all others; {} is anything.
    times: so many times as long in one of the places as in the other, at most. a_call_s, a_system_call_s, a_sample_s:
    a_file_s: so much is added to each call of a library, or of the system, to each sample, or for each file that is
    opened, at most; None is not by these. by_each: these are for each that there is more of what is counted.
    source: of these.
    stops: threads now and then, which shows in means and tails, and only after long in medians.
    told_by: checks of the doctor that tell the same of one place, and better; tells: that tell no more than this;
    checks: that tell of something else which comes under it, too.
    """

    name: str
    severity: Severity
    distorts: list[Activity]
    effect: str
    cause: str | None = None
    upstream: int = 0
    works: Mapping[str, tuple[Work, ...]] = {}
    times: float = math.inf
    a_call_s: float | None = None
    a_system_call_s: float | None = None
    a_sample_s: float | None = None
    a_file_s: float | None = None
    by_each: bool = False
    source: str = ""
    stops: bool = False
    told_by: tuple[str, ...] = ()
    tells: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()

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
        cause="other GPUs beside it",
        upstream=1,
        told_by=("gpus-visible", "visible-devices"),
    ),
    Rule("gpu", "warning", ["kernel", "copy"], HARDWARE, cause="another GPU", upstream=1),
    Rule("driver", "warning", ["launch", "copy", "kernel"], STACK, cause="another driver", upstream=4),
    Rule(
        "mps",
        "problem",
        ["launch", "kernel"],
        "with a multi-process service on one side only, programs share a GPU there and take turns on the other",
        cause="another way to share the GPU",
        upstream=4,
        told_by=("mps",),
    ),
    Rule("blas", "warning", ["everything on the CPU"], STACK, cause="another BLAS", upstream=11,
         works={"": (), "numpy": ("kernel",)}),
    Rule("preloads", "warning", [*CPU_PARTS, "copy", *FILE_PARTS], STACK, cause="other libraries before all others",
         upstream=11, tells=("preloads",)),
    Rule("libraries", "warning", [*WORK, *FILE_PARTS], STACK, cause="other libraries", upstream=13),
    Rule(
        "cpu-kernels",
        "warning",
        ["everything on the CPU"],
        "a library takes other code for what it holds to be another CPU",
        cause="other code for the CPU",
        upstream=10,
        works=OF_CODE,
        times=300.0,
        source="timed: products of float32 by SSE for AVX2 take 5 times as long, a loop without optimization 200 times",
        tells=("vector-instructions",),
    ),
    Rule("packages", "warning", [*WORK, *FILE_PARTS], STACK, cause="other packages", upstream=15),
    Rule("python", "warning", [*CPU_PARTS, *FILE_PARTS], STACK, cause="another Python", upstream=16),
    Rule(
        "nccl",
        "warning",
        ["collective"],
        "NCCL chooses other ways and algorithms",
        cause="other settings of NCCL",
        upstream=17,
    ),
    Rule(
        "pinning",
        "warning",
        ["everything on the CPU", "copy", "collective", "data loading"],
        "threads and what they start stay on other CPUs, or on the same ones",
        cause="threads pinned otherwise",
        upstream=5,
        works={"": (*OF_THREADS[""], "data loading"), "numpy": OF_THREADS["numpy"]},
        stops=True,
    ),
    Rule(
        "waiting",
        "warning",
        ["everything on the CPU", "copy", "collective"],
        "threads wait for work by turning round or by sleeping, and wake in another time",
        cause="threads that wait otherwise",
        upstream=10,
        works=OF_THREADS,
    ),
    Rule(
        "threads",
        "warning",
        ["everything on the CPU", "copy", "collective"],
        "what is computed and copied on the CPU takes turns where there are fewer",
        cause="other threads",
        upstream=9,
        works=OF_THREADS,
        tells=("threads",),
        stops=True,
    ),
    Rule(
        "allocator",
        "warning",
        [*CPU_PARTS, "copy", *FILE_PARTS],
        "memory is taken and given back in another way, and the C library takes other code for the CPU",
        cause="other tuning of the C library",
        upstream=11,
        times=100.0,
        source="timed: a fresh page of the kernel takes 0.3 to 5 us, and is written in 0.05 us once it is there",
    ),
    Rule(
        "python-settings",
        "warning",
        [*CPU_PARTS, *FILE_PARTS],
        "the interpreter checks, counts or optimizes otherwise",
        cause="other settings of Python",
        upstream=11,
        times=500.0,
        a_call_s=100e-6,
        source="timed: a call of NumPy takes 0.08 us more with PYTHONDEVMODE, 8 us with PYTHONTRACEMALLOC=5, and 132 "
        "times as long with 25",
        checks=("python-hooks",),
    ),
    Rule("start-code", "warning", [*CPU_PARTS, "copy", "collective", *FILE_PARTS],
         "each Python runs it before anything else, and it can change whatever comes after",
         cause="other code at Python's start", upstream=14),
    Rule("other-threads", "warning", [*CPU_PARTS, *FILE_PARTS],
         "each takes the interpreter's lock for as long as it computes in Python", cause="other threads of Python",
         upstream=10, stops=True),
    Rule("bytecode", "note", ["start-up"], "Python compiles modules anew, or reads them from another place",
         cause="other bytecode of modules", upstream=11, times=10.0,
         source="15.5 s to 7.1 s once it is kept (topoteretes/cognee#3051); NumPy: 4.9 times", tells=("bytecode",)),
    Rule("variables", "warning", [*WORK, *FILE_PARTS], "libraries read them", cause="other variables", upstream=18),
    Rule(
        "cpus",
        "warning",
        [*CPU_PARTS, "copy", "collective", *FILE_PARTS],
        "a quota stops threads, and as many are started as there are CPUs",
        cause="other CPUs",
        upstream=6,
        stops=True,
        checks=("cpu-quota",),
        tells=("few-cpus",),
    ),
    Rule(
        "priority",
        "warning",
        [*CPU_PARTS, "copy", "collective", *FILE_PARTS],
        "where other programs want the same CPUs, these go first on one side",
        cause="another priority",
        upstream=6,
        times=350.0,
        source="weights of tasks: 1024 usually, 15 with nice 19, 3 of the policy idle (Linux, kernel/sched/core.c)",
        stops=True,
        tells=("priority",),
    ),
    Rule(
        "memory",
        "note",
        ["copy", "everything on the CPU", *FILE_PARTS],
        "memory comes from other nodes, or less of it",
        cause="other memory",
        upstream=7,
        stops=True,
        checks=("memory-policy", "page-cache"),
    ),
    Rule("processes", "note", [*CPU_PARTS, *FILE_PARTS],
         "threads and workers of data loaders do not start, and what they do waits for others",
         upstream=8, checks=("processes",)),
    Rule("open-files", "note", FILE_PARTS, "loaders run out of files, or who starts a program closes very many",
         upstream=8,
         source="1024: workers fail (pytorch/pytorch#973); 2^30: over a minute to close them (moby/moby#45060)",
         checks=("open-files",)),
    Rule("stacks", "note", ["start-up"], "each thread has room for its stack, which is mapped anew where it is large",
         cause="other stacks of threads", upstream=8, times=3.0,
         source="timed: a thread with 4 GiB takes 1.3 times as long to start"),
    Rule("address-space", "note", [*CPU_PARTS, "copy", *FILE_PARTS],
         "memory and maps of files are refused beyond it", upstream=8),
    Rule("file-size", "note", FILE_PARTS, "what is written beyond it is refused", upstream=8),
    Rule("cpu-time", "note", [*CPU_PARTS, "copy", "collective", *FILE_PARTS],
         "a process is killed once it has computed for so long", upstream=8),
    Rule("shared-memory", "note", ["collective", "data loading"],
         "ranks share memory in /dev/shm and lock what RDMA sends", cause="other shared memory", upstream=8,
         told_by=("shared-memory", "locked-memory")),
    Rule(
        "mitigations",
        "warning",
        [*CPU_PARTS, *FILE_PARTS],
        "each makes system calls, branches or loads dearer; a process mitigated for its filter takes 15 to 50 % longer",
        cause="other mitigations of the CPU",
        upstream=4,
        times=2.5,
        source="20 % (moby/moby#41389) to 2.1 times (PlummersSoftwareLLC/Primes#570)",
        told_by=("speculation", "mitigations"),
    ),
    Rule(
        "filters",
        "note",
        ["start-up", "data loading"],
        "they look at each system call, of which launches in steady state make none",
        cause="other filters of system calls",
        upstream=8,
        times=3.0,
        a_system_call_s=1e-6,
        source="a cheap system call takes 0.2 us, and with filters of all its arguments several times as long",
        checks=("system-calls",),
    ),
    Rule(
        "files",
        "note",
        FILE_PARTS,
        "what is read and kept there takes another way",
        cause="other file systems",
        upstream=8,
        times=100.0,
        source="3.3 GB/s to 90 MB/s (microsoft/WSL#4197), 1 s to 50 s by mmap over a network (Comfy-Org/ComfyUI#2288)",
        checks=("filesystems", "root-filesystem", "io-uring"),
    ),
    Rule("access-times", "note", FILE_PARTS, "that a file was read is noted in it, each time or once a day",
         cause="other access times", upstream=9, a_file_s=4e-6,
         source="timed: reading 200 files of 4 KiB took 0.8 us longer for each"),
    Rule("long-path", "note", ["data loading"], "each file is looked up by all names on its way",
         cause="another way to temporary files", upstream=9, a_file_s=1e-6, by_each=True,
         source="timed: 30 folders and links took 22 us longer for each file, which was looked up twice"),
    Rule("cpu-groups", "note", ["everything on the CPU", "collective", "start-up"],
         "who falls asleep, wakes or begins is entered in each of them", cause="other control groups of CPU time",
         upstream=9, works={"": ("launch", "collective", "start-up")}, times=1.1, by_each=True,
         source="timed: 30 of them made waking a thread 2.06 times as long"),
    Rule("io-limits", "note", FILE_PARTS, "so many bytes or operations a second are read and written at most",
         cause="other limits of reading and writing", upstream=8, told_by=("io-limits",)),
    Rule("runtime", "note", [], "that may be what is to be compared"),
    Rule("clock", "warning", ["launch"], "every short time has the clock's cost in it", cause="another clock",
         upstream=4, a_sample_s=4e-6, source="a reading takes 0.03 us from tsc, 0.7 us from acpi_pm and hpet",
         told_by=("clock",)),
    Rule("frequency", "warning", CPU_PARTS, "CPUs run at other clocks and wake in another time",
         cause="other clocks of the CPU", upstream=4, times=10.0, source="from the lowest to the highest frequency",
         told_by=("cpu-frequency",)),
    Rule(
        "huge-pages",
        "warning",
        ["copy", "everything on the CPU"],
        "pageable copies and large arrays differ",
        cause="other huge pages",
        upstream=8,
        times=5.0,
        source="2 times faster to 5 times slower (ikawrakow/ik_llama.cpp#2010)",
        told_by=("huge-pages",),
    ),
    Rule("numa-balancing", "warning", ["launch", "copy"], "moving pages stops threads for milliseconds",
         cause="pages moved by the kernel", upstream=7, stops=True, told_by=("numa-balancing",)),
    Rule("network", "warning", ["collective"], "without its adapters NCCL uses sockets between machines",
         cause="other network adapters", upstream=8, times=100.0,
         source="100 to 400 Gbit/s to 1 to 5 a NIC (NVIDIA-NeMo/RL#1973)",
         checks=("rdma-files", "gpu-direct", "roce-addresses", "acs")),
    Rule("loopback", "warning", ["collective", "data loading"], "processes of one machine reach each other by it",
         cause="another way between processes", upstream=1,
         source="timed: an all-reduce of 4 MiB at 400 Mbit/s took 34 times as long"),
    Rule("machine", "warning", ["copy", "everything on the CPU", *FILE_PARTS], HARDWARE, cause="another machine",
         upstream=2),
    Rule(
        "kernel",
        "note",
        [*CPU_PARTS, *FILE_PARTS],
        "scheduling and system calls are another kernel's",
        cause="another Linux",
        upstream=3,
    ),
)  # fmt: skip
