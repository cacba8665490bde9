"""A hook of an OCI runtime: `python -P -m primbench.runtimes.oci_hook`, with the container's state on stdin.

It moves the container's first process out of the control groups that were made for it, into those that the hook, and so
whoever started the runtime, is in. A hook that fails ends the container.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import msgspec

from primbench.system.cgroups import cgroup_folders


class HookState(msgspec.Struct, frozen=True):
    pid: int


def main() -> None:
    pid = msgspec.json.decode(sys.stdin.buffer.read(), type=HookState).pid
    own = Path("/proc/self/cgroup").read_text()
    for line in own.splitlines():
        controller = line.split(":")[1].partition(",")[0]  # none in that of v2
        with contextlib.suppress(ValueError):  # not mounted here, and so nothing was made in it
            (cgroup_folders(controller)[0] / "cgroup.procs").write_text(str(pid))
    if Path(f"/proc/{pid}/cgroup").read_text() != own:
        sys.exit("the control groups of a container cannot be left here")


if __name__ == "__main__":
    main()
