"""An arm of a study: where and under what limits a worker runs, in words or in a file.

In words: ``RUNTIME:KEY=VALUE,KEY=VALUE``, as in ``podman:cpus=2,seccomp=unconfined``. In a TOML file: a table with the
same keys and ``runtime``, where lists, true and false, and the table ``env`` may be written as such; its runtime on
another machine is ``runtime = ["ssh", "podman"]``.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import msgspec

from primbench.errors import InvalidRequest, near
from primbench.spec.confidential import hidden, is_secret
from primbench.spec.neighbour import Neighbour  # noqa: TC001 - msgspec reads it
from primbench.spec.placement import Placement
from primbench.spec.settings import EACH, FIELDS, FIRST_KEYS, PLACEMENT, SETTINGS, each_of, pairs_of, split_words
from primbench.spec.settings.machines import RUNTIME
from primbench.spec.settings.variables import ENV, is_variable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from primbench.spec.setting import Setting

HOST_IMAGE = "host"
"""The image that is the host's own root file system, so that only the container differs."""

MOST_SHOWN, END_SHOWN = 64, 16  # characters of a setting in a name, and of them those at its end


class BareArm(msgspec.Struct, frozen=True, kw_only=True):
    """What an arm is by itself, whatever can be set of it."""

    name: str
    """Its name as it is shown, unique in a study."""
    runtime: str = "host"
    """A file of ``primbench.runtimes``: "host", one that starts containers, or one that reaches another machine, such
    as "ssh".
    """


if TYPE_CHECKING:
    _Settings = BareArm
else:
    _Settings = msgspec.defstruct(
        "_Settings",
        [(row.field, row.kind, row.default) for row in SETTINGS.values()],
        bases=(BareArm,),
        frozen=True,
        kw_only=True,
    )


