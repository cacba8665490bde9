"""Public reports of slow or failing deep learning whose cause was found, and what here names that cause.

Of each the cause, where it is reported, and in what the place in conftest.py would be another, as far as it is read.
named_by: a check of doctor, "check few-cpus", a field of the fingerprint by which two places differ, "field
limits.cpus_allowed", or one of what is recorded with each sample, "measurement clocks_event_reasons". "" where nothing
names it, and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Report(NamedTuple):
    cause: str
    source: str
    named_by: str
    seen: Mapping[str, Any]
    why_not: str = ""


FILTERED = {
    "confinement.seccomp": "filter",
    "confinement.speculation_store_bypass": "thread force mitigated",
    "machine.kernel": "5.4.0-150-generic",
}
NO_GPU = {"devices.gpus": None, "devices.missing": {"gpus": "nvmlInit: NVMLError_Unknown (999)"}}
IN_KUBERNETES = {"runtime": "containerd"}
IN_DOCKER = {"runtime": "docker"}
THROTTLED = {"limits.cpu_quota": 2.0, "limits.throttled_periods": 7, "limits.periods": 9}
FABRIC = {"topology.gpus.0.fabric": "in progress"}
NO_PERSISTENCE = {"devices.gpus.0.persistence": False}
ADAPTERS = {"machine.infiniband": ["mlx5_0"], "limits.memlock_bytes": None}
SMALL_SHM = {"limits.shm_bytes": 2**26}
REFUSED = {"confinement.mbind": "EPERM", "confinement.set_mempolicy": "EPERM"}
BOTH_NODES = {"limits.cpus_allowed": [4, 5, 6, 7, 12, 13, 14, 15]}
ON_9P = {"confinement.filesystems": {"working folder": "9p on /mnt/c"}}
ONE_BUS = ADAPTERS | {"devices.gpus.1.pci_address": "0000:17:01.0", "machine.virtualization": "QEMU Standard PC"}
HAMI = {"software.preloads": {"/etc/ld.so.preload": [{"path": "/usr/local/vgpu/libvgpu.so"}]}}


def kept_in_the_layer(variable: str) -> dict[str, Any]:
    return {
        "confinement.filesystems": {variable: "overlay on /"},
        "software.caches": {variable: "writable"},
        "runtime": "docker",
    }


REPORTS = (
    Report("seccomp filter mitigates speculation", "moby/moby#41389", "check speculation", FILTERED),
    Report("the same, of Python", "PlummersSoftwareLLC/Primes#570", "check speculation", FILTERED),
    Report("the same, by default of the kernel", "docker-library/python#575", "check speculation", FILTERED),
    Report(
        "devices lost when systemd reloads",
        "NVIDIA/nvidia-container-toolkit#48",
        "check gpus-visible",
        NO_GPU | IN_DOCKER,
    ),
    Report(
        "the same under Kubernetes",
        "NVIDIA/nvidia-container-toolkit#1227",
        "check gpus-visible",
        NO_GPU | IN_KUBERNETES,
    ),
    Report(
        "kubelet writes device rules again", "NVIDIA/nvidia-docker#1618", "check gpus-visible", NO_GPU | IN_KUBERNETES
    ),
    Report(
        "rootless needs no-cgroups",
        "NVIDIA/nvidia-container-toolkit#85",
        "check gpus-visible",
        NO_GPU | {"confinement.user_map": ["0 1000 1"], "runtime": "podman"},
    ),
    Report("nvidia-uvm not loaded", "NVIDIA/enroot#106", "check gpu-files", {"devices.gpu_files": ["/dev/nvidia0"]}),
    Report("no fabric manager: 802", "ollama/ollama#12136", "check fabric", FABRIC),
    Report("the same in an image", "aws-samples/aws-deep-learning-ami-ubuntu-dcv-desktop#33", "check fabric", FABRIC),
    Report("fabric manager of another version", "NVIDIA/gpu-operator#1043", "check fabric", FABRIC),
    Report("quota, threads as many as host cores", "kserve/kserve#1031", "check cpu-quota", THROTTLED),
    Report("quota throttles below its limit", "kubernetes/kubernetes#67577", "check cpu-quota", THROTTLED),
    Report(
        "quota on pods with exclusive CPUs",
        "kubernetes/kubernetes#70585",
        "check cpu-quota",
        {"limits.cpu_quota": 8.0, "limits.throttled_periods": 7, "limits.periods": 9},
    ),
    Report(
        "torch's own pool too large for small work",
        "vllm-project/vllm#45124",
        "field software.threads",
        {"software.threads": {"openblas": 14}},
    ),
    Report(
        "libraries count the host's CPUs, not the cpuset's",
        "RBLN-SW/vllm-rbln#512",
        "check threads",
        {"software.threads": {"openmp": 24}},
    ),
    Report(
        "more OpenMP threads than may be started",
        "pytorch/pytorch#193859",
        "check processes",
        {"limits.processes_own_max": 6, "confinement.root_user": False},
    ),
    Report(
        "a hook sets OMP_NUM_THREADS=1",
        "NVIDIA/enroot#185",
        "check threads",
        {"software.variables": {"OMP_NUM_THREADS": "1"}},
    ),
    Report(
        "the image sets OMP_NUM_THREADS=1",
        "aws/deep-learning-containers#997",
        "check threads",
        {"software.variables": {"OMP_NUM_THREADS": "1"}},
    ),
    Report(
        "an srun step has one CPU",
        "Lightning-AI/pytorch-lightning#18650",
        "check few-cpus",
        {"limits.cpus_allowed": [0]},
    ),
    Report(
        "KMP_AFFINITY pins parent and workers to one core",
        "huggingface/accelerate#3911",
        "check variables",
        {"software.variables": {"KMP_AFFINITY": "granularity=fine,compact,1,0"}},
    ),
    Report(
        "recommended KMP_AFFINITY in subprocesses",
        "tensorflow/tensorflow#29354",
        "check variables",
        {"software.variables": {"KMP_AFFINITY": "granularity=fine,verbose,compact,1,0"}},
    ),
    Report(
        "GOMP_CPU_AFFINITY shrinks to its first CPU",
        "pytorch/pytorch#49971",
        "check variables",
        {"software.variables": {"GOMP_CPU_AFFINITY": "0-11"}},
    ),
    Report(
        "PTX compiled at each start",
        "dl-container-registry/furnari-flow#3",
        "check filesystems",
        kept_in_the_layer("CUDA_CACHE_PATH"),
    ),
    Report("the same", "nagadomi/waifu2x#138", "check filesystems", kept_in_the_layer("CUDA_CACHE_PATH")),
    Report(
        "torch.compile's cache on the container's layer",
        "mitchross/talos-argocd-proxmox#1848",
        "check filesystems",
        kept_in_the_layer("TORCHINDUCTOR_CACHE_DIR"),
    ),
    Report("the same", "vllm-project/vllm#49782", "check filesystems", kept_in_the_layer("TRITON_CACHE_DIR")),
    Report("the same", "gpustack/gpustack#5175", "check filesystems", kept_in_the_layer("TRITON_CACHE_DIR")),
    Report(
        "no .pyc in the image, none written",
        "topoteretes/cognee#3051",
        "check bytecode",
        {"software.uncompiled": {"numpy": "PYTHONDONTWRITEBYTECODE or -B"}},
    ),
    Report("no persistence mode", "NVIDIA/nvidia-docker#1279", "check persistence", NO_PERSISTENCE),
    Report("the same, 16 GPUs", "NVIDIA/nvidia-docker#628", "check persistence", NO_PERSISTENCE),
    Report("the same in a virtual machine", "NVIDIA/nvidia-docker#723", "check persistence", NO_PERSISTENCE),
    Report("the same", "NVIDIA/nvidia-container-toolkit#202", "check persistence", NO_PERSISTENCE),
    Report("ACS redirects on root ports", "NVIDIA/nccl#2079", "check acs", {"machine.acs_redirect": ["0000:60:01.1"]}),
    Report("IOMMU translates", "NVIDIA/nccl#257", "check iommu", {"machine.iommu": ["DMA"]}),
    Report("IOMMU in firmware", "vllm-project/vllm#33041", "check iommu", {"machine.iommu": ["DMA-FQ"]}),
    Report(
        "ACS lowers bandwidth between GPUs",
        "aikitoria/open-gpu-kernel-modules#6",
        "check acs",
        {"machine.acs_redirect": ["0000:60:01.1"]},
    ),
    Report(
        "nv_peer_mem not loaded on the host",
        "Mellanox/nv_peer_memory#41",
        "check gpu-direct",
        ADAPTERS | {"devices.driver_is_open": False},
    ),
    Report(
        "the same on one of two nodes", "NVIDIA/nccl#897", "check gpu-direct", ADAPTERS | {"machine.kernel": "5.4.0"}
    ),
    Report("/dev/infiniband not passed in", "aws/aws-ofi-nccl#1020", "check rdma-files", ADAPTERS | IN_DOCKER),
    Report("the same, RoCE", "NVIDIA/nccl#451", "check rdma-files", ADAPTERS | IN_DOCKER),
    Report(
        "network plugin not on the library path",
        "NVIDIA-NeMo/RL#1973",
        "check nccl-plugin",
        {"machine.infiniband_vendors": {"rdmap0s6": "0x1d0f"}},
    ),
    Report(
        "NCCL_NET_PLUGIN names one that is not there",
        "NVIDIA-NeMo/Megatron-Bridge#5033",
        "check nccl-plugin",
        {"software.variables": {"NCCL_NET_PLUGIN": "ofi"}, "software.nccl_plugins": {"ofi": "not found"}},
    ),
    Report(
        "RoCE GID index differs from pod to pod",
        "NVIDIA/nccl#718",
        "check roce-addresses",
        {
            "machine.roce_addresses": ["mlx5_0:1 5 RoCE v2 IPv4"],
            "software.variables": {"NCCL_IB_GID_INDEX": "3"},
        },
    ),
    Report(
        "sparse GID table in a pod",
        "NVIDIA/nccl#1573",
        "check roce-addresses",
        {"machine.roce_addresses": ["mlx5_0:1 0 RoCE v2 IPv6", "mlx5_0:1 7 RoCE v2 IPv4"]},
    ),
    Report(
        "GIDs of shared RDMA do not start at 0",
        "NVIDIA/nccl#551",
        "check roce-addresses",
        {"machine.roce_addresses": ["mlx5_0:1 2 RoCE v2 IPv6", "mlx5_0:1 3 RoCE v2 IPv4"]},
    ),
    Report(
        "ranks in two containers, taken for two hosts",
        "NVIDIA/nccl#248",
        "check against-namespaces",
        {"confinement.namespaces": {"ipc": "ipc:[9]", "net": "net:[2]", "uts": "uts:[9]"}},
    ),
    Report(
        "each container sees one GPU",
        "NVIDIA/nccl#324",
        "check against-gpu-count",
        {"devices.gpus": [{"name": "H200", "uuid": "GPU-0000:17:00.0"}]},
    ),
    Report("/dev/shm of 64 MB", "NVIDIA/nccl#342", "check shared-memory", SMALL_SHM),
    Report("the same", "vllm-project/vllm#1125", "check shared-memory", SMALL_SHM),
    Report("the same, loader's workers", "DIAGNijmegen/rse-grand-challenge#1305", "check shared-memory", SMALL_SHM),
    Report(
        "memory policy refused: NCCL needs /dev/shm",
        "hiyouga/LlamaFactory#9506",
        "check memory-policy",
        REFUSED | {"topology.nodes": [{"id": 0, "cpus": [0], "has_memory": True, "allowed": True}]},
    ),
    Report("mbind refused", "moby/moby#37241", "check memory-policy", REFUSED),
    Report("the same", "containerd/containerd#13610", "check memory-policy", REFUSED),
    Report("the same", "vllm-project/vllm#24016", "check memory-policy", REFUSED),
    Report(
        "RLIMIT_MEMLOCK",
        "NVIDIA/cudf-spark#7632",
        "check locked-memory",
        {"machine.infiniband": ["mlx5_0"], "limits.memlock_bytes": 2**16},
    ),
    Report(
        "the same",
        "NVIDIA/nccl-tests#206",
        "check locked-memory",
        {"machine.infiniband": ["mlx5_0"], "limits.memlock_bytes": 2**16},
    ),
    Report(
        "the same, rootless: not the limit shown",
        "rootless-containers/usernetes#373",
        "",
        {},
        "the limit in force is that of whoever made the user namespace, which nothing in it tells",
    ),
    Report("CPUs of another node", "kubernetes/kubernetes#84749", "check gpu-node", BOTH_NODES),
    Report(
        "nodes not kept for many GPUs",
        "kubernetes/kubernetes#122295",
        "check cpus-allowed",
        {"limits.cpus_allowed": [0, 1, 4, 5], "topology.packages": []},
    ),
    Report("hypervisor hides the PCI tree", "NVIDIA/nccl#1843", "check pci-tree", ONE_BUS),
    Report("no virtual nodes, no topology file", "NVIDIA/nccl-tests#256", "check pci-tree", ONE_BUS),
    Report(
        "topology file of a larger machine",
        "Azure/azhpc-images#327",
        "check nccl-files",
        {"software.files": {"/etc/nccl.conf": "ab" * 32}},
    ),
    Report(
        "pinned memory is scarce under WSL2",
        "microsoft/WSL#8447",
        "check pinned-memory",
        {"devices.gpu_files": ["/dev/dxg"]},
    ),
    Report("data on 9p under /mnt", "microsoft/WSL#4197", "check filesystems", ON_9P),
    Report(
        "the same in Docker",
        "mmartial/ComfyUI-Nvidia-Docker#82",
        "check filesystems",
        {"confinement.far_mounts": {"/basedir": "9p"}},
    ),
    Report("the same", "ollama/ollama#6006", "check filesystems", {"confinement.far_mounts": {"~/.ollama": "9p"}}),
    Report(
        "model mapped from a network volume",
        "Comfy-Org/ComfyUI#2288",
        "check filesystems",
        {"confinement.far_mounts": {"/models": "nfs4"}},
    ),
    Report(
        "the same, Lustre",
        "vllm-project/vllm#24469",
        "check filesystems",
        {"confinement.far_mounts": {"/data": "lustre"}},
    ),
    Report(
        "the same, from page cache",
        "sgl-project/sglang#7469",
        "check filesystems",
        {"confinement.far_mounts": {"/models": "fuse.juicefs"}},
    ),
    Report(
        "the same, block devices of a cloud",
        "safetensors/safetensors#562",
        "check read-ahead",
        {"confinement.read_ahead_bytes": {"temporary files": 16384}},
    ),
    Report(
        "page cache counts in the memory limit",
        "microsoft/pai#5799",
        "check page-cache",
        {"limits.memory_limit_bytes": 2**33, "limits.reread_bytes": 2**36},
    ),
    Report("MemAvailable is the host's", "kekzl/imp#2070", "check memory-limit", {"limits.memory_limit_bytes": 2**33}),
    Report(
        "fuse-overlayfs is one process",
        "freedomofpress/dangerzone#449",
        "check root-filesystem",
        {"confinement.root_filesystem": "fuse.fuse-overlayfs"},
    ),
    Report(
        "overlay image by fuse2fs",
        "apptainer/apptainer#2050",
        "check root-filesystem",
        {"confinement.root_filesystem": "fuse.fuse-overlayfs"},
    ),
    Report("open files without limit", "moby/moby#45060", "check open-files", {"limits.open_files": 2**30}),
    Report("the same", "kubernetes-sigs/kind#4245", "check open-files", {"limits.open_files": 2**30}),
    Report("1024 open files", "pytorch/pytorch#973", "check open-files", {"limits.open_files": 1024}),
    Report("the same in Docker", "lightly-ai/lightly#487", "check open-files", {"limits.open_files": 1024}),
    Report(
        "MPS's client must be its server's user",
        "NVIDIA/nvidia-docker#1543",
        "check mps",
        {"devices.mps_control": True, "devices.mps_of_another": True},
    ),
    Report("MIG reaches no other GPU", "NVIDIA/k8s-device-plugin#296", "check mig", {"devices.gpus.0.mig": True}),
    Report("hooking library in /etc/ld.so.preload", "Project-HAMi/HAMi#1662", "check preloads", HAMI),
    Report("the same hides peers", "Project-HAMi/HAMi#2760", "check preloads", HAMI),
    Report(
        "NVML lists processes of the host's namespace",
        "NVIDIA/nvidia-docker#1483",
        "",
        {},
        "whose process it is cannot be told in a namespace of its own; a measurement says so of its sample",
    ),
    Report(
        "kvm64 hides AVX",
        "t0mer/Find-my-kids#1",
        "check vector-instructions",
        {
            "machine.virtualization": "QEMU Standard PC",
            "machine.vectors": [],
            "machine.cpu_model": "Common KVM processor",
        },
    ),
    Report(
        "KVM hides AVX2: old kernels of BLAS",
        "OpenMathLib/OpenBLAS#2306",
        "check vector-instructions",
        {"machine.virtualization": "QEMU Standard PC", "machine.vectors": ["sse4_2", "avx"]},
    ),
    Report("amd64 image on arm64", "nextstrain/docker-base#35", "check emulation", {"machine.emulator": "qemu-x86_64"}),
    Report("QEMU in place of Rosetta", "docker/for-mac#6641", "check emulation", {"machine.emulator": "qemu-x86_64"}),
    Report("io_uring refused", "moby/moby#47532", "check io-uring", {"confinement.io_uring": "EPERM"}),
    Report("the same", "feldera/feldera#3193", "check io-uring", {"confinement.io_uring": "EPERM"}),
    Report(
        "libcuda for compatibility on a GPU without",
        "oobabooga/textgen#4407",
        "check driver-library",
        {"software.libraries": {"libcuda": [{"path": "/usr/local/cuda/compat/libcuda.so.1"}]}},
    ),
    Report(
        "huge pages for pinned allocation",
        "ikawrakow/ik_llama.cpp#2010",
        "field machine.transparent_hugepage_defrag",
        {"machine.transparent_hugepage_defrag": "always"},
    ),
    Report(
        "clocks held back by power brake or heat",
        "mlfoundations/open_clip#703",
        "measurement clocks_event_reasons",
        {},
    ),
    Report(
        "an editable installation runs code at each start",
        "pypa/setuptools#3548",
        "check against-start-code",
        {"software.start_code": {"__editable__.mine.pth": "SHA-256 cd"}},
    ),
    Report(
        "a finder looks for each module in its own way",
        "PyO3/maturin-import-hook#7",
        "field software.interpreter",
        {"software.interpreter": {"finders": "maturin_import_hook.project_importer.MaturinProjectImporter"}},
    ),
    Report(
        "hundreds of folders in a .pth",
        "aspect-build/rules_py#1376",
        "check search-path",
        {"software.search_path": 404},
    ),
    Report("uprobes on malloc: 100 times", "iovisor/bcc#354", "check probes", {"confinement.probed": True}),
    Report(
        "a scanner looks at each file opened",
        "Cisco-Talos/clamav#1024",
        "check file-opens",
        {"confinement.open_file_s": 40e-6},
    ),
    Report(
        "variables of a thousand services, copied to each process",
        "kubernetes/kubernetes#92615",
        "check environment-size",
        {"software.environment_bytes": 600_000},
    ),
    Report(
        "address space limited: NumPy cannot be mapped",
        "trampgeek/jobeinabox#4",
        "check against-address-space",
        {"limits.address_space_bytes": 2**28},
    ),
    Report(
        "MemoryDenyWriteExecute= of systemd: no page may be executed",
        "pytorch/pytorch#143651",
        "check executable-pages",
        {"confinement.executable_pages": "EACCES"},
    ),
    Report(
        "/tmp mounted noexec: compiled kernels cannot be loaded",
        "pytorch/pytorch#91005",
        "check noexec",
        {"confinement.noexec": ["temporary files", "TORCHINDUCTOR_CACHE_DIR"]},
    ),
    Report(
        "OpenMP places computed for the wrong cores",
        "vllm-project/vllm#43240",
        "check thread-cpus",
        {"limits.thread_cpus": {"0": 15}},
    ),
    Report(
        "a node without memory to spare reads a model again",
        "aws-samples/stable-diffusion-on-eks#18",
        "check page-cache",
        {"contention.reread_bytes_per_s": 2.0**27},
    ),
    Report(
        "8 sockets of one core: one CPU computes",
        "ollama/ollama#7359",
        "check sockets",
        {"machine.cores_by_package": [1] * 8},
    ),
    Report(
        "oneDNN takes its reference for float16",
        "pytorch/pytorch#193951",
        "measurement implementations",
        {},
    ),
    Report(
        "importing torch in gVisor takes 20 to 40 s",
        "AUTOMATIC1111/stable-diffusion-webui#14308",
        "check gvisor",
        {"machine.virtualization": "gVisor"},
    ),
    Report(
        "nvidia_peermem loaded, and not registered",
        "NVIDIA/nccl#1939",
        "check gpu-direct",
        ADAPTERS | {"devices.driver_is_open": False, "machine.peer_memory": ["nvidia_peermem"]},
    ),
)
