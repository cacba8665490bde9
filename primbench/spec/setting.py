"""What one row of the table of settings says: all that there is to know of a setting of an arm."""

from __future__ import annotations

import functools
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
    """How control groups hold a process to a setting. Functions take its value and the root below which /sys is."""

    controller: str
    """Of version 1, by its name there."""
    v1: Callable[[Any, Path], Pairs]
    """Files of version 1, and what is written to them."""
    v2: Callable[[Any, Path], Pairs]
    """The same of version 2."""
    systemd: Callable[[Any, Path], Pairs]
    """Properties of a unit, as systemd.resource-control(5) has them."""


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

    def linked(self, places: Mapping[str, str]) -> str:
        """A folder in which the worker sees files and folders of this machine, by their paths in there."""


class PlacedFile(NamedTuple):
    """A file or folder of this machine that a worker sees in place of another, read-only."""

    path: str
    """Its path on this machine."""
    at: tuple[str, ...]
    """Paths in full where it is seen, of those that there are; or a name by which the dynamic loader finds it before
    others.
    """


class SeenByWorker(Protocol):
    """What a worker found, beside what its arm asked for."""

    arm: Any
    """The arm, with the placement of its cases."""
    cpus: set[int]
    """Numbers of the CPUs that it may run on."""

    def there(self, *fact: str) -> Any:
        """A fact of its place; None where that is not known."""

    def here(self, name: str) -> Any:
        """What the process that started it has of the same, if anything is known of that."""

    def recorded(self, name: str, value: str) -> str | None:
        """A variable's value as it is recorded of a place; None of one that is not, or that a runtime writes anew."""


class ContainerIngredient(NamedTuple):
    """Of a container that is put together as a runtime does it, where `primbench why` asks about that."""

    name: str
    """Settings of one name are moved together."""
    bare: Any
    """The value in the least of a container; None leaves the setting out."""
    usual: Callable[[str, int], Any]
    """That of an engine's container, by the engine's name and the bytes of its /dev/shm."""
    others: Mapping[str, Any] = {}
    """That of a runtime which is no engine, by its name; of others the bare one."""

    def of(self, runtime: str, shared_memory_bytes: int, *, is_engine: bool) -> Any:
        """The value in a container of a runtime."""
        return self.usual(runtime, shared_memory_bytes) if is_engine else self.others.get(runtime, self.bare)


