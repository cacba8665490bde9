"""Memory of the host: from which node, in which pages, how much of it, and what may be locked or shared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.causes import OF_FILES, ON_CPU
from primbench.causes._job_disks import short_of_memory
from primbench.causes.gpu import WSL_FILE
from primbench.doctor.cause import Cause, Finding, listed, of
from primbench.runtimes.runtime import DOCKER_SHM_BYTES
from primbench.system.files import format_cpu_list
from primbench.system.meaning import FactId
from primbench.units import format_bytes, format_percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from primbench.doctor.place import Place

RANK = 5

ENOUGH_SHM_BYTES = 2**30  # NCCL user guide, "Troubleshooting", "Docker": --shm-size=1g
ENOUGH_MEMLOCK_BYTES = 2**30
MUCH_LOCKED_BYTES = 2**26
FAR_FRACTION = 0.1  # libraries lie wherever they were first read
NO_MEMORY = r"Cannot allocate memory|MemoryError|[Oo]ut of memory"


def memory_policy(place: Place) -> Iterator[Finding]:
    """Whether this process may say which node its memory comes from."""
    answers = {"set_mempolicy": place.confinement.set_mempolicy, "mbind": place.confinement.mbind}
    denied = {call: answer for call, answer in answers.items() if answer not in (None, "allowed")}
    if not denied:
        return
    one_node = len(place.nodes) == 1  # NCCL asks everywhere: hiyouga/LlamaFactory#9506
    yield Finding(
        severity="note" if one_node else "warning",
        summary=f"{listed(list(denied))} denied: memory can be placed by first touch only"
        + (
            ", which on one node makes no difference but to NCCL, which shares memory by /dev/shm then"
            if one_node
            else ""
        ),
        values=[*denied],
        evidence=[f"{call}: {answer}" for call, answer in denied.items()],
        distorts=["collective"] if one_node else None,
        advice=place.advice(
            "allow both calls in the seccomp profile, or choose CPUs and memory from outside by a cpuset",
            engine="--cap-add SYS_NICE",
            kubernetes="add SYS_NICE to securityContext.capabilities",
        ),
    )


def memory_nodes(place: Place) -> Iterator[Finding]:
    """Whether the memory that may be used is beside the CPUs that may be used."""
    memory = place.limits.memory_nodes_allowed
    far = [
        node.id
        for node in place.nodes
        if memory is not None
        and node.has_memory
        and node.id not in memory
        and not set(node.cpus).isdisjoint(place.limits.cpus_allowed)
    ]
    if far:
        nodes = f"node{'s' if len(far) > 1 else ''} {listed(far)}"
        yield Finding(
            summary=f"threads may run on {nodes} and not take memory there: all of it is remote to them",
            values=[*far],
            evidence=[f"memory allowed: nodes {listed(memory or [])} (Mems_allowed_list in {place.proc}/status)"],
            advice=place.advice(
                "let the cpuset's CPUs and memory be of the same nodes",
                engine="--cpuset-cpus and --cpuset-mems of the same node",
            ),
        )


def memory_held(place: Place) -> Iterator[Finding]:
    """Whether a process that runs has its memory beside its CPUs, and by which policy it was placed."""
    allowed, by_node = place.limits.cpus_allowed, place.held.by_node or {}
    far = [node.id for node in place.nodes if by_node.get(node.id) and not {*allowed} & {*node.cpus}]
    share = sum(by_node[node] for node in far) / max(1, sum(by_node.values()))
    if share > FAR_FRACTION:
        yield Finding(
            summary=f"{format_percent(share)} of its memory is on node {listed(far)}, where it "
            "may not run: all of that is remote to its threads",
            values=[format_percent(share), *far],
            evidence=[
                f"numa_maps: node {_sizes(by_node)}",
                f"policies: {_sizes(place.held.by_policy or {})}",
                f"CPUs allowed: {format_cpu_list(allowed)}",
            ],
            advice="start it with CPUs and memory of one node (numactl --cpunodebind N --membind N)",
            fix=[f"migratepages {place.pid} {','.join(map(str, far))} NODE"],
        )


def _sizes(of: Mapping[int, int] | Mapping[str, int]) -> str:
    return listed([f"{name} {format_bytes(size)}" for name, size in of.items()])


def numa_balancing(place: Place) -> Iterator[Finding]:
    """Whether the kernel moves pages between nodes by itself, at the cost of whoever touches them."""
    if place.machine.numa_balancing and len(place.nodes) > 1:
        yield Finding(
            summary="the kernel moves pages between nodes by itself: pauses of milliseconds in any thread",
            evidence=["/proc/sys/kernel/numa_balancing: on", f"{len(place.nodes)} nodes"],
            distorts=["launch", "copy", "everything on the CPU"],
            advice="on the host, as root, switch it off for the time of measuring",
            fix=["sysctl kernel.numa_balancing=0"],
        )


def huge_pages(place: Place) -> Iterator[Finding]:
    """Whether memory can come in huge pages."""
    if place.machine.transparent_hugepage == "never":
        yield Finding(
            summary="no transparent huge pages: pageable copies and the registration of buffers are slower",
            about=[FactId("machine", "transparent_hugepage")],
            evidence=["/sys/kernel/mm/transparent_hugepage/enabled: never"],
            advice="on the host, as root, allow them to programs that ask",
            fix=["echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"],
        )
    elif place.confinement.transparent_hugepage_disabled:
        yield Finding(
            summary="transparent huge pages are switched off for this process, and for those it starts",
            about=[FactId("confinement", "transparent_hugepage_disabled")],
            evidence=[
                "prctl(PR_GET_THP_DISABLE): 1",
                f"the machine's choice: {place.machine.transparent_hugepage or 'unknown'}",
            ],
            advice="find who started this process so: the switch is inherited (prctl PR_SET_THP_DISABLE)",
        )


def shared_memory(place: Place) -> Iterator[Finding]:
    """Whether /dev/shm holds what NCCL's ranks and data loaders hand each other."""
    size = place.limits.shm_bytes
    several = len(place.gpus) > 1
    if size is None or size >= ENOUGH_SHM_BYTES or (size > DOCKER_SHM_BYTES and not several):
        return
    free = place.limits.shm_free_bytes
    yield Finding(
        severity="problem" if several else "warning",
        summary=f"/dev/shm holds {format_bytes(size)} only: once it is full, NCCL fails or goes a slower way, and "
        "data loaders' workers fail",
        values=[format_bytes(size)],
        evidence=["statvfs of /dev/shm" + (f": {format_bytes(free)} free" if free is not None else "")],
        advice=place.advice(
            "mount a larger tmpfs on /dev/shm, as root",
            engine="--shm-size=1g --ulimit memlock=-1",
            kubernetes="mount an emptyDir with medium: Memory on /dev/shm",
        ),
        fix=[] if place.in_container else ["mount -o remount,size=50% /dev/shm"],
    )


