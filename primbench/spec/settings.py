"""The keys of an arm in words: the field that each gives, how its value is read, and how it is written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench.errors import InvalidRequest
from primbench.system.files import format_cpu_list, parse_cpu_list
from primbench.units import format_bytes, parse_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def _amount(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text, re.ASCII):
        raise InvalidRequest("CPUs' worth of time, such as 1.5; which CPUs is cpuset=0-3 or bind-cpus=0-3")
    return float(text)


def _whole(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII):
        raise InvalidRequest("a whole number")
    return int(text)


def _niceness(text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,2}", text, re.ASCII) or not -20 <= int(text) <= 19:
        raise InvalidRequest("from -20, the first to have a CPU, to 19, the last")
    return int(text)


def _list(text: str) -> tuple[int, ...]:
    return parse_cpu_list(text.replace("+", ","))


def _format_list(numbers: Iterable[int]) -> str:
    return format_cpu_list(numbers).replace(",", "+")


def _size(size_bytes: int) -> str:
    short = format_bytes(size_bytes).replace(" ", "")
    return short if "." not in short and parse_size(short) == size_bytes else f"{size_bytes}B"


class OneOf:
    """Reads a value that is one of these words."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def __call__(self, text: str) -> str:
        if text not in self.words:
            raise InvalidRequest(f"there are {', '.join(self.words)}")
        return text


def _node(text: str) -> int | str:
    return text if text == "auto" else _whole(text)


def _paths(text: str) -> tuple[str, ...]:
    return tuple(map(_path, text.split("+")))


def _path(text: str) -> str:
    """None that an option of a runtime or a variable would split."""
    if not re.fullmatch(r"/[^,:+\s\0]+", text):
        raise InvalidRequest("a path in full, without space, comma, colon and plus")
    return text


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.upper().removeprefix("CAP_") for name in text.replace("+", ",").split(","))


def _labels(text: str) -> tuple[str, ...]:
    labels = text.split("+")
    if not all(re.fullmatch(r"[A-Za-z0-9][\w./-]*=[\w.-]*", label, re.ASCII) for label in labels):
        raise InvalidRequest("labels of nodes, as pool=h100 or pool=h100+zone=a")
    return tuple(labels)


class Setting(NamedTuple):
    """How a key is read into a field, and written. rule: as Meaning has it, where no field of the fingerprint tells."""

    field: str
    parse: Callable[[str], Any] = str
    write: Callable[[Any], str] = str
    rule: str | None = None


FIELDS = {
    "name": Setting("name"),
    "host": Setting("host"),
    "node": Setting("node"),
    "runtime": Setting("runtime_there"),
    "python": Setting("python"),
    "config": Setting("ssh_config", _path),
    "image": Setting("image"),
    "cpus": Setting("cpus", _amount, "{:.12g}".format),
    "cpuset": Setting("cpuset", _list, _format_list),
    "mems": Setting("mems", _list, _format_list),
    "cpu-weight": Setting("cpu_weight", _whole, str),
    "nice": Setting("niceness", _niceness, str),
    "memory": Setting("memory_bytes", parse_size, _size),
    "shm": Setting("shm_bytes", parse_size, _size),
    "pids": Setting("processes_max", _whole, str),
    "nofile": Setting("open_files", _whole, str),
    "read-rate": Setting("read_bytes_per_s", parse_size, _size),
    "seccomp": Setting("seccomp"),
    "cap-add": Setting("cap_add", _names, "+".join),
    "cap-drop": Setting("cap_drop", _names, "+".join),
    "network": Setting("network", OneOf("private", "host", "none", "overlay")),
    "ipc": Setting("ipc", OneOf("private", "host")),
    "cgroup": Setting("cgroup", OneOf("private", "host")),
    "root": Setting("root", OneOf("bind", "overlay"), rule="files"),
    "tmpfs": Setting("tmpfs", _paths, "+".join, rule="files"),
    "fuse-overlay": Setting("fuse_overlay", _paths, "+".join, rule="files"),
    "preload": Setting("preload", _path),
    "no-new-privileges": Setting("no_new_privileges", OneOf("yes", "no")),
    "gpus": Setting("gpus", _whole, str),
    "selector": Setting("selector", _labels, "+".join),
    "context": Setting("context"),
    "namespace": Setting("namespace"),
}
PLACEMENT = {
    "numa-node": Setting("numa_node", _node),
    "cpu-node": Setting("cpu_node", _whole),
    "cpu-kind": Setting("cpu_kind"),
    "mem-node": Setting("mem_nodes", _list, _format_list),
    "mem-policy": Setting("mem_policy", OneOf("bind", "preferred", "interleave", "local")),
    "bind-cpus": Setting("cpus", _list, _format_list),
    "threads": Setting("threads", _whole),
}
YES_OR_NO = ("no-new-privileges",)
FIRST_KEYS = {"ssh": "host", "slurm": "node", "k8s": "image"}
"""Runtime of other machines -> the key whose value stands first in an arm's words, without the key: "ssh:HOST"."""
ENV = "env."


_NEXT_KEY = re.compile(
    r",(?=[A-Za-z][\w.-]*=|env\.[A-Za-z_]\w*(?:,|$))"
)  # other commas belong to a value, such as a list


def split_words(runtime: str, settings: str) -> list[str]:
    """Each KEY=VALUE, the first key of a runtime written out."""
    first = FIRST_KEYS.get(runtime)
    if first and settings and "=" not in settings.partition(",")[0]:
        settings = f"{first}={settings}"
    return _NEXT_KEY.split(settings) if settings else []


def pairs_of(key: str, value: Any) -> Iterable[tuple[str, str | None]]:
    """What a line of a table would be in words."""
    if key == "env" and isinstance(value, dict):
        return [(f"{ENV}{name}", None if each is True else _word(name, each)) for name, each in value.items()]
    if isinstance(value, list):
        return [(key, "+".join(_word(key, each) for each in value))]
    return [(key, _word(key, value))]


def _word(key: str, value: Any) -> str:
    if isinstance(value, bool) and key in YES_OR_NO:
        return "yes" if value else "no"
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidRequest(
            f"[[arm]] {key} = {value!r}: neither a text nor a number: write it in quotes, as --arm has it"
        )
    return str(value)


def with_placement_keys(message: str) -> str:
    """The message of a refused placement, its fields by the keys that an arm has for them: "cpus" is a quota there."""
    key_of = {setting.field: key for key, setting in PLACEMENT.items()}
    return re.sub(rf"\b({'|'.join(key_of)})=", lambda found: f"{key_of[found[1]]}=", message)
