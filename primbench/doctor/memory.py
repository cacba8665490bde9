"""Memory of the host: from which node, in which pages, how much of it, and what may be locked or shared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.doctor.finding import Finding, listed, unseen
from primbench.doctor.gpu import WSL_FILE
from primbench.runtimes.runtime import DOCKER_SHM_BYTES
from primbench.system.files import format_cpu_list
from primbench.units import format_bytes, format_percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from primbench.doctor.place import Place

RANK = 5

ENOUGH_SHM_BYTES = 2**30  # NCCL user guide, "Troubleshooting", "Docker": --shm-size=1g
ENOUGH_MEMLOCK_BYTES = 2**30
MUCH_LOCKED_BYTES = 2**26
FAR_FRACTION = 0.1  # libraries lie wherever they were first read
WAITING_FRACTION = 0.1  # a machine with memory to spare has none


def memory_policy(place: Place) -> Iterator[Finding]:
    """Whether this process may say which node its memory comes from."""
    confinement = place.environment.confinement
    yield from unseen("memory-policy", confinement, "set_mempolicy", "mbind")
    answers = {"set_mempolicy": confinement.set_mempolicy, "mbind": confinement.mbind}
    denied = {call: answer for call, answer in answers.items() if answer not in (None, "allowed")}
    if not denied:
        return
    one_node = len(place.nodes) == 1  # NCCL asks everywhere: hiyouga/LlamaFactory#9506
    yield Finding(
        check="memory-policy",
        severity="note" if one_node else "warning",
        summary=f"{listed(list(denied))} denied: memory can be placed by first touch only"
        + (
            ", which on one node makes no difference but to NCCL, which shares memory by /dev/shm then"
            if one_node
            else ""
        ),
        evidence=[f"{call}: {answer}" for call, answer in denied.items()],
        distorts=["collective"] if one_node else ["copy", "collective", "everything on the CPU"],
        advice=place.advice(
            "allow both calls in the seccomp profile, or choose CPUs and memory from outside by a cpuset",
            engine="--cap-add SYS_NICE",
            kubernetes="add SYS_NICE to securityContext.capabilities",
        ),
    )


def memory_nodes(place: Place) -> Iterator[Finding]:
    """Whether the memory that may be used is beside the CPUs that may be used."""
    limits = place.environment.limits
    yield from unseen("memory-nodes", limits, "memory_nodes_allowed")
    memory = limits.memory_nodes_allowed
    far = [
        node.id
        for node in place.nodes
        if memory is not None
        and node.has_memory
        and node.id not in memory
        and not set(node.cpus).isdisjoint(limits.cpus_allowed)
    ]
    if far:
        nodes = f"node{'s' if len(far) > 1 else ''} {listed(far)}"
        yield Finding(
            check="memory-nodes",
            severity="warning",
            summary=f"threads may run on {nodes} and not take memory there: all of it is remote to them",
            evidence=[f"memory allowed: nodes {listed(memory or [])} (Mems_allowed_list in /proc/self/status)"],
            distorts=["copy", "everything on the CPU"],
            advice=place.advice(
                "let the cpuset's CPUs and memory be of the same nodes",
                engine="--cpuset-cpus and --cpuset-mems of the same node",
            ),
        )


def memory_held(place: Place) -> Iterator[Finding]:
    """Whether a process that runs has its memory beside its CPUs, and by which policy it was placed."""
    if place.pid is None:
        return  # of whoever looks there is none to speak of
    yield from unseen("memory-held", place.held, "by_node")
    allowed, by_node = place.environment.limits.cpus_allowed, place.held.by_node or {}
    far = [node.id for node in place.nodes if by_node.get(node.id) and not {*allowed} & {*node.cpus}]
    share = sum(by_node[node] for node in far) / max(1, sum(by_node.values()))
    if share > FAR_FRACTION:
        yield Finding(
            check="memory-held",
            severity="warning",
            summary=f"{format_percent(share)} of its memory is on node {listed(far)}, where it "
            "may not run: all of that is remote to its threads",
            evidence=[
                f"numa_maps: node {_sizes(by_node)}",
                f"policies: {_sizes(place.held.by_policy or {})}",
                f"CPUs allowed: {format_cpu_list(allowed)}",
            ],
            distorts=["copy", "everything on the CPU"],
            advice="start it with CPUs and memory of one node (numactl --cpunodebind N --membind N)",
            fix=[f"migratepages {place.pid} {','.join(map(str, far))} NODE"],
        )


def _sizes(of: Mapping[int, int] | Mapping[str, int]) -> str:
    return listed([f"{name} {format_bytes(size)}" for name, size in of.items()])


def numa_balancing(place: Place) -> Iterator[Finding]:
    """Whether the kernel moves pages between nodes by itself, at the cost of whoever touches them."""
    machine = place.environment.machine
    yield from unseen("numa-balancing", machine, "numa_balancing")
    if machine.numa_balancing and len(place.nodes) > 1:
        yield Finding(
            check="numa-balancing",
            severity="warning",
            summary="the kernel moves pages between nodes by itself: pauses of milliseconds in any thread",
            evidence=["/proc/sys/kernel/numa_balancing: on", f"{len(place.nodes)} nodes"],
            distorts=["launch", "copy", "everything on the CPU"],
            advice="on the host, as root, switch it off for the time of measuring",
            fix=["sysctl kernel.numa_balancing=0"],
        )


def huge_pages(place: Place) -> Iterator[Finding]:
    """Whether memory can come in huge pages."""
    machine, confinement = place.environment.machine, place.environment.confinement
    yield from unseen("huge-pages", machine, "transparent_hugepage")
    yield from unseen("huge-pages", confinement, "transparent_hugepage_disabled")
    if machine.transparent_hugepage == "never":
        yield Finding(
            check="huge-pages",
            severity="warning",
            summary="no transparent huge pages: pageable copies and the registration of buffers are slower",
            evidence=["/sys/kernel/mm/transparent_hugepage/enabled: never"],
            distorts=["copy", "everything on the CPU"],
            advice="on the host, as root, allow them to programs that ask",
            fix=["echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"],
        )
    elif confinement.transparent_hugepage_disabled:
        yield Finding(
            check="huge-pages",
            severity="warning",
            summary="transparent huge pages are switched off for this process, and for those it starts",
            evidence=[
                "prctl(PR_GET_THP_DISABLE): 1",
                f"the machine's choice: {machine.transparent_hugepage or 'unknown'}",
            ],
            distorts=["copy", "everything on the CPU"],
            advice="find who started this process so: the switch is inherited (prctl PR_SET_THP_DISABLE)",
        )


def shared_memory(place: Place) -> Iterator[Finding]:
    """Whether /dev/shm holds what NCCL's ranks and data loaders hand each other."""
    limits = place.environment.limits
    yield from unseen("shared-memory", limits, "shm_bytes")
    size = limits.shm_bytes
    several = len(place.gpus) > 1
    if size is None or size >= ENOUGH_SHM_BYTES or (size > DOCKER_SHM_BYTES and not several):
        return
    free = limits.shm_free_bytes
    yield Finding(
        check="shared-memory",
        severity="problem" if several else "warning",
        summary=f"/dev/shm holds {format_bytes(size)} only: once it is full, NCCL fails or goes a slower way, and "
        "data loaders' workers fail",
        evidence=["statvfs of /dev/shm" + (f": {format_bytes(free)} free" if free is not None else "")],
        distorts=["collective", "data loading"],
        advice=place.advice(
            "mount a larger tmpfs on /dev/shm, as root",
            engine="--shm-size=1g --ulimit memlock=-1",
            kubernetes="mount an emptyDir with medium: Memory on /dev/shm",
        ),
        fix=[] if place.in_container else ["mount -o remount,size=50% /dev/shm"],
    )