def locked_pages(place: Place) -> Iterator[Finding]:
    """Whether all memory of this process is locked: the kernel brings in each page that is asked for, used or not."""
    if place.confinement.locked_bytes is not None and place.confinement.locked_bytes > MUCH_LOCKED_BYTES:
        yield Finding(
            severity="note",
            summary=f"{format_bytes(place.confinement.locked_bytes)} of memory are locked: what is new is "
            "filled at once",
            values=[format_bytes(place.confinement.locked_bytes)],
            evidence=[f"{place.proc}/status VmLck"],
            at_least=0.5,
            at_most=3.0,
            advice="lock what has to be, not everything: leave out mlockall(MCL_FUTURE)",
        )


def locked_memory(place: Place) -> Iterator[Finding]:
    """Whether RDMA can register its buffers. CUDA's pinned memory is not counted in this limit."""
    limit = place.limits.memlock_bytes
    if place.machine.infiniband and limit is not None and limit < ENOUGH_MEMLOCK_BYTES:
        yield Finding(
            severity="problem",
            summary=f"only {format_bytes(limit)} may be locked: RDMA cannot register its buffers",
            values=[format_bytes(limit)],
            evidence=["RLIMIT_MEMLOCK", f"adapters: {listed(place.machine.infiniband)}"],
            advice=place.advice(
                "raise the limit (ulimit -l unlimited, /etc/security/limits.conf, LimitMEMLOCK=infinity)",
                engine="--ulimit memlock=-1",
            ),
            fix=[] if place.in_container else ["ulimit -l unlimited"],
        )


def pinned_memory(place: Place) -> Iterator[Finding]:
    """Whether pinned memory is scarce, as under WSL2: Windows grants it, not Linux (CUDA on WSL User Guide)."""
    if place.gpus and WSL_FILE in (place.devices.gpu_files or []):
        yield Finding(
            severity="note",
            summary="under WSL2 pinned memory is scarce: allocating it fails at about half of what the machine has",
            about=[FactId("devices", "gpu_files")],
            evidence=[f"{WSL_FILE} is here"],  # microsoft/WSL#8447
            advice="pin less, give WSL2 more memory (.wslconfig), or measure under Linux itself",
        )