class Setting(NamedTuple):
    """One row of the table. A setting is applied by each mechanism that can; a runtime says which it has.

    Where a function takes an arm beside the value, that is the whole arm (``primbench/spec/arm.py``).
    """

    key: str
    """Its name in words: "cpu-weight"."""
    field: str
    """The same in a results file, where it is a field of an arm."""
    kind: Any
    """The type of its values, None where it may be left out; dict[str, str] is one value for each of several names."""
    what: str
    """One sentence for people."""
    example: str
    """A value in words."""
    parse: Callable[[str], Any] = str
    """From a word to a value; raises InvalidRequest. Those that several rows use are in ``primbench/spec/values.py``.
    """
    write: Callable[[Any], str] = str
    """From a value back to that word."""
    default: Any = None
    """The value where it is not set."""
    named: Callable[[str], str] = str
    """Of an entry of several, what no two can be of at once."""
    one_by_one: Callable[[Any, Any], Any] | None = None
    """Of several, where one word stands for many: of the value and the arm, the same with each by its own name. They
    share how likely the setting is a cause."""
    check: Callable[[Any, Any], str | None] | None = None
    """Of the value and the arm: what is wrong, from the key on; None where nothing is."""

    options: Mapping[str, Callable[[Any], Pairs]] = {}
    """Mechanism "docker", "podman" or "apptainer" -> options of that program."""
    oci: Callable[[Container, Any], None] | None = None
    """Changes what crun and runc are told."""
    group: ControlGroup | None = None
    """By a control group of this machine."""
    process: Callable[[Any], None] | None = None
    """What a process does to itself, before it becomes the worker: all that this starts inherits it."""
    pod: Callable[[dict[str, Any], Any], None] | None = None
    """Changes the specification of a pod."""
    surroundings: Callable[[Surroundings, Any], None] | None = None
    """Changes the variables that the worker is started with."""
    files: Callable[[Any], Iterable[PlacedFile]] | None = None
    """Files of this machine that the worker sees elsewhere."""
    seen_to: tuple[str, ...] = ()
    """Further mechanisms, which see to it in code of their own."""
    values: Mapping[str, tuple[str, ...]] = {}
    """Mechanism -> the values that it can meet, where not all."""

    shows: tuple[FactPath, ...] = ()
    """Facts whose difference between two places is that of the setting; the first tells whether it was applied."""
    fact: FactPath | None = None
    """What tells that, where it is another one."""
    unlike: Callable[[Any, Any, SeenByWorker], str | None] | None = None
    """Of the value asked for and of that fact: what the worker found, in words, where that is not it; else None."""
    unlimited: bool = False
    """Whether that fact is None where there is no limit, and not where it is unknown."""
    recorded: Callable[[Any], Any] | None = None
    """From the fact that tells that, as it was recorded of a place, back to a value; None where none makes it so. Of a
    setting of variables: of one of them."""
    mend: str | None = None
    """What to do where it was not applied; {runtime} and {key} stand for the arm's, {who} for its runtime or image."""
    rule: str | None = None
    """The id of the cause that it is, where no fact tells, by whose ``rule`` that is known."""

    moves: tuple[Activity, ...] = ()
    """Parts of workloads that it can move."""
    without: Callable[[Any], dict[str, Any]] | None = None
    """Of an arm: its fields without the setting, where that is more than the default of its own; by these the next
    experiment takes it away."""
    is_alone: bool = False
    """Whether processes that take turns would not show it."""
    ingredient: ContainerIngredient | None = None
    """Where it is one of what makes a container."""
    programs: Callable[[Any], bool] | None = None
    """Whether a value has programs run that are not here already."""
    of_this_machine: bool = False
    """Whether it names files of this machine, which no other image has."""
    of_gpu: bool = False
    """Whether it is of a GPU, and of no case on a CPU."""
    is_place: bool = False
    """Whether it is told by what is found there, and not as a setting."""
    cost: Literal["worker", "image"] = "worker"
    """What has to be new to change it."""

    @property
    def mechanisms(self) -> frozenset[str]:
        """All by which it can be applied."""
        own = ("oci", "group", "process", "pod", "surroundings", "files")
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

    def left_out(self, arm: Any) -> dict[str, Any]:
        """An arm's settings without it, by field."""
        return self.without(arm) if self.without else {self.field: self.default}

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


def as_found(found: Any) -> Any:
    """``recorded`` where the fact is the value."""
    return found


def positive(key: str, wanted: str) -> Callable[[Any, Any], str | None]:
    """``check`` of a number of at least 1."""
    return lambda value, arm: None if value >= 1 else f"{key}: {wanted}"


def engines(of_value: Callable[[Any], Pairs]) -> dict[str, Callable[[Any], Pairs]]:
    """``options`` that Docker and Podman have alike."""
    return {"docker": of_value, "podman": of_value}


def option(name: str, write: Callable[[Any], object] = str) -> Callable[[Any], Pairs]:
    """One option, with the value in a form of its own."""
    return lambda value: [(name, write(value))]


def one_file(controller: str, v1: str, v2: str, systemd: str, write: Callable[[Any], object] = str) -> ControlGroup:
    """``group`` of a value that is in one file of each version, and in one property, in the same form."""
    files = (lambda value, root, name=name: [(name, write(value))] for name in (v1, v2, systemd))
    return ControlGroup(controller, *files)


OF_CONTAINER = ("containers", 0)
"""Where the specification of a pod has the worker's container."""


def entry(*path: str | int, write: Callable[[Any], object] = str) -> Callable[[dict[str, Any], Any], None]:
    """``pod`` of a value that is in one place of the specification."""
    *way, last = path

    def change(spec: Any, value: Any) -> None:
        functools.reduce(lambda held, name: held[name], way, spec)[last] = write(value)

    return change
