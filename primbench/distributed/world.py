"""What torchrun, mpirun or srun say, in the environment, of the processes that they started beside this one."""

from __future__ import annotations

import os
import re
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from primbench.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

# Rank, size, rank and size on this host; None where the launcher does not say. Open MPI's and MPICH's before Slurm's:
# within a job of Slurm their daemons are tasks of Slurm, and what they start inherits those names, too.
# torchrun: PyTorch, torch.distributed.run. Open MPI: its FAQ on environment variables. srun: srun(1).
_NAMES: dict[str, tuple[str, str, str, str | None]] = {
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    "mpirun": (
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    "mpiexec": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    "srun": ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", None),
}  # fmt: skip

# Known to the processes of one job. Other users of a cluster can find them out, and lead or follow with them: they can
# have cases measured, and no code run. PRIMBENCH_SECRET is for who needs more than that.
_SHARED = (
    "PRIMBENCH_SECRET", "TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "PMIX_NAMESPACE", "SLURM_JOB_ID",
    "SLURM_STEP_ID",
)  # fmt: skip
COME_S = 120.0  # a file system that many hosts load Python from is slow
_PORTS = range(20_000, 32_000)  # below those that Linux hands out itself


@dataclass(frozen=True)
class Launched:
    """A process among those of one launch."""

    launcher: str
    rank: int
    size: int
    local_rank: int
    local_size: int | None
    """How many of them are on this host; None is not known."""


@dataclass(frozen=True)
class World:
    """The processes of one launch, of which this is one."""

    launcher: str
    rank: int
    size: int
    local_rank: int
    address: str
    """Host on which rank 0 waits for the others."""
    port: int
    """Port on which rank 0 waits."""
    secret: bytes
    """What they have in common, to know each other by."""
    come_s: float = COME_S
    """Time within which they have to be there."""


def launched(variables: Mapping[str, str] = os.environ) -> Launched | None:
    """None for a process that no launcher started, or that is alone. Raises InvalidRequest where a number is none."""
    for launcher, (rank, size, local_rank, local_size) in _NAMES.items():
        if rank in variables and _number(variables, size, 1) > 1:
            if _number(variables, rank, 0) >= _number(variables, size, 1):
                raise InvalidRequest(
                    f"{rank}={variables[rank]} of {size}={variables[size]} in the environment: ranks count from 0; "
                    "unset them, or let a launcher set them"
                )
            return Launched(
                launcher=launcher,
                rank=_number(variables, rank, 0),
                size=_number(variables, size, 1),
                local_rank=_number(variables, local_rank, 0),
                local_size=(_number(variables, local_size, 0) or None) if local_size else None,
            )
    return None


def world(variables: Mapping[str, str] = os.environ) -> World | None:
    """The ranks that a launcher started with this one; None for a process alone. Raises InvalidRequest where they
    could not be found."""
    found = launched(variables)
    if found is None:
        return None
    secret = "\n".join(variables.get(name, "") for name in _SHARED).encode()
    return World(
        launcher=found.launcher,
        rank=found.rank,
        size=found.size,
        local_rank=found.local_rank,
        address=_address(variables, found),
        port=_port(variables, secret),
        secret=secret,
    )


def _number(variables: Mapping[str, str], name: str, default: int) -> int:
    text = variables.get(name, str(default))
    if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII):
        raise InvalidRequest(f"{name}={text!r} in the environment: a launcher sets it to a number; unset it")
    return int(text)


def _address(variables: Mapping[str, str], found: Launched) -> str:
    """The host of rank 0: this one where all are here, or the named one, or the first node of a step of Slurm."""
    if found.local_size == found.size or (
        found.launcher == "srun" and _number(variables, "SLURM_STEP_NUM_NODES", 0) == 1
    ):
        return "127.0.0.1"  # whatever the name of this host, nobody else needs to reach it
    if variables.get("MASTER_ADDR"):
        return _host(variables["MASTER_ADDR"])
    if found.launcher == "srun":
        # node[01-04,07],other: the node that starts the step, in SLURM_LAUNCH_NODE_IPADDR, need not be one of them.
        first = re.match(r"([^,\[]+)(?:\[([0-9]+)[^\]]*\]([^,\[]*))?", variables.get("SLURM_STEP_NODELIST", ""))
        if first is not None:
            return "".join(part or "" for part in first.groups())
    raise InvalidRequest(
        f"{found.size} processes by {found.launcher} on several hosts: set MASTER_ADDR to the host of rank 0"
    )


def _host(name: str) -> str:
    try:
        name.encode("idna")  # as a name is looked up
    except UnicodeError:
        raise InvalidRequest(
            f"MASTER_ADDR={name!r} in the environment: no name of a host: a launcher sets it"
        ) from None
    return name


def _port(variables: Mapping[str, str], secret: bytes) -> int:
    """PRIMBENCH_PORT; else the one after torchrun's own; else one by the name of the job, which no other job has."""
    port = _PORTS[zlib.crc32(secret) % len(_PORTS)]
    if variables.get("PRIMBENCH_PORT"):
        port = _number(variables, "PRIMBENCH_PORT", 0)
    elif variables.get("MASTER_PORT"):
        port = _number(variables, "MASTER_PORT", 0) + 1
    if not 0 < port < 1 << 16:
        raise InvalidRequest(f"port {port} for the processes to meet at: set PRIMBENCH_PORT to a free one below 65536")
    return port
