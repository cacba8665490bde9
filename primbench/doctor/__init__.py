"""What in this place can slow a GPU down: each known cause as a check with its evidence and its cure.

Causes and where they are seen:

1. speculation mitigated because of a seccomp filter: speculation
2. cost of a system call under a filter: system-calls
3. AppArmor, SELinux: security-profile
4. CPU quota: cpu-quota; in each case by Measurement.host.throttled_s
5. CPUs allowed, cores shared, slower kinds of CPUs: cpus-allowed, cpu-kinds, cpu-contention; in each case by
   involuntary switches, pressure and slow_cpus
6. node of threads and buffers: gpu-node, memory-nodes; measured by `primbench numa`, read back in Measurement.pages
7. memory policy denied: memory-policy
8. pages moved by the kernel: numa-balancing
9. small /dev/shm: shared-memory
10. locked memory: locked-memory; memory-limit
11. namespaces: against another place
12. PCI tree hidden: gpu-node, gpu-witnesses, peer-access, machine-kind
13. network: nccl-variables, nccl-files, adapters against another place; its speed by `primbench allreduce`
14. IOMMU, ACS: iommu, peer-access
15. PCIe link: pcie-width, pcie-generation, pcie-replays; its speed by `primbench memcpy`
16. huge pages: huge-pages
17. other libraries: library-copies, preloads, driver-library, c-library, python-build; builds against another place
18. compilers' caches: caches, variables
19. lazy loading: variables
20. persistence mode: persistence
21. multi-process service: mps
22. MIG, vGPU: mig, vgpu
23. how a subset of GPUs is chosen: visible-devices
24. confidential computing: confidential-computing
25. sandboxed kernels: machine-kind
26. clock source: clock
27. power states of CPUs: cpu-frequency
28. clocks, power and heat of GPUs: power-limit, application-clock; in each case by Measurement.gpu
29. file system of the container: root-filesystem; its cost by the start-up times of a worker
30. GPUs that vanish from a container: gpus-visible, gpu-files
31. driver without its compute part: driver-capabilities
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from primbench.doctor import confinement, cpu, gpu, gpu_settings, gpu_topology, memory, nccl, software
from primbench.doctor.finding import Finding, Part, Severity
from primbench.doctor.place import Place, look

__all__ = ["CHECKS", "Finding", "Part", "Place", "Severity", "examine", "look"]


Check = Callable[[Place], Iterator[Finding]]


CHECKS: tuple[Check, ...] = (
    gpu.gpus_visible,
    gpu.gpu_files,
    gpu.driver_capabilities,
    gpu_settings.gpu_setup,
    gpu.mps,
    gpu_topology.gpu_node,
    gpu_topology.gpu_witnesses,
    gpu_topology.peer_access,
    gpu_topology.iommu,
    gpu_topology.visible_devices,
    cpu.cpu_quota,
    cpu.cpus_allowed,
    cpu.cpu_kinds,
    cpu.cpu_contention,
    cpu.cpu_frequency,
    cpu.clock,
    cpu.threads,
    memory.memory_policy,
    memory.memory_nodes,
    memory.numa_balancing,
    memory.huge_pages,
    memory.shared_memory,
    memory.locked_memory,
    memory.memory_limit,
    confinement.runtime,
    confinement.speculation,
    confinement.system_calls,
    confinement.security_profile,
    confinement.machine_kind,
    confinement.kernel_parameters,
    confinement.mitigations,
    confinement.root_filesystem,
    software.library_copies,
    software.preloads,
    software.driver_library,
    software.c_library,
    software.python_build,
    software.caches,
    software.variables,
    nccl.nccl_variables,
    nccl.nccl_files,
)


def examine(place: Place) -> list[Finding]:
    """What every check says of the place, in the checks' order; a check with nothing to say is "ok"."""
    found: list[Finding] = []
    for check in CHECKS:
        name = check.__name__.replace("_", "-")
        said = list(check(place))
        found += said or [Finding(check=name, severity="ok", summary=(check.__doc__ or "").strip())]
    return found
