"""A real Slurm cluster on this machine: three daemons, each a node by its name and port."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ..groups import ahead_of_others

__all__ = ["ahead_of_others"]

NODES = 3
NEEDED = ("slurmctld", "slurmd", "srun", "munged")
CONFIGURATION = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
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
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
PORT = 26817


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the cluster, with a file of each daemon's number, such as slurmd-n2.pid. Skips without Slurm."""
    folder = tmp_path_factory.mktemp("slurm")
    with cluster(folder, PORT):
        yield folder


@contextmanager
def cluster(folder: Path, port: int, more: str = "") -> Iterator[None]:
    """folder: an empty one. port: the first of NODES + 1. more: lines of its configuration."""
    if os.geteuid() or not all(map(shutil.which, NEEDED)):
        pytest.skip("needs root, and Slurm: apt-get install slurmctld slurmd slurm-client munge")
    (folder / "state").mkdir()
    nodes = [
        f"NodeName=n{number} NodeAddr=127.0.0.1 NodeHostname={platform.node()} Port={port + number} "
        f"CPUs={os.cpu_count()} RealMemory=1000\n"
        for number in range(1, NODES + 1)
    ]
    head, partition = CONFIGURATION.rsplit("PartitionName", 1)
    text = (
        f"{head.format(host=platform.node(), folder=folder, port=port)}{''.join(nodes)}PartitionName{partition}{more}"
    )
    (folder / "slurm.conf").write_text(text)
    with munge(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
        try:
            subprocess.run(["slurmctld"], check=True, timeout=30)
            for number in range(1, NODES + 1):
                subprocess.run(["slurmd", "-N", f"n{number}"], check=True, timeout=30)
            wait_for_nodes()
            yield
        finally:
            for file in folder.glob("*.pid"):
                with suppress(ProcessLookupError, ValueError):
                    os.kill(int(file.read_text()), signal.SIGTERM)


@contextmanager
def munge() -> Iterator[None]:
    """Munge's daemon, by which daemons trust each other; where one runs already, that one."""
    if Path("/run/munge/munge.socket.2").is_socket():
        yield
        return
    subprocess.run(["install", "-d", "-o", "munge", "/run/munge"], check=True)
    subprocess.run(["su", "-s", "/bin/sh", "munge", "-c", shutil.which("munged") or ""], check=True, timeout=30)
    yield
    with suppress(OSError, ValueError):
        os.kill(int(Path("/run/munge/munged.pid").read_text()), signal.SIGTERM)


def wait_for_nodes() -> None:
    deadline = time.monotonic() + 30
    while True:
        seen = subprocess.run(["sinfo", "-h", "-t", "idle", "-o", "%D"], capture_output=True, text=True, check=False)
        if seen.stdout.strip() == str(NODES):
            return
        assert time.monotonic() < deadline, seen
        time.sleep(0.1)