def locked_pages(place: Place) -> Iterator[Finding]:
    """Whether all memory of this process is locked: the kernel brings in each page that is asked for, used or not."""
    confinement = place.environment.confinement
    yield from unseen("locked-pages", confinement, "locked_bytes")
    if confinement.locked_bytes is not None and confinement.locked_bytes > MUCH_LOCKED_BYTES:
        yield Finding(
            check="locked-pages",
            severity="note",
            summary=f"{format_bytes(confinement.locked_bytes)} of memory are locked: what is new is filled at once",
            evidence=["/proc/self/status VmLck"],
            distorts=["everything on the CPU", "copy", "start-up", "data loading"],
            at_least=0.5,
            at_most=3.0,
            advice="lock what has to be, not everything: leave out mlockall(MCL_FUTURE)",
        )


def locked_memory(place: Place) -> Iterator[Finding]:
    """Whether RDMA can register its buffers. CUDA's pinned memory is not counted in this limit."""
    limits, machine = place.environment.limits, place.environment.machine
    yield from unseen("locked-memory", limits, "memlock_bytes")
    limit = limits.memlock_bytes
    if machine.infiniband and limit is not None and limit < ENOUGH_MEMLOCK_BYTES:
        yield Finding(
            check="locked-memory",
            severity="problem",
            summary=f"only {format_bytes(limit)} may be locked: RDMA cannot register its buffers",
            evidence=["RLIMIT_MEMLOCK", f"adapters: {listed(machine.infiniband)}"],
            distorts=["collective"],
            advice=place.advice(
                "raise the limit (ulimit -l unlimited, /etc/security/limits.conf, LimitMEMLOCK=infinity)",
                engine="--ulimit memlock=-1",
            ),
            fix=[] if place.in_container else ["ulimit -l unlimited"],
        )


