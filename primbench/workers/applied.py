"""Whether a worker has what its arm asked for: a runtime may leave a setting out and say nothing."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from primbench.environment.configuration import is_recorded, recorded
from primbench.environment.confinement import Confinement
from primbench.spec.arm import Arm, in_words, settings_of
from primbench.spec.settings import SETTINGS
from primbench.system.cgroups import cgroup_version
from primbench.system.files import attempt
from primbench.system.meaning import facts_of

if TYPE_CHECKING:
    from primbench.spec.placement import Placement
    from primbench.spec.setting import Setting
    from primbench.workers.protocol import Ready


_OF_RUNTIMES = re.compile(r"(NVIDIA|PRIMBENCH)_.+")  # they read these, and may write them anew


class Outside(NamedTuple):
    """This process, for what is judged by it. None is unknown."""

    is_root: bool
    namespaces: dict[str, str] | None
    seccomp_filters: int | None
    """Filters of system calls that it stands behind itself."""
    cgroup_version: str | None


ELSEWHERE = Outside(is_root=True, namespaces=None, seccomp_filters=None, cgroup_version=None)
"""Of a process on another machine nothing is known."""


def outside(root: Path = Path("/")) -> Outside:
    seen = facts_of(Confinement)
    return Outside(
        is_root=os.geteuid() == 0,
        namespaces=attempt({}, "namespaces", lambda: seen["namespaces"].value(root)),
        seccomp_filters=attempt({}, "seccomp_filters", lambda: seen["seccomp_filters"].value(root)),
        cgroup_version=attempt({}, "cgroup_version", lambda: cgroup_version(root)),
    )


def mismatch(arm: Arm, placement: Placement, ready: Ready, here: Outside) -> str | None:
    """The first setting that a worker has not got, with what it found and the way out; None where it has them all.

    placement: what the worker itself was asked for, which may be of all arms alike. What could not be read back is no
    mismatch; image, cgroup and root are not.
    """
    seen = _Worker(replace(arm, placement=placement), ready, here)
    for field in settings_of(arm):
        found = seen.unlike(SETTINGS[field])
        if found is not None:
            return f"{in_words(arm, field)}: the worker found {found}: {_way_out(arm, SETTINGS[field], here)}"
    return None


class _Worker:
    """As ``SeenByWorker`` has it."""

    def __init__(self, arm: Arm, ready: Ready, outside: Outside) -> None:
        self.arm, self.cpus = arm, {*ready.placement.cpus}
        self._ready, self._outside = ready, outside

    def unlike(self, row: Setting) -> str | None:
        """What it found in place of what was asked for; None where that is met, or cannot be told."""
        if row.unlike is None or (fact := row.checked) is None:
            return None
        found = self.there(*fact)
        if found is None and not (row.unlimited and self._is_known(*fact)):
            return None
        return row.unlike(getattr(self.arm, row.field), found, self)

    def there(self, *fact: str) -> Any:
        found: Any = self._ready.environment
        for name in fact:
            found = found.get(name) if isinstance(found, dict) else getattr(found, name)
            if found is None:
                return None
        return found

    def _is_known(self, part: str, name: str, *_: str) -> bool:
        return name not in getattr(self._ready.environment, part).missing

    def here(self, name: str) -> Any:
        return getattr(self._outside, name)

    def recorded(self, name: str, value: str) -> str | None:
        return recorded(value) if is_recorded(name) and not _OF_RUNTIMES.fullmatch(name) else None


def _way_out(arm: Arm, row: Setting, here: Outside) -> str:
    in_v1 = not here.is_root and here.cgroup_version in ("v1", "hybrid")
    if row.group is not None and in_v1 and arm.runtime != "host":
        return (
            f"without root {arm.runtime} sets no limits on control groups v1: start it as root, or boot Linux with v2 "
            "alone"
        )
    if row.group is not None or row.process is not None:
        return f"a group above it may grant less, or {arm.runtime} may not set it: ask for what was found, or be root"
    who = f"{arm.runtime} or image {arm.image}" if arm.image else arm.runtime
    mend = row.mend or "{who} sets it otherwise: leave {key} out"
    return mend.format(runtime=arm.runtime, who=who, key=settings_of(arm)[row.field])
