"""A real Slurm cluster on this machine: daemons, each a node by its name and port."""

from __future__ import annotations

import os
import platform
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ..groups import ahead_of_others
from ..ports import free_port

__all__ = ["ahead_of_others"]

NODES = 6
NEEDED = ("slurmctld", "slurmd", "srun", "munged")
CONFIGURATION = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munged.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdTimeout=20
SlurmctldPort={port}
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
STARTS_WITHIN_S = 60


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the cluster, with a file of each daemon's number, such as slurmd-n2.pid. Skips without Slurm."""
    folder = tmp_path_factory.mktemp("slurm")
    with cluster(folder):
        yield folder


@contextmanager
def cluster(folder: Path, more: str = "") -> Iterator[None]:
    """folder: its own. more: lines of its configuration."""
    if os.geteuid() or not all(map(shutil.which, NEEDED)):
        pytest.skip("needs root, and Slurm: apt-get install slurmctld slurmd slurm-client munge")
    (folder / "state").mkdir()
    (folder / "slurm.conf").write_text(configuration(folder) + more)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
        try:
            start_munge(folder)
            subprocess.run(["slurmctld"], check=True, timeout=STARTS_WITHIN_S)
            for number in range(1, NODES + 1):
                subprocess.run(["slurmd", "-N", f"n{number}"], check=True, timeout=STARTS_WITHIN_S)
            wait_for_nodes()
            yield
        finally:
            for file in folder.glob("*.pid"):
                with suppress(ProcessLookupError, ValueError):
                    os.kill(int(file.read_text()), signal.SIGTERM)


def configuration(folder: Path) -> str:
    ports: set[int] = set()
    while len(ports) < 1 + NODES:
        ports.add(free_port())
    of_controller, *of_nodes = ports
    nodes = [
        f"NodeName=n{number} NodeAddr=127.0.0.1 NodeHostname={platform.node()} Port={port} "
        f"CPUs={os.cpu_count()} RealMemory=1000"
        for number, port in enumerate(of_nodes, 1)
    ]
    return CONFIGURATION.format(host=platform.node(), folder=folder, port=of_controller, nodes="\n".join(nodes))


def start_munge(folder: Path) -> None:
    """A daemon of their own, by which daemons trust each other.

    That of the machine may be another lane's, which ends it, or have left a socket alone, for which slurmd waits.
    """
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))
    paths = [
        f"--{kind}-file={folder}/{name}"
        for kind, name in (("key", key.name), ("pid", "munged.pid"), ("log", "munged.log"), ("seed", "munged.seed"))
    ]
    # By force, since nobody but root reaches the folder, as it should be here.
    subprocess.run(
        ["munged", "--force", f"--socket={folder}/munged.socket", *paths], check=True, timeout=STARTS_WITHIN_S
    )


def wait_for_nodes() -> None:
    deadline = time.monotonic() + STARTS_WITHIN_S
    while True:
        seen = subprocess.run(["sinfo", "-h", "-t", "idle", "-o", "%D"], capture_output=True, text=True, check=False)
        if seen.stdout.strip() == str(NODES):
            return
        assert time.monotonic() < deadline, seen
        time.sleep(0.1)