def memory_limit(place: Place) -> Iterator[Finding]:
    """Whether a limit has ended processes here, or is to be reckoned with."""
    limit, kills = place.limits.memory_limit_bytes, place.limits.out_of_memory_kills
    if kills:
        yield Finding(
            severity="problem" if limit is not None else "warning",  # by no limit: any program, at any time since boot
            summary=f"{kills} process{'es were' if kills > 1 else ' was'} killed here for want of memory",
            about=[FactId("limits", "out_of_memory_kills")],
            reading=kills,
            evidence=[
                f"control group: {f'limit {format_bytes(limit)}' if limit is not None else 'no limit'}, "
                f"oom_kill {kills}"
            ],
            advice=place.advice("raise the memory limit of the job, or measure smaller sizes", engine="--memory SIZE"),
        )
    elif limit is not None and (place.machine.memory_bytes is None or limit < place.machine.memory_bytes):
        yield Finding(
            severity="note",
            summary=f"at most {format_bytes(limit)} of the machine's {format_bytes(place.machine.memory_bytes)}, file "
            "cache and pinned buffers included",
            values=[format_bytes(limit), format_bytes(place.machine.memory_bytes)],
            distorts=[],
            evidence=["memory.max, memory.high or memory.limit_in_bytes of the control groups"],
        )


def own_memory(place: Place) -> Iterator[Finding]:
    """Whether each process may have as much memory as the machine has, stacks of its threads among it."""
    limits, there = place.limits, place.machine.memory_bytes
    for name, limit in (("RLIMIT_DATA", limits.data_bytes), ("RLIMIT_AS", limits.address_space_bytes)):
        if limit is not None and there is not None and limit < there:
            yield Finding(
                summary=f"each process may have {format_bytes(limit)} of the machine's {format_bytes(there)} ({name}): "
                "memory and threads beyond that are refused",
                values=[name, limit],
                evidence=[f"getrlimit({name}), the soft limit"],
                at_most=1.0,
                advice=place.advice(
                    "take the limit away (LimitDATA=, LimitAS=, limits.conf, ulimit -d and -v)",
                    engine="without --ulimit data=",
                ),
            )


CAUSES = (
    Cause("memory-policy", under="memory", slows=("copy", "collective", "everything on the CPU"),
          reads=of("confinement", "set_mempolicy", "mbind"), here=memory_policy),
    Cause("memory-nodes", slows=("copy", "everything on the CPU"), reads=of("limits", "memory_nodes_allowed"),
          here=memory_nodes),
    # of whoever looks there is none to speak of
    Cause("memory-held", slows=("copy", "everything on the CPU"), reads=of("held", "by_node"),
          where=lambda place: place.pid is not None, here=memory_held),
    Cause("numa-balancing", title="pages moved by the kernel", slows=("launch", "copy"), upstream=7.5, stops=True,
          severity="warning", effect="moving pages stops threads for milliseconds",
          reads=of("machine", "numa_balancing"), here=numa_balancing),
    Cause("huge-pages", title="other huge pages", slows=("copy", "everything on the CPU"), times=5.0,
          source="2 times faster to 5 times slower (ikawrakow/ik_llama.cpp#2010)", upstream=8.5, severity="warning",
          effect="pageable copies and large arrays differ",
          reads=(*of("machine", "transparent_hugepage"), *of("confinement", "transparent_hugepage_disabled")),
          here=huge_pages),
    Cause("shared-memory", title="other shared memory", slows=("collective", "data loading"), upstream=8,
          refuses=r"No space left on device|/dev/shm|SIGBUS",
          effect="ranks share memory in /dev/shm and lock what RDMA sends", reads=of("limits", "shm_bytes"),
          here=shared_memory),
    Cause("locked-pages", slows=("everything on the CPU", "copy", *OF_FILES), reads=of("confinement", "locked_bytes"),
          here=locked_pages),
    Cause("locked-memory", under="shared-memory", explains_away=("shared-memory",), slows=("collective",),
          reads=of("limits", "memlock_bytes"), here=locked_memory),
    Cause("pinned-memory", slows=("copy", "data loading"), here=pinned_memory),
    Cause("address-space", slows=(*ON_CPU, "copy", *OF_FILES), upstream=8,
          refuses=rf"{NO_MEMORY}|failed to map segment|can't start new thread",
          effect="memory and maps of files are refused beyond it",
          reads=of("limits", "address_space_bytes", "data_bytes"), here=own_memory),
    Cause("memory", title="other memory", slows=("copy", "everything on the CPU", *OF_FILES), upstream=7, stops=True,
          explains_away=("launches",), refuses=rf"{NO_MEMORY}|SIGKILL",
          effect="memory comes from other nodes, or less of it", in_job=short_of_memory),
    Cause("memory-limit", slows=("everything on the CPU",), reads=of("limits", "memory_limit_bytes"),
          here=memory_limit),
)  # fmt: skip
