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
    """How a runtime says that it starts nothing."""

    said: str
    """Its words, as a regular expression."""
    advice: Callable[[Arm], str | None]
    """What to do in an arm; None where the words mean something else there."""


def no_image(said: str, advice: str) -> RefusalWords:
    """The refusal of an image that the runtime does not find. said: its words, a regular expression."""
    return RefusalWords(said, lambda arm: None if arm.on_host_root else f"{advice}, `primbench image` builds one")


class Signs(NamedTuple):
    """What a process in a container of this runtime can see of it. Regular expressions match part of a path."""

    variables: tuple[str, ...] = ()
    """Variables that the runtime sets."""
    is_value: bool = False
    """Whether it sets the variable ``container`` to its own name."""
    group: str | None = None
    """A regular expression for its groups in /proc/self/cgroup."""
    source: str | None = None
    """A regular expression for the source of what is mounted on the files that it writes for each container."""
    root: str | None = None
    """A regular expression for the options of what is mounted on /."""
    mount: str | None = None
    """Where it alone mounts something."""
    marker: str | None = None
    """A file, by its path below /, that it leaves in folders and images, giving every container a process namespace of
    its own.
    """
    also_sets: str | None = None
    """Another runtime, whose variables it sets, too."""
    in_pod: str | None = None
    """The runtime whose container it is that looks so, where it is one of a pod."""


DOCKER_SHM_BYTES = 64 * 2**20
"""Size of /dev/shm where nothing is asked for; that of Podman is a little less."""


class Parts(NamedTuple):
    """How others put together what a runtime makes of the host's own files, so that it can be taken apart."""

    runners: tuple[str, ...]
    """Which runtimes do, by its own choice first."""
    shared_memory_bytes: int = 0
    """Size of a container's /dev/shm without options, where it has one of its own."""


class Runtime(NamedTuple):
    """All there is to know of a runtime but its name, which is that of the file."""

    rank: int
    """Its place in lists: the least is listed first."""
    mechanisms: frozenset[str]
    """How it applies settings, by which the table of settings tells what it can set."""
    found: Callable[[], tuple[str | None, str]]
    """Tells why it cannot be used here, or None, and its version."""
    launch: Launching
    """Tells how a worker is started, and what is cleared away after it."""
    signs: Signs = Signs()
    """What tells it from inside."""
    refusals: tuple[RefusalWords, ...] = ()
    """Words with which it starts nothing, and what to do then."""
    gpus: str | None = None
    """What to do where no GPU is seen in an image."""
    needs_image: str | None = None
    """How to name an image, of a runtime that starts no container of the host's own root; None of others."""
    builder: Builder | None = None
    """How it builds images; None where it builds none."""
    parts: Parts | None = None
    """How others put its containers together; None where they cannot."""
    is_sandbox: bool = False
    """Whether another kernel than this machine's answers in it, so that it stands in for no container."""
    boots: bool = False
    """Whether it starts a machine, which takes many seconds: nobody is to start one only to see whether it goes."""
    is_engine: bool = False
    """Whether it has the options of `docker run`."""
    reaches: frozenset[str] = frozenset()
    """Mechanisms by which it reaches another machine, where the rest is what its runtime there has to meet; none where
    it starts workers here.
    """

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
