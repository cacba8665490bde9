"""Settings that a process gives itself before it becomes the worker, and that all it starts inherits."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import resource
from typing import TYPE_CHECKING, Any, Literal

from primbench.errors import InvalidRequest
from primbench.spec.setting import OF_FILES, ON_CPU, WAITING, Setting, as_found, engines, option
from primbench.spec.settings.processor import other_cpus, some_numbers
from primbench.spec.values import (
    NO_LIMIT,
    OneOf,
    numbers,
    unlimited,
    whole,
    write_numbers,
    write_size,
    write_unlimited,
)
from primbench.system.files import format_cpu_list
from primbench.system.prctl import MDWE_REFUSE_EXEC_GAIN, SET_MDWE, SET_THP_DISABLE, SET_TIMERSLACK, prctl
from primbench.units import parse_duration, parse_size

if TYPE_CHECKING:
    from primbench.spec.setting import Activity, Container, FactPath, Pairs, SeenByWorker

_POLICIES = {
    "other": os.SCHED_OTHER, "batch": os.SCHED_BATCH, "idle": os.SCHED_IDLE, "fifo": os.SCHED_FIFO, "rr": os.SCHED_RR,
}  # fmt: skip
_REAL_TIME = ("fifo", "rr")
NS = 1_000_000_000
_UNITS_NS = {"s": NS, "ms": 1_000_000, "us": 1000, "ns": 1}
MOST_SLACK_NS = 2**32 - 1
_ALL_BITS = 2**64 - 1  # how the OCI specification writes that there is no limit


def _schedule(policy: str) -> None:
    """With the least priority of those that have one."""
    os.sched_setscheduler(0, _POLICIES[policy], os.sched_param(1 if policy in _REAL_TIME else 0))


def _bind(cpus: tuple[int, ...]) -> None:
    """The kernel drops CPUs that a cpuset forbids, and reports success where any is left."""
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, cpus)
    granted = os.sched_getaffinity(0)
    if granted != {*cpus}:
        raise OSError(errno.EINVAL, f"the kernel grants CPUs {format_cpu_list(granted)} alone")


def _bindable(found: list[int]) -> tuple[int, ...] | None:
    """CPUs of that machine by their numbers, where these are here, too."""
    return tuple(found) if {*found} <= os.sched_getaffinity(0) else None


def _octal(text: str) -> str:
    if not re.fullmatch(r"0?[0-7]{3}", text, re.ASCII):
        raise InvalidRequest("permissions that new files do not get, in octal, such as 077")
    return f"0{text[-3:]}"


def _mask(container: Container, umask: str) -> None:
    container.config["process"]["user"]["umask"] = int(umask, 8)


def _slack_ns(text: str) -> int:
    found = round(parse_duration(text) * NS)
    if not 1 <= found <= MOST_SLACK_NS:
        raise InvalidRequest("from 1ns to 4s; Linux has 50us unless told")
    return found


def _write_slack(slack_ns: int) -> str:
    unit = next(unit for unit, in_ns in _UNITS_NS.items() if slack_ns % in_ns == 0)
    return f"{slack_ns // _UNITS_NS[unit]}{unit}"


def _is_met(asked: Any, found: Any, seen: SeenByWorker) -> str | None:
    return None if found == asked else str(found)


def _other_pages(asked: str, found: str, seen: SeenByWorker) -> str | None:
    return "that pages may become executable" if found == "allowed" else None


def _other_huge_pages(asked: str, found: bool, seen: SeenByWorker) -> str | None:  # noqa: FBT001 - a fact
    return None if found == (asked == "no") else "none" if found else "them"


def _in_force(kind: int, soft: int) -> tuple[int, int]:
    """The soft limit with the hard one, which is raised where it is less."""
    hard = resource.getrlimit(kind)[1]
    return soft, hard if hard == NO_LIMIT or NO_LIMIT != soft <= hard else soft


def _rlimit(
    key: str, what: str, example: str, fact: FactPath, *, size: bool = False, moves: tuple[Activity, ...] = (),
    has_option: bool = True,
) -> Setting:  # fmt: skip
    """A soft limit of setrlimit(2), by the name that it has there. size: in bytes. has_option: of engines."""
    kind: int = getattr(resource, f"RLIMIT_{key.upper()}")
    field = f"rlimit_{key}"

    def ulimit(soft: int) -> Pairs:
        soft, hard = _in_force(kind, soft)
        return [("--ulimit", f"{key}={soft}:{hard}")]

    def oci(container: Container, soft: int) -> None:
        soft, hard = (_ALL_BITS if each == NO_LIMIT else each for each in _in_force(kind, soft))
        container.config["process"]["rlimits"].append({"type": f"RLIMIT_{key.upper()}", "soft": soft, "hard": hard})

    def unlike(asked: int, found: float | None, seen: SeenByWorker) -> str | None:
        if (NO_LIMIT if found is None else found) == asked:
            return None
        return "no limit" if found is None else f"a limit of {write_size(int(found)) if size else f'{found:g}'}"

    return Setting(
        f"rlimit-{key}", field, int | None, what, example,
        parse=unlimited(parse_size if size else whole), write=write_unlimited(write_size if size else str),
        options=engines(ulimit) if has_option else {}, oci=oci,
        process=lambda soft: resource.setrlimit(kind, _in_force(kind, soft)),
        shows=(fact,), unlike=unlike, unlimited=True, moves=moves,
        recorded=lambda found: NO_LIMIT if found is None else int(found),
    )  # fmt: skip


ROWS = (
    Setting(
        "policy", "policy", Literal["other", "batch", "idle", "fifo", "rr"] | None,
        "Scheduling policy; fifo and rr with their least priority.", "batch", parse=OneOf(*_POLICIES),
        process=_schedule,
        shows=(("limits", "scheduling"),), unlike=_is_met, recorded=lambda found: found if found in _POLICIES else None,
         moves=(*ON_CPU, *OF_FILES),
    ),
    Setting(
        "affinity", "affinity", tuple[int, ...] | None,
        "CPUs that it is bound to before it starts, as taskset does.", "0-3+8",
        parse=numbers, write=write_numbers, check=some_numbers("affinity"), process=_bind,
        fact=("limits", "cpus_allowed"), unlike=other_cpus, is_alone=True, recorded=_bindable,
        moves=ON_CPU,
    ),
    Setting(
        "umask", "umask", str | None, "Permissions that new files do not get, in octal.", "0077", parse=_octal,
        options={"podman": option("--umask")}, oci=_mask, process=lambda umask: _ignore(os.umask(int(umask, 8))),
        shows=(("confinement", "umask"),), unlike=_is_met, recorded=as_found,
    ),
    Setting(
        "timer-slack", "timer_slack_ns", int | None, "By how much the kernel may be late to wake it.", "1ms",
        parse=_slack_ns, write=_write_slack, process=lambda slack_ns: _ignore(prctl(SET_TIMERSLACK, slack_ns)),
        shows=(("limits", "timer_slack_ns"),), unlike=_is_met, recorded=as_found, moves=(*ON_CPU, *OF_FILES),
    ),
    Setting(
        "mdwe", "mdwe", Literal["yes"] | None,
        "That no page becomes executable that was writable, as systemd's MemoryDenyWriteExecute= has it (Linux 6.3).",
        "yes", parse=OneOf("yes"), process=lambda _: _ignore(prctl(SET_MDWE, MDWE_REFUSE_EXEC_GAIN)),
        shows=(("confinement", "executable_pages"),), unlike=_other_pages, moves=ON_CPU,
        recorded=lambda found: None if found == "allowed" else "yes",
    ),
    Setting(
        "thp", "huge_pages", Literal["yes", "no"] | None,
        "Whether its memory may be made of transparent huge pages.", "no", parse=OneOf("yes", "no"),
        process=lambda allowed: _ignore(prctl(SET_THP_DISABLE, int(allowed == "no"))),
        shows=(("confinement", "transparent_hugepage_disabled"),), unlike=_other_huge_pages, moves=ON_CPU,
        recorded=lambda disabled: "no" if disabled else "yes",
    ),
    _rlimit("core", "Size of a core dump.", "0B", ("limits", "core_bytes"), size=True),
    _rlimit(
        "cpu", "Seconds of CPU time, after which it is killed.", "3600", ("limits", "cpu_time_limit_s"), moves=ON_CPU,
    ),
    _rlimit(
        "fsize", "Size of a file that it writes.", "1GiB", ("limits", "file_size_bytes"), size=True, moves=OF_FILES,
    ),
    _rlimit(
        "memlock", "Memory that it may lock.", "unlimited", ("limits", "memlock_bytes"), size=True,
        moves=("collective", "copy"),
    ),
    _rlimit("msgqueue", "Memory of its POSIX message queues.", "1MiB", ("limits", "message_queue_bytes"), size=True),
    _rlimit("nice", "Niceness down to 20 less this number.", "30", ("limits", "nice_limit")),
    _rlimit(
        "nproc", "Processes of its user, threads counted; root is not held to it.", "4096",
        ("limits", "processes_own_max"), moves=(*WAITING, *OF_FILES),
    ),
    _rlimit("rtprio", "Priority under the policies fifo and rr.", "1", ("limits", "realtime_priority_max")),
    _rlimit("sigpending", "Signals that wait.", "1024", ("limits", "signals_pending_max")),
    _rlimit("stack", "Room for the stack of each thread.", "8MiB", ("limits", "stack_bytes"), size=True, moves=ON_CPU),
    _rlimit(
        "data", "Memory that it may write to, beside files.", "8GiB", ("limits", "data_bytes"), size=True, moves=ON_CPU,
    ),
    _rlimit(
        "as", "Address space.", "64GiB", ("limits", "address_space_bytes"), size=True, moves=ON_CPU, has_option=False,
    ),
)  # fmt: skip
"""The last ones leave little room for what comes after them."""


def _ignore(found: object) -> None:
    """What a call gives back."""
