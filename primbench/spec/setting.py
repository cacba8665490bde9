"""What one row of the table of settings says: all that there is to know of a setting of an arm."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from pathlib import Path

FactPath = tuple[str, ...]
"""The id of a fact of a place: where it stands in the fingerprint, such as ("limits", "cpu_quota")."""

Activity = Literal["launch", "copy", "kernel", "collective", "start-up", "data loading", "everything on the CPU"]
"""A part of what a job does that a setting can move, and a cause slow."""

WAITING: tuple[Activity, ...] = ("launch", "everything on the CPU")
ON_CPU: tuple[Activity, ...] = (*WAITING, "copy", "collective")
OF_FILES: tuple[Activity, ...] = ("start-up", "data loading")

Pairs = Iterable[tuple[str, object]]
"""Names with values; of a name whose value is None nothing is said."""


class ControlGroup(NamedTuple):
    """How control groups hold a process to a setting, given its value and the root below which /sys is.

    controller: of version 1, by its name there. v1, v2: files and what is written to them. systemd: properties of a
    unit, as systemd.resource-control(5) has them.
    """

    controller: str
    v1: Callable[[Any, Path], Pairs]
    v2: Callable[[Any, Path], Pairs]
    systemd: Callable[[Any, Path], Pairs]


class Container(Protocol):
    """What crun or runc is told of a container, as a row changes it."""

    arm: Any
    config: dict[str, Any]
    """As config.json of the OCI runtime specification holds it."""
    capabilities: set[str]
    """Those that it holds, such as "CAP_KILL"."""
    is_overlay: bool
    """Whether the host's folders lie below an overlay."""

    def limit(self, resource: str, **amounts: object) -> None: ...
    def share(self, namespace: str, *folders: str) -> None: ...
    def mount(self, point: str) -> dict[str, Any]: ...
    def filter_by(self, name: str) -> None: ...
    def leave_groups(self) -> None: ...


class Surroundings(Protocol):
    """The variables that a worker is started with, as a row changes them."""

    values: dict[str, str]

    def shown(self, path: str) -> str:
        """Where the worker sees a file of this machine."""


class SeenByWorker(Protocol):
    """What a worker found, beside what its arm asked for. arm: with the placement of its cases. cpus: it may run on."""

    arm: Any
    cpus: set[int]

    def there(self, *fact: str) -> Any:
        """A fact of its place; None where that is not known."""

    def here(self, name: str) -> Any:
        """What the process that started it has of the same, if anything is known of that."""

    def recorded(self, name: str, value: str) -> str | None:
        """A variable's value as it is recorded of a place; None of one that is not, or that a runtime writes anew."""


class ContainerIngredient(NamedTuple):
    """Of a container that `primbench ablate` puts together: settings of one name are added together.

    rank: the least is added first. bare: the value before; None leaves the setting out. usual: that of a container of
    an engine, by the engine's name and the size of its /dev/shm; None where a container has it only when it is asked
    to. asked: what the option that asks for it says, where there is one.
    """

    rank: int
    name: str
    bare: Any = None
    usual: Callable[[str, int], Any] | None = None
    asked: str = ""


