"""Settings of where: the machine, how it is reached, the image. And the placement, which a worker sees to by itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from primbench.errors import InvalidRequest
from primbench.spec.setting import OF_CONTAINER, OF_FILES, ON_CPU, Setting, entry, option
from primbench.spec.values import OneOf, node, numbers, path, whole, write_names, write_numbers
from primbench.system.sandbox import GVISOR, KATA

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.spec.setting import SeenByWorker

RUNTIME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_HOST = re.compile(r"[\w.:@%\[\]/][\w.:@%\[\]/-]*")  # a name, an address or a URI; no option
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*")  # one, and no list of them
_PYTHON = re.compile(r"[^\s~,-][^\s,]*")
_KERNELS = {"runsc": GVISOR, "gvisor": GVISOR, "kata": KATA}
_WORD = re.compile(r"[^\s,-][^\s,]*")


def _is_like(key: str, shape: re.Pattern[str], wanted: str) -> Callable[[str, Any], str | None]:
    return lambda value, arm: None if shape.fullmatch(value) else f"{key} {value!r}: {wanted}"


def _runtime_there(value: str, arm: Any) -> str | None:
    if not arm.is_far:
        return (
            f"runtime={value} is of another machine; an engine's container is started otherwise by oci-runtime={value}"
        )
    return None if RUNTIME.fullmatch(value) else f"runtime {value!r}: the name of one, such as podman"


def _labels(text: str) -> tuple[str, ...]:
    labels = text.split("+")
    if not all(re.fullmatch(r"[A-Za-z0-9][\w./-]*=[\w.-]*", label, re.ASCII) for label in labels):
        raise InvalidRequest("labels of nodes, as pool=h100 or pool=h100+zone=a")
    return tuple(labels)


def _pod_labels(spec: dict[str, Any], labels: tuple[str, ...]) -> None:
    spec["nodeSelector"].update(label.split("=", 1) for label in labels)


def _another_kernel(asked: str, found: str, seen: SeenByWorker) -> str | None:
    """Of runtimes whose usual names say which kernel answers in their containers."""
    expected = next((kernel for name, kernel in _KERNELS.items() if asked.startswith(name)), None)
    return None if expected is None or found.startswith(expected) else f"no {expected}"


FIRST = (
    Setting(
        "host", "host", str | None, "The machine, as ssh knows it: NAME or USER@NAME.", "me@n17", seen_to=("ssh",),
        check=_is_like("host", _HOST, "NAME or USER@NAME, as ssh knows the machine"), is_place=True,
    ),
    Setting(
        "node", "node", str | None, "The node, by the name that Slurm or Kubernetes has for it.", "n17",
        check=_is_like("node", _NODE, "the name of one, such as n17"), seen_to=("slurm",),
        pod=entry("nodeSelector", "kubernetes.io/hostname"), is_place=True,
    ),
    Setting(
        "runtime", "runtime_there", str | None,
        "The runtime on the other machine, whose images and files are meant then.", "podman", is_place=True,
        check=_runtime_there, seen_to=("ssh", "slurm"),
    ),
    Setting(
        "python", "python", str | None,
        "Python that runs what is timed, with the packages that it has; on another machine or in a pod python3 unless "
        "told.",
        "/opt/venv/bin/python", seen_to=("python", "ssh", "slurm", "pod"), is_place=True, programs=bool,
        check=_is_like("python", _PYTHON, "a path, on another machine in full or from the home there"),
    ),
    Setting(
        "config", "ssh_config", str | None, "A file for ssh, in place of those that it reads by itself.",
        "/home/me/ssh_config", parse=path, seen_to=("ssh",), is_place=True,
    ),
    Setting(
        "image", "image", str | None, "The runtime's name of an image; host, the default, is the host's own root.",
        "primbench:cpu", seen_to=("image", "slurm", "pod"), cost="image",
        check=_is_like("image", re.compile(r"[^\s-]\S*"), "the runtime's name of one, or host"),
    ),
)  # fmt: skip
LAST = (
    Setting(
        "oci-runtime", "oci_runtime", str | None,
        "What an engine starts its container by, as it is configured for it; of a pod the class of its runtime.",
        "runsc",
        check=_is_like("oci-runtime", re.compile(r"[\w.][\w.-]*"), "the name of one, such as runsc or kata"),
        options={"docker": option("--runtime"), "podman itself": option("--runtime")}, pod=entry("runtimeClassName"),
        fact=("machine", "virtualization"), unlike=_another_kernel, mend="see what {runtime} has under that name",
        moves=(*ON_CPU, *OF_FILES), programs=bool,
    ),
    Setting(
        "guest-kernel", "guest_kernel", str | None,
        "The kernel of a virtual machine, with its modules beside it; that of this machine unless told.",
        "/tmp/deb/boot/vmlinuz-6.1.0-56-amd64", parse=path, seen_to=("qemu",), is_place=True, programs=bool,
        of_this_machine=True,
    ),
    Setting(
        "gpus", "gpus", int | None, "How many GPUs a pod has.", "1", parse=whole,
        pod=entry(*OF_CONTAINER, "resources", "limits", "nvidia.com/gpu"),
    ),
    Setting(
        "selector", "selector", tuple[str, ...], "Labels that a node of the cluster must have.", "pool=h100+zone=a",
        parse=_labels, write=write_names, default=(), pod=_pod_labels, is_place=True,
    ),
    Setting(
        "context", "context", str | None, "The context of kubectl.", "lab",
        options={"kubectl": option("--context")}, is_place=True,
        check=_is_like("context", _WORD, "the name of one, as `kubectl config get-contexts` shows them"),
    ),
    Setting(
        "namespace", "namespace", str | None, "The namespace of the cluster.", "bench",
        options={"kubectl": option("--namespace")}, is_place=True,
        check=_is_like("namespace", _NODE, "the name of one, as `kubectl get namespaces` shows them"),
    ),
)  # fmt: skip

PLACEMENT = (
    Setting("numa-node", "numa_node", Any, "Node of threads and of memory; auto is that of the device.", "0", node),
    Setting("cpu-node", "cpu_node", Any, "Node whose CPUs threads run on.", "0", whole),
    Setting("cpu-kind", "cpu_kind", Any, "Kind of CPUs, as `primbench topo` names them.", "performance"),
    Setting("mem-node", "mem_nodes", Any, "Nodes of memory.", "0-1", numbers, write_numbers),
    Setting(
        "mem-policy", "mem_policy", Any, "How memory is taken from these nodes.", "interleave",
        OneOf("bind", "preferred", "interleave", "local"),
    ),
    Setting("bind-cpus", "cpus", Any, "CPUs that the worker binds its threads to.", "0-3", numbers, write_numbers),
    Setting("threads", "threads", Any, "Threads of each library's pool.", "4", whole),
)  # fmt: skip
"""What the worker sees to by itself, in every runtime."""
CASE = Setting(
    "case", "case", dict[str, str], "A field of its cases' problems, or their backend, in place of what the study has.",
    "backend=torch", default={},
)  # fmt: skip
"""What is measured, whatever the place."""
