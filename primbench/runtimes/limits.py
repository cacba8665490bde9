"""Limits on the machine itself: a control group of our own, which a worker is put into."""

from __future__ import annotations

import contextlib
import errno
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench.errors import BackendUnavailable
from primbench.runtimes.invocation import answer
from primbench.runtimes.leftovers import remove_groups
from primbench.spec.arm import asked
from primbench.spec.settings import SETTINGS
from primbench.system.cgroups import cgroup_folders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from primbench.spec.arm import Arm
    from primbench.spec.setting import ControlGroup

_PROCESSES = "cgroup.procs"
_SUBTREE = "cgroup.subtree_control"
_WRONG = (errno.EINVAL, errno.ERANGE, errno.ENODEV)  # errors over the value asked for, not over permissions


class _ControlGroup(NamedTuple):
    """A control group of our own."""

    folder: Path
    """Where it is."""
    enabled: list[str]
    """Controllers that its parent has since it was made."""


class Enforcement(NamedTuple):
    """How a worker comes under limits."""

    prefix: Sequence[str]
    """What its command begins with."""
    enter: Callable[[], None] | None
    """Puts the process that calls it under them; None where nothing need be done for that."""


@contextlib.contextmanager
def limited(arm: Arm, name: str, root: Path = Path("/")) -> Iterator[Enforcement]:
    """Makes groups with the limits of an arm, or says how systemd does where groups may not be made here.

    name: of the groups. This process stays outside: what clears up must not be killed for want of memory, nor use up
    the quota. Raises BackendUnavailable where neither will do.
    """
    controllers = _controllers(arm)
    if not controllers:
        yield Enforcement([], None)
        return
    groups: list[_ControlGroup] = []
    limits = Enforcement([], lambda: _enter(groups))
    try:
        try:
            _make(controllers, arm, name, root, groups)
        except (OSError, ValueError) as error:
            _leave(groups)
            if isinstance(error, OSError) and error.errno in _WRONG:
                raise BackendUnavailable(
                    f"the kernel refuses {error.filename}: {error.strerror}", arm=arm.name
                ) from None
            limits = Enforcement(_by_systemd(arm, error), None)
        yield limits
    finally:
        _leave(groups)


def _enter(groups: Sequence[_ControlGroup]) -> None:
    for group in groups:
        (group.folder / _PROCESSES).write_text("0")  # 0 is the process that writes


def _groups(arm: Arm) -> list[tuple[ControlGroup, Any]]:
    """What an arm asks control groups for, each with its value."""
    return [(row.group, value) for row, value in asked(arm, "group") if row.group is not None]


def _controllers(arm: Arm) -> list[str]:
    """Those that it asks something of; all that any setting is applied by, where it is to have a group of its own."""
    found = [group.controller for group, _ in _groups(arm)]
    for _, value in asked(arm, "groups"):
        found += [row.group.controller for row in SETTINGS.values() if row.group and value == "private"]
    return list(dict.fromkeys(found))


def _make(controllers: Sequence[str], arm: Arm, name: str, root: Path, groups: list[_ControlGroup]) -> None:
    """Fills ``groups`` as they are made, so that they can be removed after an error, too."""
    on_v2 = []
    for controller in controllers:
        own = cgroup_folders(controller, root)[0]
        if (own / "cgroup.controllers").exists():
            on_v2.append(controller)
        else:
            groups.append(_ControlGroup(own / name, []))
            _fill(groups[-1], _v1_limits(controller, arm, own, root))
    if on_v2:
        _make_on_v2(on_v2, arm, name, root, groups)


def _make_on_v2(controllers: Sequence[str], arm: Arm, name: str, root: Path, groups: list[_ControlGroup]) -> None:
    """Below the nearest group that may have children: one that has processes, such as our own, mostly may not."""
    above = cgroup_folders(controllers[0], root)
    for parent in above:
        wanted = ["io" if each == "blkio" else each for each in controllers]  # as v2 calls it
        enabled = [each for each in wanted if each not in (parent / _SUBTREE).read_text().split()]
        groups.append(_ControlGroup(parent / name, enabled))
        try:
            for controller in enabled:
                _write(parent / _SUBTREE, f"+{controller}")
            _fill(groups[-1], _v2_limits(arm, root))
            return
        except OSError as error:
            refusal = error
            _leave([groups.pop()])
    raise refusal


def _fill(group: _ControlGroup, limits: Sequence[tuple[str, str]]) -> None:
    """Lets a process in: only then it is known whether one may. Not this one, which has to outlive the limits."""
    group.folder.mkdir()
    for file, value in limits:
        _write(group.folder / file, value)
    tried = subprocess.run(
        ["sh", "-c", 'echo 0 > "$1"', "sh", group.folder / _PROCESSES],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    if tried.returncode > 0:
        raise PermissionError(errno.EPERM, tried.stderr.strip() or "no process may enter", str(group.folder))


def _write(path: Path, value: str) -> None:
    """Raises OSError that tells both: the kernel judges the value only then."""
    try:
        path.write_text(value)
    except OSError as error:
        raise OSError(error.errno, error.strerror, f"{path.name} = {value.strip()}") from None


def _v1_limits(controller: str, arm: Arm, parent: Path, root: Path) -> list[tuple[str, str]]:
    of_controller = [(group, value) for group, value in _groups(arm) if group.controller == controller]
    found = {file: str(held) for group, value in of_controller for file, held in group.v1(value, root)}
    if controller == "cpuset":  # both are empty at first, and then take no process
        found = {file: (parent / file).read_text() for file in ("cpuset.cpus", "cpuset.mems")} | found
    return [*found.items()]


def _v2_limits(arm: Arm, root: Path) -> list[tuple[str, str]]:
    return [(file, str(held)) for group, value in _groups(arm) for file, held in group.v2(value, root)]


def _leave(groups: list[_ControlGroup]) -> None:
    """Remove the control groups with the processes left in them, and switch off controllers they needed."""
    while groups:
        group = groups.pop()
        remove_groups([group.folder])
        if any(group.folder.parent.glob("primbench-*")):
            continue  # another one's limits would end with the controller
        for controller in group.enabled:
            with contextlib.suppress(OSError):
                (group.folder.parent / _SUBTREE).write_text(f"-{controller}")


def _by_systemd(arm: Arm, refusal: OSError | ValueError) -> list[str]:
    """A scope of the user's own. Raises BackendUnavailable where that is not to be had either."""
    scope = ["systemd-run", "--user", "--scope", "--quiet"]
    reason, _ = answer([*scope, "echo", "yes"])
    if reason is not None:
        raise BackendUnavailable(
            f"limits on the host need a control group, which may not be made here ({refusal}), nor by "
            f"systemd-run ({reason}): run as root, or have the group delegated",
            arm=arm.name,
        )
    return [*scope, *(f"--property={name}={value}" for name, value in properties(arm)), "--"]


def properties(arm: Arm, root: Path = Path("/")) -> list[tuple[str, str]]:
    """The arm's limits as properties of a systemd unit, see systemd.resource-control(5)."""
    return [(name, str(held)) for group, value in _groups(arm) for name, held in group.systemd(value, root)]
