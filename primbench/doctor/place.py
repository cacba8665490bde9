"""What is looked at: this place, or one that a file tells of."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from primbench.doctor import contention
from primbench.doctor.contention import Contention
from primbench.environment import fingerprint
from primbench.environment.fingerprint import Environment
from primbench.errors import FileError, InvalidRequest
from primbench.numa import held, scan
from primbench.numa.held import Held
from primbench.numa.topology import GpuPlace, Node, Topology
from primbench.results import file as results_file
from primbench.runtimes.table import known
from primbench.system.jsonlines import UNREADABLE, opened
from primbench.system.processes import check_runs, named, started

if TYPE_CHECKING:
    from primbench.environment.confinement import Confinement
    from primbench.environment.devices import Devices
    from primbench.environment.limits import Limits
    from primbench.environment.machine import Machine
    from primbench.environment.software import Software
    from primbench.gpu.nvidia.gpu import Gpu


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """All that the checks know; they read nothing themselves. A part that a file does not hold is empty."""

    environment: Environment
    topology: Topology = Topology()
    contention: Contention = Contention()
    held: Held = Held()
    opened: str | None = None
    """Backend and device that the process which looked had opened, such as "torch cuda:0"; None for a command."""
    pid: int | None = None
    """Number and name of another process that was looked at; None where one looked at itself."""
    name: str | None = None

    @property
    def machine(self) -> Machine:
        return self.environment.machine

    @property
    def limits(self) -> Limits:
        return self.environment.limits

    @property
    def confinement(self) -> Confinement:
        return self.environment.confinement

    @property
    def software(self) -> Software:
        return self.environment.software

    @property
    def devices(self) -> Devices:
        return self.environment.devices

    @property
    def proc(self) -> str:
        """Where Linux tells of the process that is looked at."""
        return f"/proc/{'self' if self.pid is None else self.pid}"

    @property
    def variables(self) -> dict[str, str]:
        """Those that libraries read, as far as they are known."""
        return self.software.variables or {}

    @property
    def nodes(self) -> list[Node]:
        """Memory nodes that are online, without those that are a GPU's memory; [] where none are known."""
        nodes = self.topology.nodes if self.topology.nodes is not None else self.environment.nodes
        return [node for node in nodes or [] if node.gpu is None]

    @property
    def gpus(self) -> list[Gpu]:
        return self.devices.gpus or []

    @property
    def gpu_places(self) -> list[GpuPlace]:
        return self.topology.gpus or []

    @property
    def in_container(self) -> bool:
        """Whether this is known to be a container; False where nothing tells."""
        runtime = self.confinement.runtime
        return runtime is not None and runtime.in_container is True

    @property
    def is_rootless(self) -> bool | None:
        """Whether root in here is another user outside; None where nothing tells."""
        users = self.confinement.user_map
        return None if users is None else not any(line.split()[:2] == ["0", "0"] for line in users)

    @property
    def kernel_version(self) -> tuple[int, int] | None:
        found = re.match(r"([0-9]{1,3})\.([0-9]{1,3})", self.machine.kernel)
        return (int(found[1]), int(found[2])) if found else None

    def advice(self, otherwise: str, *, engine: str, kubernetes: str | None = None) -> str:
        """Words for the runtime in force. engine: options of `docker run`, where it has these; otherwise: where
        the runtime is another one, none, or not known.
        """
        runtime = self.confinement.runtime
        name = runtime.name if runtime is not None else None
        if name in known() and known()[name].is_engine:
            return f"start the container by `{name} run {engine} ...`"
        return kubernetes if kubernetes is not None and name in ("containerd", "cri-o", "kubernetes") else otherwise


def look(root: Path = Path("/"), pid: int = 0) -> Place:
    """Observe the place of a process, 0 this one. root: of /proc, /sys, /dev and /etc.

    Raises InvalidRequest where there is no process of this number, or no longer when all was read, or it has ended.
    """
    if pid:
        check_runs(root, pid)
    begun = started(root, pid) if pid else None
    place = Place(
        environment=fingerprint.collect(root, pid, gpus=True),
        topology=scan.collect(root, pid),
        contention=contention.collect(root, pid),
        held=held.collect(root, pid),
        pid=pid or None,
        name=named(root, pid) if pid else None,
    )
    if pid and started(root, pid) != begun:
        raise InvalidRequest(f"process {pid}: it ended while it was looked at")
    return place


class _DoctorFile(msgspec.Struct):
    """A file of `doctor --json`, its findings left out."""

    place: Place


_RESULTS = re.compile(rb'\{\s*"kind"\s*:\s*"header"')
_START_BYTES = 4096
_MAX_BYTES = 2**26  # of a document: the largest machine's has some 100 kB, and a device file never ends


def read(path: str) -> Place:
    """The place in a file by `doctor --json`, `env --json`, or in a results file: of its first worker, if it has any.

    Raises FileError where it is none of them.
    """
    try:
        with opened(Path(path)) as file:
            start = file.read(_START_BYTES)
            text = b"" if _RESULTS.match(start) else start + file.read(_MAX_BYTES)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from None
    if _RESULTS.match(start):
        return place_in(results_file.read(path))
    with contextlib.suppress(*UNREADABLE):
        return msgspec.json.decode(text, type=_DoctorFile).place
    with contextlib.suppress(*UNREADABLE):
        return Place(environment=msgspec.json.decode(text, type=Environment))
    raise FileError(
        f"{path}: none of what can be compared with: a file by `primbench doctor --json` or `env --json`, or a results "
        "file, of this version of primbench"
    )


def place_in(results: results_file.Results) -> Place:
    """That of the first worker, or of the command where there is none."""
    for worker in results.workers:
        return Place(environment=worker.environment, opened=f"{worker.backend} {worker.device}")
    return Place(environment=results.header.environment)
