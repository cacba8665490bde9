"""What the file of a runtime says: what it can set, how it starts a worker and builds an image, what its words mean.

All of it is data and functions; ``primbench.runtimes.table`` finds the files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from primbench.spec.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from primbench.runtimes.images.builder import Builder
    from primbench.runtimes.invocation import Invocation
    from primbench.spec.arm import Arm


class Launching(Protocol):
    """command: is run inside. folder: an empty one, kept until the worker has ended. gpus: whether it needs them.

    Raises InvalidRequest where an arm asks for what cannot be had.
    """

    def __call__(self, arm: Arm, folder: Path, command: Sequence[str], *, gpus: bool) -> Invocation: ...


class RefusalWords(NamedTuple):
    """said: words with which a runtime starts nothing, as a regular expression. advice: what to do, or None where the
    words mean something else in such an arm.
    """

    said: str
    advice: Callable[[Arm], str | None]


def no_image(said: str, advice: str) -> RefusalWords:
    """The refusal of an image that the runtime does not find. said: its words, a regular expression."""
    return RefusalWords(said, lambda arm: None if arm.on_host_root else f"{advice}, `primbench image` builds one")


class Signs(NamedTuple):
    """What a process in a container of this runtime can see of it. Regular expressions match part of a path.

    variables: that the runtime sets. is_value: whether it sets ``container`` to its own name. group: in
    /proc/self/cgroup. source: of what is mounted on the files that it writes for each container. root: in the options
    of what is mounted on /. mount: where it alone mounts something. marker: a file, below /, that it leaves in folders
    and images, giving every container a process namespace of its own. also_sets: whose variables it sets, too. in_pod:
    whose container it is that looks so, where it is one of a pod.
    """

    variables: tuple[str, ...] = ()
    is_value: bool = False
    group: str | None = None
    source: str | None = None
    root: str | None = None
    mount: str | None = None
    marker: str | None = None
    also_sets: str | None = None
    in_pod: str | None = None


DOCKER_SHM_BYTES = 64 * 2**20
"""Size of /dev/shm where nothing is asked for; that of Podman is a little less."""


class Parts(NamedTuple):
    """How others put together what a runtime makes of the host's own files, so that it can be taken apart.

    runners: those, by its own choice first. shared_memory_bytes: of a container's /dev/shm without options, where it
    has one of its own.
    """

    runners: tuple[str, ...]
    shared_memory_bytes: int = 0


class Runtime(NamedTuple):
    """All there is to know of a runtime but its name, which is that of the file.

    rank: the least is listed first. mechanisms: how it applies settings, by which the table tells what it can set.
    found: why it cannot be used here, or None, and its version. launch: how a worker is started, and what is cleared
    away after it. signs: from inside. gpus: what to do where no GPU is seen in an image. needs_image: how to name one,
    where it starts no container of the host's own root. builder: of images, where it is one. parts: of its containers,
    where others can put them together. is_engine: whether it has the options of `docker run`. reaches: the mechanisms
    by which it reaches another machine, where the rest is what its runtime there has to meet; none where it starts
    workers here.
    """

    rank: int
    mechanisms: frozenset[str]
    found: Callable[[], tuple[str | None, str]]
    launch: Launching
    signs: Signs = Signs()
    refusals: tuple[RefusalWords, ...] = ()
    gpus: str | None = None
    needs_image: str | None = None
    builder: Builder | None = None
    parts: Parts | None = None
    is_engine: bool = False
    reaches: frozenset[str] = frozenset()

    @property
    def settings(self) -> frozenset[str]:
        """Fields of an arm that it can meet."""
        found = met_by(self.mechanisms | self.reaches)
        return frozenset(each for each in found if not (self.needs_image and SETTINGS[each].of_this_machine))

    @property
    def reached_by(self) -> frozenset[str] | None:
        """Fields of an arm by which it reaches another machine; None where it starts workers here."""
        return met_by(self.reaches) if self.reaches else None


def met_by(mechanisms: Collection[str]) -> frozenset[str]:
    """Fields of an arm that one of these mechanisms can apply."""
    return frozenset(field for field, row in SETTINGS.items() if not row.mechanisms.isdisjoint(mechanisms))
