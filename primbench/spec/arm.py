"""An arm of a study: where and under what limits a worker runs, in words or in a file.

In words: ``RUNTIME:KEY=VALUE,KEY=VALUE``, as in ``podman:cpus=2,seccomp=unconfined``. In a TOML file: a table with the
same keys and ``runtime``, where lists, true and false, and the table ``env`` may be written as such; its runtime on
another machine is ``runtime = ["ssh", "podman"]``.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from primbench.errors import InvalidRequest, near
from primbench.spec.confidential import hidden, is_secret
from primbench.spec.elsewhere import RUNTIME, Machine
from primbench.spec.neighbour import Neighbour
from primbench.spec.placement import Placement
from primbench.spec.settings import ENV, FIELDS, FIRST_KEYS, PLACEMENT, pairs_of, split_words

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

HOST_IMAGE = "host"
"""The image that is the host's own root file system, so that only the container differs."""

MOST_SHOWN, END_SHOWN = 64, 16  # characters of a setting in a name, and of them those at its end
MOST_WEIGHT = 10_000  # of a control group v2

_CAPABILITY = re.compile(r"[A-Z][A-Z_]{1,40}|ALL")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Arm(Machine, msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where workers run. What is None is left as the runtime has it.

    name: as it is shown, unique in a study. runtime: a file of ``primbench.runtimes``. image: its own name of one;
    HOST_IMAGE unless said otherwise, and None on the host.
    cpus: CPUs' worth of time (a quota). cpuset, mems: CPUs and memory nodes. memory_bytes, shm_bytes: at most.
    cpu_weight: against other control groups, of which each has 100 unless told. niceness: of its processes, from -20,
    the first, to 19. processes_max, open_files: at most, threads counted. read_bytes_per_s: from each disk, at most.
    seccomp: "default", "unconfined" or a profile's file; with crun and runc "docker" and "podman" are the filters of
    those. cap_add, cap_drop: capabilities, as "SYS_NICE".
    network, ipc: "private" or "host"; network also "none", but for the host, which has "overlay": there a private one
    or an overlay is between ranks (``primbench.distributed.networks``). cgroup: "private", or "host" for the control
    groups of who starts the worker. root: the host's files are bound, or lie below an overlay. tmpfs: empty folders in
    memory. fuse_overlay: folders of this machine shown through fuse-overlayfs. preload: a library of this machine that
    is put before all others. no_new_privileges: whether a program is denied more than whoever starts it has.
    variables: set in the worker's environment. passed: names of those that are there as they are where the study is
    started: no file and no list of processes has their values. neighbour: what runs in the same place beside its cases.
    """

    image: str | None = None
    placement: Placement = Placement()
    cpus: float | None = None
    cpuset: tuple[int, ...] | None = None
    mems: tuple[int, ...] | None = None
    memory_bytes: int | None = None
    shm_bytes: int | None = None
    cpu_weight: int | None = None
    niceness: int | None = None
    processes_max: int | None = None
    open_files: int | None = None
    read_bytes_per_s: int | None = None
    seccomp: str | None = None
    cap_add: tuple[str, ...] = ()
    cap_drop: tuple[str, ...] = ()
    network: Literal["private", "host", "none", "overlay"] | None = None
    ipc: Literal["private", "host"] | None = None
    cgroup: Literal["private", "host"] | None = None
    root: Literal["bind", "overlay"] | None = None
    tmpfs: tuple[str, ...] = ()
    fuse_overlay: tuple[str, ...] = ()
    preload: str | None = None
    no_new_privileges: Literal["yes", "no"] | None = None
    variables: dict[str, str] = {}
    passed: tuple[str, ...] = ()
    neighbour: Neighbour | None = None

    def __post_init__(self) -> None:
        """Raises InvalidRequest for values that mean nothing in any runtime."""
        usual = None if self.runtime == "host" or self.is_far else HOST_IMAGE
        msgspec.structs.force_setattr(self, "image", (usual if self.image in (None, HOST_IMAGE) else self.image))
        self._check_names()
        self.check_machine()
        self._check_processors()
        self._check_memory()
        self._check_capabilities()
        self._check_files()
        self._check_variables()

    def _check_names(self) -> None:
        if not self.name.isprintable() or not self.name.strip():
            raise InvalidRequest(f"arm name {self.name!r}: printable words, and at least one character")
        if not RUNTIME.fullmatch(self.runtime):
            raise InvalidRequest(f"arm {self.name}: runtime {self.runtime!r}: the name of one, such as podman")
        if self.runtime == "host" and self.image is not None:
            raise InvalidRequest(f"arm {self.name}: the host runs no image: name a runtime, such as podman")
        if self.image is not None and not re.fullmatch(r"[^\s-]\S*", self.image):
            raise InvalidRequest(f"arm {self.name}: image {self.image!r}: the runtime's name of one, or {HOST_IMAGE}")

    def _check_processors(self) -> None:
        if self.cpus is not None and not (self.cpus > 0 and math.isfinite(self.cpus)):
            raise InvalidRequest(f"arm {self.name}: cpus={self.cpus:g}: CPUs' worth of time, more than 0, such as 1.5")
        for key, numbers in (("cpuset", self.cpuset), ("mems", self.mems)):
            if numbers is not None and (not numbers or min(numbers) < 0):
                raise InvalidRequest(f"arm {self.name}: {key}: at least one number, as in 0-3+8")

        if self.cpu_weight is not None and not 1 <= self.cpu_weight <= MOST_WEIGHT:
            raise InvalidRequest(f"arm {self.name}: cpu-weight={self.cpu_weight}: from 1 to {MOST_WEIGHT}, usually 100")

    def _check_memory(self) -> None:
        sizes = (("memory", self.memory_bytes), ("shm", self.shm_bytes), ("read-rate", self.read_bytes_per_s))
        for key, size_bytes in sizes:
            if size_bytes is not None and size_bytes < 1:
                raise InvalidRequest(f"arm {self.name}: {key}: more than 0 bytes, such as 1GiB")
        for key, count in (("pids", self.processes_max), ("nofile", self.open_files)):
            if count is not None and count < 1:
                raise InvalidRequest(f"arm {self.name}: {key}: at least 1, and Python needs some tens")
        if self.shm_bytes is not None and self.ipc == "host":
            raise InvalidRequest(f"arm {self.name}: shm with ipc=host: the host's memory is as it is; leave one out")

    def _check_capabilities(self) -> None:
        for capability in self.cap_add + self.cap_drop:
            if not _CAPABILITY.fullmatch(capability):
                raise InvalidRequest(f"arm {self.name}: capability {capability!r}: its name, such as SYS_NICE")

    def _check_files(self) -> None:
        if self.preload is not None and "LD_PRELOAD" in (*self.variables, *self.passed):
            raise InvalidRequest(f"arm {self.name}: preload with env.LD_PRELOAD: both say the same; leave one out")
        for key, value in (("fuse-overlay", self.fuse_overlay), ("preload", self.preload)):
            if value and self.image not in (None, HOST_IMAGE):
                raise InvalidRequest(f"arm {self.name}: {key} is of this machine's files: leave out image={self.image}")

    def _check_variables(self) -> None:
        for variable, value in [*self.variables.items(), *((name, "") for name in self.passed)]:
            if not _VARIABLE.fullmatch(variable) or "\0" in value:
                raise InvalidRequest(f"arm {self.name}: env.{variable}: a variable's name, such as env.OMP_NUM_THREADS")

    @property
    def on_host_root(self) -> bool:
        """Whether the worker sees the host's own files, libraries and Python among them."""
        return self.runtime == "host" or self.image == HOST_IMAGE


def unknown_runtime(where: str, runtime: str, runtimes: Collection[str]) -> InvalidRequest:
    """The error of an arm whose runtime is none of those there are."""
    return InvalidRequest(f"{where}: runtime {runtime!r}: {near(runtime, runtimes)}there are {', '.join(runtimes)}")


def parse_arm(text: str, runtimes: Collection[str] = ()) -> Arm:
    """The arm of a text such as "podman:image=primbench:cpu,cpus=2".

    runtimes: names of those there are; any will do where none is given. Raises InvalidRequest.
    """
    runtime, colon, settings = text.partition(":")
    if colon and not settings and runtime not in FIRST_KEYS:
        raise InvalidRequest(f"arm {text!r}: after the colon come settings, as in host:cpus=2")
    where = f"arm {hidden(text)!r}"
    if runtimes and runtime not in runtimes:
        raise unknown_runtime(where, runtime, runtimes)
    pairs: list[tuple[str, str | None]] = []
    for setting in split_words(runtime, settings):
        key, equals, value = setting.partition("=")
        if not equals and not key.startswith(ENV):
            raise InvalidRequest(f"{where}: {setting!r} is no KEY=VALUE{_meant(runtime, setting)}")
        pairs.append((key, value if equals else None))
    return _arm(runtime, pairs, where)


def _meant(runtime: str, setting: str) -> str:
    """An image has a tag or a path, and no key has."""
    if runtime != "host" and re.search("[:/]", setting):
        return f": did you mean image={setting}?"
    return f"; the keys are {_known()}"


def arm_of(table: Mapping[str, Any], runtimes: Collection[str] = ()) -> Arm:
    """The arm of a table of a TOML file. runtimes: as ``parse_arm`` takes them. Raises InvalidRequest."""
    runtime, *there = _listed(table.get("runtime", "host"))
    if not isinstance(runtime, str):
        raise InvalidRequest(f"[[arm]] runtime = {runtime!r}: a name in quotes: {', '.join(runtimes)}")
    if runtimes and runtime not in runtimes:
        raise unknown_runtime(f"[[arm]] of {runtime}", runtime, runtimes)
    settings = [*(("runtime", each) for each in there), *((key, table[key]) for key in table if key != "runtime")]
    return _arm(runtime, (pair for key, value in settings for pair in pairs_of(key, value)), f"[[arm]] of {runtime}")


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) and value else [value]


