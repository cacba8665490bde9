"""What the real kubectl makes of an arm's pod. It reads and refuses; no cluster is here that would run one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from primbench.errors import BackendUnavailable
from primbench.runtimes.k8s import pod
from primbench.spec.arm import parse_arm
from primbench.workers.process import WorkerProcess
from primbench.workers.protocol import Start

from .programs import program

CLIENT = "apt-get install kubernetes-client"
EVERYTHING = (
    "k8s:mine:1,node=n1,selector=pool=h100,gpus=1,cpus=2,memory=4GiB,shm=1GiB,seccomp=unconfined,cap-add=SYS_NICE,"
    "cap-drop=ALL,network=host"
)
NOWHERE = """\
{"apiVersion": "v1", "kind": "Config", "current-context": "a",
 "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}],
 "contexts": [{"name": "a", "context": {"cluster": "a", "user": ""}}]}
"""


def leaves(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from leaves(each, f"{at}.{key}")
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from leaves(each, f"{at}[{number}]")
    elif value is not False:  # which the client leaves out, since it is so anyway
        yield at, value


def test_the_client_knows_every_field_of_the_manifest(tmp_path: Path) -> None:
    """It reads it as the API's own type, drops what that has not, and writes it again with one request changed."""
    ours, path = pod(parse_arm(EVERYTHING), "primbench-1"), tmp_path / "pod.json"
    path.write_bytes(msgspec.json.encode(ours))
    words = ["set", "resources", "--local", f"--filename={path}", "--requests=cpu=1", "--output=json"]
    done = subprocess.run([program("kubectl", CLIENT), *words], capture_output=True, check=False, timeout=60)
    assert 0 == done.returncode, done.stderr
    theirs = dict(leaves(msgspec.json.decode(done.stdout)))
    changed = {".spec.containers[0].resources.requests.cpu"}
    assert {name: theirs.get(name) for name, _ in leaves(ours) if name not in changed} == {
        name: value for name, value in leaves(ours) if name not in changed
    }


def test_where_no_cluster_is_reached_the_arm_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program("kubectl", CLIENT)
    (tmp_path / "config").write_text(NOWHERE)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    for words in ("k8s:mine,name=pod", "k8s:mine,context=nosuch,name=pod"):
        with pytest.raises(BackendUnavailable, match=r"^arm pod: kubectl .*: no cluster is reached: see [^\n]*$"):
            WorkerProcess(Start(backend="numpy", device="cpu"), arm=parse_arm(words)).ready  # noqa: B018
