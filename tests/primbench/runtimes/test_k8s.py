"""The pod that an arm becomes, and what kubectl is told. No cluster is here: a stand-in for kubectl is the edge."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from primbench.errors import BackendUnavailable, InvalidRequest
from primbench.runtimes.afar import FIRST, arm_there
from primbench.runtimes.k8s import REACHED_BY, launch, pod
from primbench.runtimes.table import check
from primbench.spec.arm import Arm, format_arm, parse_arm
from primbench.spec.case import Case
from primbench.spec.method import Method
from primbench.workers.process import WorkerGone, WorkerProcess
from primbench.workers.protocol import Start

WORDS = "k8s:registry/mine:1,node=n1,context=lab,namespace=bench,selector=pool=h100+zone=a,gpus=2,cpus=1.5"
GEMM = Case(
    primitive="gemm",
    parameters={"m": 32, "n": 48, "k": 16},
    backend="numpy",
    device="cpu",
    method=Method(min_time_s=0.005, max_time_s=0.02),
)
STAND_IN = """\
#!/bin/sh
echo "$@" >> {log}
case "$1" in
  exec) while [ "$1" != -- ]; do shift; done; shift; exec "$@" ;;
  {fails}) echo {says} >&2; exit 1 ;;
esac
"""


def test_limits_are_asked_for_and_granted_alike_and_nodes_are_chosen_by_labels() -> None:
    arm = parse_arm(f"{WORDS},memory=4GiB,shm=1GiB,cap-add=SYS_NICE,seccomp=unconfined,network=host")
    assert arm.name == format_arm(arm)
    check(arm)
    spec = pod(arm, "primbench-1")["spec"]
    (container,) = spec["containers"]
    limits = {"cpu": "1.5", "memory": str(4 * 2**30), "nvidia.com/gpu": "2"}
    assert {"limits": limits, "requests": limits} == container["resources"]
    assert ("registry/mine:1", "python3") == (container["image"], container["command"][0])
    assert {"pool": "h100", "zone": "a", "kubernetes.io/hostname": "n1"} == spec["nodeSelector"]
    assert {"capabilities": {"add": ["SYS_NICE"]}, "seccompProfile": {"type": "Unconfined"}} == (
        container["securityContext"]
    )
    assert [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": str(2**30)}}] == spec["volumes"]
    assert (True, "Never") == (spec["hostNetwork"], spec["restartPolicy"])
    assert spec["activeDeadlineSeconds"] > 0


def test_in_the_pod_the_arm_is_a_host_with_what_no_pod_sets() -> None:
    arm = parse_arm(f"{WORDS},python=/opt/python3,nice=5,env.A=1,numa-node=0,name=a")
    assert parse_arm("host:nice=5,env.A=1,numa-node=0,name=a") == arm_there(arm, REACHED_BY)


def test_a_pod_is_made_and_reached_and_deleted_by_the_same_name(tmp_path: Path) -> None:
    made = launch(parse_arm(WORDS), tmp_path, ["python3", "-P", "-m", "primbench.workers.worker"], gpus=False)
    client = ["kubectl", "--context=lab", "--namespace=bench"]
    manifest = msgspec.json.decode((tmp_path / "pod.json").read_bytes())
    name = manifest["metadata"]["name"]
    created, waited = made.before
    assert [*client, "create", f"--filename={tmp_path / 'pod.json'}"] == created
    assert [*client, "wait", f"pod/{name}"] == [*waited[:4], waited[-1]]
    assert [*client, "exec", "--stdin", "--container=worker", name, "--", "python3", "-c", FIRST] == made.worker
    assert [[*client, "delete", "--ignore-not-found", "--now", f"pod/{name}"]] == made.after


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("k8s", "of which image? The words begin with it: k8s:IMAGE"),
        ("k8s:host", "of which image?"),
        ("k8s:mine,network=none", "k8s has no network=none: private or host"),
        ("k8s:mine,selector=h100", "selector=h100: labels of nodes, as pool=h100"),
        ("k8s:mine,context=-x", "context '-x': the name of one"),
        ("k8s:mine,host=far", "host has no host of its own; there is one in ssh"),
        ("podman:gpus=1", "podman has no gpus of its own; there is one in k8s"),
    ],
)
def test_what_is_no_pod_is_refused(words: str, expected: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        check(parse_arm(words))
    assert expected in str(refusal.value)


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """``kubectl(fails, says)``: the calls of a stand-in that runs here what a pod is to run, and fails in one word."""

    def stand_in(fails: str = "never", says: str = "") -> Path:
        log, program = tmp_path / "calls", tmp_path / "kubectl"
        program.write_text(STAND_IN.format(log=log, fails=fails, says=shlex.quote(says)))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        return log

    return stand_in


def pod_arm() -> Arm:
    return parse_arm(f"k8s:mine,python={sys.executable},name=pod")


def calls(log: Path) -> list[str]:
    return [line.split()[0] for line in log.read_text().splitlines()]


@pytest.mark.parametrize("is_killed", [False, True])
def test_the_pod_is_deleted_once_its_worker_has_ended_however_it_did(
    *, is_killed: bool, kubectl: Callable[..., Path]
) -> None:
    log = kubectl()
    worker = WorkerProcess(Start(backend="numpy", device="cpu"), arm=pod_arm())
    if is_killed:
        os.kill(worker.ready.pid, signal.SIGKILL)
        with pytest.raises(WorkerGone, match=r"^worker was killed by SIGKILL"):
            worker.run(GEMM, 20.0)
    else:
        assert "ok" == worker.run(GEMM, 20.0).status
    worker.end()
    assert ["create", "wait", "exec", "delete"] == calls(log)


@pytest.mark.parametrize(
    ("fails", "says", "expected"),
    [
        (
            "create",
            "The connection to the server localhost:8080 was refused - did you specify the right host or port?",
            "kubectl create: The connection .* port\\?: no cluster is reached: see whether `kubectl get pods` works",
        ),
        (
            "wait",
            "error: timed out waiting for the condition on pods/primbench-1",
            "kubectl wait: error: timed out .*: no pod of mine was ready in 55 s: .*`kubectl get events` tells",
        ),
        ("create", 'Error: pods is forbidden: User "me" cannot create', "kubectl create: .*auth can-i create pods"),
    ],
)
def test_why_no_pod_comes_up_is_told_in_one_line(
    fails: str, says: str, expected: str, kubectl: Callable[..., Path]
) -> None:
    log = kubectl(fails, says)
    with pytest.raises(BackendUnavailable, match=f"^arm pod: {expected}[^\n]*$"):
        WorkerProcess(Start(backend="numpy", device="cpu"), arm=pod_arm()).ready  # noqa: B018
    assert "delete" == calls(log)[-1]


def test_without_kubectl_the_arm_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        BackendUnavailable, match=r"^arm pod: kubectl: No such file or directory: see `primbench arms`$"
    ):
        WorkerProcess(Start(backend="numpy", device="cpu"), arm=pod_arm()).ready  # noqa: B018