def pinned_memory(place: Place) -> Iterator[Finding]:
    """Whether pinned memory is scarce, as under WSL2: Windows grants it, not Linux (CUDA on WSL User Guide)."""
    if place.gpus and WSL_FILE in (place.environment.devices.gpu_files or []):
        yield Finding(
            check="pinned-memory",
            severity="note",
            summary="under WSL2 pinned memory is scarce: allocating it fails at about half of what the machine has",
            evidence=[f"{WSL_FILE} is here"],  # microsoft/WSL#8447
            distorts=["copy", "data loading"],
            advice="pin less, give WSL2 more memory (.wslconfig), or measure under Linux itself",
        )


def memory_limit(place: Place) -> Iterator[Finding]:
    """Whether a limit has ended processes here, or is to be reckoned with."""
    limits, machine = place.environment.limits, place.environment.machine
    yield from unseen("memory-limit", limits, "memory_limit_bytes")
    limit, kills = limits.memory_limit_bytes, limits.out_of_memory_kills
    if kills:
        yield Finding(
            check="memory-limit",
            severity="problem" if limit is not None else "warning",  # by no limit: any program, at any time since boot
            summary=f"{kills} process{'es were' if kills > 1 else ' was'} killed here for want of memory",
            reading=kills,
            evidence=[
                f"control group: {f'limit {format_bytes(limit)}' if limit is not None else 'no limit'}, "
                f"oom_kill {kills}"
            ],
            distorts=["everything on the CPU"],
            advice=place.advice("raise the memory limit of the job, or measure smaller sizes", engine="--memory SIZE"),
        )
    elif limit is not None and (machine.memory_bytes is None or limit < machine.memory_bytes):
        yield Finding(
            check="memory-limit",
            severity="note",
            summary=f"at most {format_bytes(limit)} of the machine's {format_bytes(machine.memory_bytes)}, file cache "
            "and pinned buffers included",
            evidence=["memory.max, memory.high or memory.limit_in_bytes of the control groups"],
        )


def page_cache(place: Place) -> Iterator[Finding]:
    """Whether files are read again and again since the cache counts in a memory limit, or tasks wait for memory."""
    limits, waiting = place.environment.limits, place.contention.memory_waiting_fraction or 0.0
    limit, reread = limits.memory_limit_bytes, limits.reread_bytes or 0
    if limit is not None:
        yield from unseen("page-cache", place.contention, "memory_waiting_fraction")
        yield from unseen("page-cache", limits, "reread_bytes")
    if limit is not None and reread > limit:
        yield _short_of_memory(
            place,
            f"{format_bytes(reread)} of files were read again, as the memory limit had them taken out of the cache",
            reread,
            f"memory.stat workingset_refault_file; limit {format_bytes(limit)}; tasks waited for memory in "
            f"{format_percent(waiting)} of the last 10 s",
        )
    elif waiting > WAITING_FRACTION:
        summary = f"tasks waited for memory in {format_percent(waiting)} of the last 10 s"
        yield _short_of_memory(place, summary, waiting, "memory.pressure or /proc/pressure/memory: some avg10")


def _short_of_memory(place: Place, summary: str, reading: float, evidence: str) -> Finding:
    return Finding(
        check="page-cache",
        severity="warning",
        summary=summary,
        reading=reading,
        evidence=[evidence],
        distorts=["data loading", "start-up", "everything on the CPU"],
        advice=place.advice(
            "raise the memory limit by what is read over and over: the cache of files counts in it",
            engine="--memory SIZE with room for the files that are read",
            kubernetes="a memory limit with room for the files that are read",
        ),
    )