class Setting(NamedTuple):
    """key, field: its name in words, and in a results file. kind: type of its values. parse, write: from a word and to
    one; of several in a list each. what: one sentence. example: a value in words.

    check: what is wrong with a value in an arm, from the key on; None where nothing is.

    How it is applied, by each mechanism that can; None where that one cannot. options: of programs, by their names.
    oci: changes what crun and runc are told. group: control groups on the machine itself. process: what a process does
    to itself before it becomes another program, all that it starts included. pod: changes the manifest of a pod, given
    the specification and the container in it. surroundings: changes the variables of the worker. seen_to: further
    mechanisms, which see to it in code of their own. values: mechanism -> the values that it can meet, where not all.

    shows: facts whose difference between two places is that of the setting, the first of which tells whether it was
    applied; fact: that one, where it is another. unlike: what the worker found, in words, where that is not what was
    asked for, given the value asked for and that fact. unlimited: that fact is None where there is no limit, and not
    where it is unknown. mend: what to do then. rule: as Meaning has it, where no fact tells.

    moves: parts of workloads that it can move. without: an arm's settings without it, by field. is_alone: processes
    that take turns would not show it. ingredient: of a container. programs: whether a value has programs run that are
    not here already. of_this_machine: it names files of this machine, which no other image has. is_place: it is told by
    what is found there. cost: what has to be new to change it.
    """

    key: str
    field: str
    kind: Any
    what: str
    example: str
    parse: Callable[[str], Any] = str
    write: Callable[[Any], str] = str
    default: Any = None
    check: Callable[[Any, Any], str | None] | None = None
    options: Mapping[str, Callable[[Any], Pairs]] = {}
    oci: Callable[[Container, Any], None] | None = None
    group: ControlGroup | None = None
    process: Callable[[Any], None] | None = None
    pod: Callable[[dict[str, Any], dict[str, Any], Any], None] | None = None
    surroundings: Callable[[Surroundings, Any], None] | None = None
    seen_to: tuple[str, ...] = ()
    values: Mapping[str, tuple[str, ...]] = {}
    shows: tuple[FactPath, ...] = ()
    fact: FactPath | None = None
    unlike: Callable[[Any, Any, SeenByWorker], str | None] | None = None
    unlimited: bool = False
    mend: str | None = None
    rule: str | None = None
    moves: tuple[Activity, ...] = ()
    without: Callable[[Any], dict[str, Any]] | None = None
    is_alone: bool = False
    ingredient: ContainerIngredient | None = None
    programs: Callable[[Any], bool] | None = None
    of_this_machine: bool = False
    is_place: bool = False
    cost: Literal["worker", "image"] = "worker"

    @property
    def mechanisms(self) -> frozenset[str]:
        """All by which it can be applied."""
        own = ("oci", "group", "process", "pod", "surroundings")
        return frozenset({*self.options, *self.seen_to, *(name for name in own if getattr(self, name) is not None)})

    @property
    def checked(self) -> FactPath | None:
        """The fact that tells whether it was applied."""
        return self.fact or next(iter(self.shows), None)

    @property
    def said_as(self) -> str:
        """The example as it stands in an arm's words."""
        return f"{self.key}.{self.example}" if self.is_each else f"{self.key}={self.example}"

    @property
    def is_each(self) -> bool:
        """Whether it is of variables, each of which has a key of its own: KEY.NAME=VALUE."""
        return bool(self.kind == dict[str, str])

    def shown(self, value: Any) -> str:
        """The value alone."""
        if self.is_each:
            return ",".join(f"{name}={self.write(each)}" for name, each in value.items())
        return self.write(value)

    def said(self, value: Any) -> str:
        """As it stands in an arm's words."""
        if self.is_each:
            return ",".join(f"{self.key}.{name}={self.write(each)}" for name, each in value.items())
        return f"{self.key}={self.write(value)}"


def takes_none(field: str) -> Callable[[Any], dict[str, Any]]:
    """``without`` of a setting that is left out."""
    return lambda arm: {field: None}


def positive(key: str, wanted: str) -> Callable[[Any, Any], str | None]:
    """``check`` of a number of at least 1."""
    return lambda value, arm: None if value >= 1 else f"{key}: {wanted}"


def engines(of_value: Callable[[Any], Pairs]) -> dict[str, Callable[[Any], Pairs]]:
    """``options`` that Docker and Podman have alike."""
    return {"docker": of_value, "podman": of_value}


def option(name: str, write: Callable[[Any], object] = str) -> Callable[[Any], Pairs]:
    """One option, with the value in a form of its own."""
    return lambda value: [(name, write(value))]