def _arm(runtime: str, pairs: Iterable[tuple[str, str | None]], where: str) -> Arm:
    fields: dict[str, Any] = {}
    placement: dict[str, Any] = {}
    seen: set[str] = set()
    for key, value in pairs:
        if key in seen:
            raise InvalidRequest(f"{where}: {key} is given twice")
        seen.add(key)
        if value is None:
            fields["passed"] = (*fields.get("passed", ()), key.removeprefix(ENV))
        elif key.startswith(ENV):
            fields.setdefault("variables", {})[_not_secret(key, where)] = value
        elif key in PLACEMENT:
            placement[PLACEMENT[key].field] = _parsed(PLACEMENT[key].parse, key, value, where)
        elif key in FIELDS:
            fields[FIELDS[key].field] = _parsed(FIELDS[key].parse, key, value, where)
        else:
            raise InvalidRequest(
                f"{where}: unknown key {key!r}: {near(key, [*PLACEMENT, *FIELDS])}the keys are {_known()}"
            )
    fields["placement"] = Placement(**placement)
    if "name" not in fields:
        fields["name"] = _usual_name(Arm(name=runtime, runtime=runtime, **fields))
    return Arm(runtime=runtime, **fields)


def _not_secret(key: str, where: str) -> str:
    """The name of the variable. Raises InvalidRequest where its value is not to be written down."""
    name = key.removeprefix(ENV)
    if is_secret(name):
        raise InvalidRequest(
            f"{where}: {key}: its value would stand in files and in lists of processes: set {name} in the environment, "
            f"and write {key} without a value ({key} = true in a table)"
        )
    return name