class Arm(_Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where workers run, with a field for each row of SETTINGS. What is not set is as the runtime has it."""

    placement: Placement = Placement()
    """Of its cases, which the worker sees to."""
    passed: tuple[str, ...] = ()
    """Names of variables that are there as they are where the study is started: no file and no list of processes has
    their values."""
    neighbour: Neighbour | None = None
    """What runs in the same place beside its cases."""
    case: dict[str, str] = {}  # noqa: RUF012 - msgspec makes a new one each time
    """What its cases have otherwise than those of the study, by the names of fields of their problems, or "backend"."""

    if TYPE_CHECKING:

        def __init__(self, *, name: str, **fields: Any) -> None: ...
        def __getattr__(self, field: str) -> Any: ...

    def __post_init__(self) -> None:
        """Raises InvalidRequest for values that mean nothing in any runtime."""
        usual = None if self.runtime == "host" or self.is_far else HOST_IMAGE
        msgspec.structs.force_setattr(self, "image", (usual if self.image in (None, HOST_IMAGE) else self.image))
        if not self.name.isprintable() or not self.name.strip():
            raise InvalidRequest(f"arm name {self.name!r}: printable words, and at least one character")
        wrong = self._wrong_name() or self._wrong_machine()
        wrong = wrong or next(filter(None, map(self._wrong, settings_of(self))), None)
        if wrong is not None:
            raise InvalidRequest(wrong, arm=self.name)

    def _wrong_name(self) -> str | None:
        if not RUNTIME.fullmatch(self.runtime):
            return f"runtime {self.runtime!r}: the name of one, such as podman"
        for name in self.passed:
            if not is_variable(name):
                return f"{ENV.key}.{name}: a variable's name, such as env.OMP_NUM_THREADS"
        return None

    def _wrong_machine(self) -> str | None:
        if self.is_far and self.machine is None:
            first = FIRST_KEYS[self.runtime]
            what, words = "image" if first == "image" else "machine", f"{self.runtime}:{first.upper()}"
            return f"of which {what}? The words begin with it: {words}"
        if self.runtime == "host" and self.image is not None:
            return "the host runs no image: name a runtime, such as podman"
        return None

    def _wrong(self, field: str) -> str | None:
        """What is wrong with a setting."""
        row, value = SETTINGS[field], getattr(self, field)
        if row.of_this_machine and self.image not in (None, HOST_IMAGE):
            return f"{row.key} is of this machine's files: leave out image={self.image}"
        return row.check(value, self) if row.check else None

    @property
    def is_far(self) -> bool:
        """Whether the worker runs on another machine, of which nothing can be looked up here."""
        return self.runtime in FIRST_KEYS

    @property
    def machine(self) -> str | None:
        """By what that is reached; None is this one."""
        found: str | None = getattr(self, FIRST_KEYS[self.runtime]) if self.is_far else None
        return found

    @property
    def ends_on_host(self) -> bool:
        """Whether no container is started, here or there."""
        return ((self.runtime_there or "host") if self.is_far else self.runtime) == "host"

    @property
    def builds(self) -> tuple[str, ...]:
        """The Python and the packages of this machine that it asks for, be a framework among them in another build."""
        own = () if self.python is None or self.is_far else (self.python,)
        return (*own, *self.packages)

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
        if not equals and not key.startswith(f"{ENV.key}."):
            raise InvalidRequest(f"{where}: {setting!r} is no KEY=VALUE{_meant(runtime, setting)}")
        pairs.append((key, value if equals else None))
    return _arm(runtime, pairs, where)


def _meant(runtime: str, setting: str) -> str:
    """An image has a tag or a path, and no key has."""
    if runtime != "host" and re.search("[:/]", setting) and setting.isprintable():
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
            fields["passed"] = (*fields.get("passed", ()), key.partition(".")[2])
        elif found := each_of(key):
            row, name = found
            fields.setdefault(row.field, {})[_not_secret(name, key, where)] = _parsed(row, key, value, where)
        elif key in PLACEMENT:
            placement[PLACEMENT[key].field] = _parsed(PLACEMENT[key], key, value, where)
        elif key in FIELDS:
            fields[FIELDS[key].field] = _parsed(FIELDS[key], key, value, where)
        else:
            names = [*PLACEMENT, *FIELDS, *([f"{ENV.key}.{key}"] if key.isupper() else [])]
            raise InvalidRequest(f"{where}: unknown key {key!r}: {near(key, names)}the keys are {_known()}")
    fields["placement"] = Placement(**placement)
    if "name" not in fields:
        fields["name"] = _usual_name(Arm(name=runtime, runtime=runtime, **fields))
    return Arm(runtime=runtime, **fields)


def _not_secret(name: str, key: str, where: str) -> str:
    """The name of the variable. Raises InvalidRequest where its value is not to be written down."""
    if is_secret(name):
        raise InvalidRequest(
            f"{where}: {key}: its value would stand in files and in lists of processes: set {name} in the environment, "
            f"and write {ENV.key}.{name} without a value ({ENV.key}.{name} = true in a table)"
        )
    return name


def _parsed(row: Setting, key: str, value: str, where: str) -> Any:
    try:
        return row.parse(value)
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
        raise InvalidRequest("a value of it cannot be told from a key: write it as a table of a file", arm=arm.name)
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
    settings = map(shown, [*_first_words(arm), *_last_words(arm)])
    return ":".join(filter(None, (arm.runtime, ",".join(settings))))


def _first_words(arm: Arm) -> Iterator[str]:
    """The machine, and what is set of its own key each."""
    if arm.machine is not None:
        yield arm.machine
    for field, key in settings_of(arm).items():
        if key in FIELDS and key != FIRST_KEYS.get(arm.runtime):
            yield in_words(arm, field)


def _last_words(arm: Arm) -> Iterator[str]:
    """The placement, and what is set of variables."""
    for row in PLACEMENT.values():
        if (value := getattr(arm.placement, row.field)) is not None:
            yield row.said(value)
    for row in EACH.values():
        yield from (row.said({name: value}) for name, value in getattr(arm, row.field).items())
    yield from (f"{ENV.key}.{name}" for name in arm.passed)


SETTING_KEYS = {field: f"{row.key}.NAME" if row.is_each else row.key for field, row in SETTINGS.items()}
"""What a runtime has to see to: the fields of an arm, each with its key."""
PLACEMENT_KEYS = tuple(PLACEMENT)
"""What the worker sees to by itself."""


def settings_of(arm: Arm) -> dict[str, str]:
    """The fields that an arm asks its runtime for, each with its key."""
    return {field: key for field, key in SETTING_KEYS.items() if is_set(arm, SETTINGS[field])}


def is_set(arm: Arm, row: Setting) -> bool:
    value = getattr(arm, row.field)
    return value != row.default and (row.field, value) != ("image", HOST_IMAGE)


def asked(arm: Arm, mechanism: str) -> Iterator[tuple[Setting, Any]]:
    """What an arm asks for that a mechanism can apply: each setting with its value."""
    for row in map(SETTINGS.__getitem__, settings_of(arm)):
        if mechanism in row.mechanisms:
            yield row, getattr(arm, row.field)


def cpus_asked(arm: Arm) -> tuple[int, ...] | None:
    """Numbers of the CPUs that it asks for; None where it may have any."""
    found: tuple[int, ...] | None = arm.affinity or arm.cpuset
    return found


def in_words(arm: Arm, field: str) -> str:
    """A field that an arm asks its runtime for, as ``parse_arm`` takes it."""
    return SETTINGS[field].said(getattr(arm, field))


def is_folder(image: str | None) -> bool:
    """Whether an image is a folder of this machine, named in full."""
    return image is not None and os.path.isabs(image) and os.path.isdir(image)
