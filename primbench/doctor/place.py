"""What is looked at: this place, or one that a file tells of."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from primbench.doctor import contention
from primbench.doctor.contention import Contention
from primbench.doctor.finding import Finding
from primbench.environment import fingerprint
from primbench.environment.fingerprint import Environment
from primbench.errors import FileError, InvalidRequest
from primbench.numa import held, scan
from primbench.numa.held import Held
from primbench.numa.topology import GpuPlace, Node, Topology
from primbench.results import file as results_file
from primbench.runtimes.table import known
from primbench.system.files import was_refused
from primbench.system.jsonlines import UNREADABLE, opened
from primbench.system.processes import check_runs, named, started

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.system.gpu import Gpu
    from primbench.system.meaning import FactId


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """All that the checks know; they read nothing themselves. A part that a file does not hold is empty.

    opened: backend and device that the process which looked had opened, such as "torch cuda:0"; None for a command.
    pid: of another process that was looked at, and what it was called; None where one looked at itself.
    """

    environment: Environment
    topology: Topology = Topology()
    contention: Contention = Contention()
    held: Held = Held()
    opened: str | None = None
    pid: int | None = None
    name: str | None = None

    @property
    def proc(self) -> str:
        """Where Linux tells of the process that is looked at."""
        return f"/proc/{'self' if self.pid is None else self.pid}"

    @property
    def variables(self) -> dict[str, str]:
        """Those that libraries read, as far as they are known."""
        return self.environment.software.variables or {}

    @property
    def nodes(self) -> list[Node]:
        """Memory nodes that are online, without those that are a GPU's memory; [] where none are known."""
        nodes = self.topology.nodes if self.topology.nodes is not None else self.environment.nodes
        return [node for node in nodes or [] if node.gpu is None]

    @property
    def gpus(self) -> list[Gpu]:
        return self.environment.devices.gpus or []

    @property
    def gpu_places(self) -> list[GpuPlace]:
        return self.topology.gpus or []

    @property
    def in_container(self) -> bool:
        """Whether this is known to be a container; False where nothing tells."""
        runtime = self.environment.confinement.runtime
        return runtime is not None and runtime.in_container is True

    @property
    def is_rootless(self) -> bool | None:
        """Whether root in here is another user outside; None where nothing tells."""
        users = self.environment.confinement.user_map
        return None if users is None else not any(line.split()[:2] == ["0", "0"] for line in users)

    @property
    def kernel_version(self) -> tuple[int, int] | None:
        found = re.match(r"([0-9]{1,3})\.([0-9]{1,3})", self.environment.machine.kernel)
        return (int(found[1]), int(found[2])) if found else None

    def advice(self, otherwise: str, *, engine: str, kubernetes: str | None = None) -> str:
        """Words for the runtime in force. engine: options of `docker run`, where it has these; otherwise: where
        the runtime is another one, none, or not known.
        """
        runtime = self.environment.confinement.runtime
        name = runtime.name if runtime is not None else None
        if name in known() and known()[name].engine:
            return f"start the container by `{name} run {engine} ...`"
        return kubernetes if kubernetes is not None and name in ("containerd", "cri-o", "kubernetes") else otherwise


def unseen(place: Place, *facts: FactId) -> Iterator[Finding]:
    """An "unknown" for each part of a place of which some of these facts could not be read; nothing where all could.

    A fact of three parts is one of each GPU. values: name and reason in turn.
    """
    found = [(fact, *each) for fact in facts for each in _missing(place, fact)]
    for part in dict.fromkeys(fact[0] for fact, _, _ in found):
        yield _unknown(place, [each for each in found if each[0][0] == part])


def _unknown(place: Place, found: Sequence[tuple[FactId, str, str]]) -> Finding:
    may_be_seen = place.pid is not None and any(was_refused(reason) for _, _, reason in found)
    return Finding(
        severity="unknown",
        summary="could not be seen",
        about=[*dict.fromkeys(fact for fact, _, _ in found)],
        values=[word for _, *words in found for word in words],
        evidence=[f"{name}: {reason}" for _, name, reason in found],
        advice="look with the rights of root" if may_be_seen else None,
        fix=[f"sudo primbench doctor --pid {place.pid}"] if may_be_seen else [],
    )


def _missing(place: Place, fact: FactId) -> Iterator[tuple[str, str]]:
    """Each fact's name, and why it is not known."""
    part, name = getattr(place, fact[0], None) or getattr(place.environment, fact[0]), fact[-1]
    if len(fact) == 2:
        yield from [(name, part.missing[name])] if name in part.missing else []
        return
    for index, each in enumerate(getattr(part, fact[1]) or ()):
        yield from [(f"{name} of cuda:{index}", each.missing[name])] if name in each.missing else []


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
        results = results_file.read(path)
        for worker in results.workers:
            return Place(environment=worker.environment, opened=f"{worker.backend} {worker.device}")
        return Place(environment=results.header.environment)
    with contextlib.suppress(*UNREADABLE):
        return msgspec.json.decode(text, type=_DoctorFile).place
    with contextlib.suppress(*UNREADABLE):
        return Place(environment=msgspec.json.decode(text, type=Environment))
    raise FileError(
        f"{path}: none of what can be compared with: a file by `primbench doctor --json` or `env --json`, or a results "
        "file, of this version of primbench"
    )
