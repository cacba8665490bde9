"""A pod of a Kubernetes cluster, by kubectl: made for the worker, which is started in it, and deleted with it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from primbench.runtimes import afar, host
from primbench.runtimes.engine import new_name
from primbench.runtimes.invocation import Invocation, client, options
from primbench.runtimes.runtime import RefusalWords, Runtime, met_by
from primbench.spec.arm import asked

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from primbench.spec.arm import Arm

REACHES = frozenset({"pod", "kubectl"})
REACHED_BY = met_by(REACHES)
READY_WITHIN_S = 55  # image and all
LONGEST_S = 86_400  # after which the cluster ends a pod that nobody was left to delete
CONTAINER = "worker"


def launch(arm: Arm, folder: Path, command: Sequence[str], *, gpus: bool) -> Invocation:
    """In the pod the arm is a host."""
    name, manifest = new_name(), folder / "pod.json"
    manifest.write_bytes(msgspec.json.encode(pod(arm, name)))
    order = afar.order_there(arm, REACHED_BY, command, gpus=gpus)
    kubectl = ["kubectl", *options(arm, "kubectl")]
    return Invocation(
        before=[
            [*kubectl, "create", f"--filename={manifest}"],
            [*kubectl, "wait", "--for=condition=Ready", f"--timeout={READY_WITHIN_S}s", f"pod/{name}"],
        ],
        worker=[*kubectl, "exec", "--stdin", f"--container={CONTAINER}", name, "--", *afar.first_command(arm)],
        first=afar.parcel(order),
        after=[[*kubectl, "delete", "--ignore-not-found", "--now", f"pod/{name}"]],
    )


def pod(arm: Arm, name: str) -> dict[str, Any]:
    """Its manifest, by the reference of the API, core/v1. Until the worker is started in it, it sleeps."""
    amounts: dict[str, str] = {}
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": arm.image,
        "command": [afar.python(arm), "-c", f"import time; time.sleep({LONGEST_S})"],
        "resources": {"limits": amounts, "requests": amounts},  # alike: else CPUs are never the pod's own
        "securityContext": {"capabilities": {}},
    }
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": LONGEST_S,
        "automountServiceAccountToken": False,
        "containers": [container],
        "nodeSelector": {},
        "hostNetwork": False,
        "hostIPC": False,
    }
    for row, value in asked(arm, "pod"):
        if row.pod is not None:
            row.pod(spec, value)
    metadata = {"name": name, "labels": {"app.kubernetes.io/name": "primbench"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _events(arm: Arm) -> str:
    return " ".join(["kubectl", *options(arm, "kubectl"), "get events"])


RUNTIME = Runtime(
    rank=82,
    mechanisms=host.RUNTIME.mechanisms,
    found=partial(client, "kubectl", "version", "--client"),  # no cluster is asked
    launch=launch,
    refusals=(
        RefusalWords(
            r"connect(ion)? to the server|connection refused|context .*(does not exist|was not found)|no configuration",
            lambda arm: "no cluster is reached: see whether `kubectl get pods` works, and name another by context=",
        ),
        RefusalWords(
            r"timed out waiting for the condition|no matching resources",
            lambda arm: (
                f"no pod of {arm.image} was ready in {READY_WITHIN_S} s: that is not pulled yet, or cannot be, or no "
                f"node has what is asked for: `{_events(arm)}` tells"
            ),
        ),
        RefusalWords(
            r"[Ff]orbidden", lambda arm: "see `kubectl auth can-i create pods`, and name a place by namespace="
        ),
        *afar.REFUSALS,
    ),
    gpus="ask for them by gpus=1, and see whether `kubectl describe nodes` shows nvidia.com/gpu",
    needs_image="image=NAME",
    reaches=REACHES,
)
