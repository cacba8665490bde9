"""A pod of a Kubernetes cluster, by kubectl: made for the worker, which is started in it, and deleted with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from primbench.runtimes import afar, host
from primbench.runtimes.engine import new_name
from primbench.runtimes.invocation import Invocation, answer, options, version
from primbench.runtimes.runtime import Refusal, Runtime

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from primbench.spec.arm import Arm

REACHED_BY = frozenset(
    {
        "image", "python", "context", "namespace", "node", "selector", "gpus", "cpus", "memory_bytes", "shm_bytes",
        "seccomp", "cap_add", "cap_drop", "network", "ipc",
    }
)  # fmt: skip
READY_WITHIN_S = 55  # image and all
LONGEST_S = 86_400  # after which the cluster ends a pod that nobody was left to delete
CONTAINER = "worker"


def found() -> tuple[str | None, str]:
    """Why it cannot be used, or None, and the version of the client here. No cluster is asked."""
    reason, line = answer(["kubectl", "version", "--client"])
    return reason, version(line)


def launch(arm: Arm, folder: Path, command: Sequence[str], *, gpus: bool) -> Invocation:
    """In the pod the arm is a host."""
    name, manifest = new_name(), folder / "pod.json"
    manifest.write_bytes(msgspec.json.encode(pod(arm, name)))
    order = afar.order_there(arm, REACHED_BY, command, gpus=gpus)
    client = ["kubectl", *options([("--context", arm.context), ("--namespace", arm.namespace)])]
    return Invocation(
        before=[
            [*client, "create", f"--filename={manifest}"],
            [*client, "wait", "--for=condition=Ready", f"--timeout={READY_WITHIN_S}s", f"pod/{name}"],
        ],
        worker=[*client, "exec", "--stdin", f"--container={CONTAINER}", name, "--", *afar.first_command(arm)],
        first=afar.parcel(order),
        after=[[*client, "delete", "--ignore-not-found", "--now", f"pod/{name}"]],
    )


def pod(arm: Arm, name: str) -> dict[str, Any]:
    """Its manifest, by the reference of the API, core/v1. Until the worker is started in it, it sleeps."""
    asked = _resources(arm)
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": arm.image,
        "command": [afar.python(arm), "-c", f"import time; time.sleep({LONGEST_S})"],
        "resources": {"limits": asked, "requests": asked},  # alike: else CPUs are never the pod's own
        "securityContext": _security(arm),
    }
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": LONGEST_S,
        "automountServiceAccountToken": False,
        "containers": [container],
        "nodeSelector": _labels(arm),
        "hostNetwork": arm.network == "host",
        "hostIPC": arm.ipc == "host",
    }
    if arm.shm_bytes is not None:
        container["volumeMounts"] = [{"name": "shm", "mountPath": "/dev/shm"}]
        spec["volumes"] = [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": str(arm.shm_bytes)}}]
    metadata = {"name": name, "labels": {"app.kubernetes.io/name": "primbench"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _resources(arm: Arm) -> dict[str, str]:
    asked = {
        "cpu": None if arm.cpus is None else f"{arm.cpus:.12g}",
        "memory": arm.memory_bytes,
        "nvidia.com/gpu": arm.gpus,
    }
    return {name: str(amount) for name, amount in asked.items() if amount is not None}


def _security(arm: Arm) -> dict[str, Any]:
    capabilities = {"add": [*arm.cap_add], "drop": [*arm.cap_drop]}
    found: dict[str, Any] = {"capabilities": {name: each for name, each in capabilities.items() if each}}
    if arm.seccomp is not None:
        of_cluster = {"default": "RuntimeDefault", "unconfined": "Unconfined"}.get(arm.seccomp)
        of_node = {"type": "Localhost", "localhostProfile": arm.seccomp}
        found["seccompProfile"] = {"type": of_cluster} if of_cluster else of_node
    return found


def _labels(arm: Arm) -> dict[str, str]:
    """Which nodes will do."""
    found = dict(label.split("=", 1) for label in arm.selector)
    return found if arm.node is None else {**found, "kubernetes.io/hostname": arm.node}


def _events(arm: Arm) -> str:
    return " ".join(["kubectl", *options([("--context", arm.context), ("--namespace", arm.namespace)]), "get events"])


RUNTIME = Runtime(
    rank=82,
    settings=host.RUNTIME.settings | REACHED_BY,
    found=found,
    launch=launch,
    refusals=(
        Refusal(
            r"connect(ion)? to the server|connection refused|context .*(does not exist|was not found)|no configuration",
            lambda arm: "no cluster is reached: see whether `kubectl get pods` works, and name another by context=",
        ),
        Refusal(
            r"timed out waiting for the condition|no matching resources",
            lambda arm: (
                f"no pod of {arm.image} was ready in {READY_WITHIN_S} s: that is not pulled yet, or cannot be, or no "
                f"node has what is asked for: `{_events(arm)}` tells"
            ),
        ),
        Refusal(r"[Ff]orbidden", lambda arm: "see `kubectl auth can-i create pods`, and name a place by namespace="),
        *afar.REFUSALS,
    ),
    gpus="ask for them by gpus=1, and see whether `kubectl describe nodes` shows nvidia.com/gpu",
    needs_image="image=NAME",
    networks=("private", "host"),
    reached_by=REACHED_BY,
)