def _parsed(parse: Callable[[str], Any], key: str, value: str, where: str) -> Any:
    try:
        return parse(value)
    except InvalidRequest as error:
        raise InvalidRequest(f"{where}: {key}={value}: {error}") from None


def _known() -> str:
    return ", ".join(["name", *SETTING_KEYS.values(), *PLACEMENT_KEYS])


def format_arm(arm: Arm) -> str:
    """Inverse of ``parse_arm``. Raises InvalidRequest where words cannot say it, a TOML table can."""
    words = _words(arm)
    if arm.name not in (_usual_name(arm), words):  # the latter in files from before long ones were cut
        words += f"{',' if ':' in words else ':'}name={arm.name}"
    if msgspec.structs.replace(parse_arm(words), name=arm.name) != arm:
        raise InvalidRequest(f"arm {arm.name}: a value of it cannot be told from a key: write it as a table of a file")
    return words


def words_of(arm: Arm) -> str:
    """``format_arm`` without the name. Raises as it does."""
    return format_arm(msgspec.structs.replace(arm, name=_usual_name(arm)))


def _usual_name(arm: Arm) -> str:
    """That of an arm which is given none: its words, of long ones, as of an image with its digest, both ends."""
    return _words(arm, _both_ends)


def _both_ends(setting: str) -> str:
    if len(setting) <= MOST_SHOWN:
        return setting
    return f"{setting[: MOST_SHOWN - END_SHOWN - 3]}...{setting[-END_SHOWN:]}"


def _words(arm: Arm, shown: Callable[[str], str] = str) -> str:
    """The settings of an arm as one writes them on the command line, whether or not they can be read back."""
    settings = [] if arm.machine is None else [arm.machine]
    unsaid = {"name", FIRST_KEYS.get(arm.runtime)}
    for table, held in ((FIELDS, arm), (PLACEMENT, arm.placement)):
        for key, setting in table.items():
            value = getattr(held, setting.field)
            if key not in unsaid and value not in (None, ()) and (key, value) != ("image", HOST_IMAGE):
                settings.append(f"{key}={setting.write(value)}")
    settings += [f"{ENV}{name}={value}" for name, value in arm.variables.items()]
    settings += [f"{ENV}{name}" for name in arm.passed]
    return f"{arm.runtime}:{','.join(map(shown, settings))}" if settings else arm.runtime


SETTING_KEYS = {setting.field: key for key, setting in FIELDS.items() if key != "name"} | {"variables": f"{ENV}NAME"}
"""What a runtime has to see to: the fields of an arm, each with its key."""
RULE_OF_SETTING = {"variables": None} | {setting.field: setting.rule for setting in FIELDS.values()}
PLACEMENT_KEYS = tuple(PLACEMENT)
"""What the worker sees to by itself."""


def settings_of(arm: Arm) -> dict[str, str]:
    """The fields that an arm asks its runtime for, each with its key."""
    return {field: key for field, key in SETTING_KEYS.items() if getattr(arm, field) not in (None, (), {})}


def in_words(arm: Arm, field: str) -> str:
    """A field that an arm asks its runtime for, as ``parse_arm`` takes it."""
    if field == "variables":
        return ",".join(f"{ENV}{name}={value}" for name, value in arm.variables.items())
    key = SETTING_KEYS[field]
    return f"{key}={FIELDS[key].write(getattr(arm, field))}"
