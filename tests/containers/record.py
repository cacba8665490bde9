"""Print what a place shows of its container runtime, as tests/trees/runtimes/*.json keep it: run it in the place.

``python3 record.py ORIGIN``, the origin in words. Container ids, folders of the machine and what is mounted on them are
left out or replaced.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

FILES = ("proc/self/cgroup", "proc/self/mountinfo")
MARKERS = (".dockerenv", "run/.containerenv", "run/host/container-manager", ".singularity.d", "ch")
LINKS = ("mnt", "pid", "user", "ipc", "net", "uts", "cgroup")
VARIABLES = re.compile(
    r"APPTAINER_(NAME|CONTAINER)|SINGULARITY_(NAME|CONTAINER)|CH_RUNNING|container(_.*)?|KUBERNETES_SERVICE_HOST"
)
MOUNTS = re.compile(r"(\S+ ){4}/((proc|sys|dev|etc|run|usr|\.lock)(/\S*)?)? ")  # by mount point


def anonymous(text: str) -> str:
    ids: dict[str, str] = {}
    text = re.sub(r"\b[0-9a-f]{64}\b", lambda found: ids.setdefault(found[0], f"{len(ids) + 1:02x}" * 32), text)
    text = re.sub(r"/tmp/containers[-/]\w+", "/srv", text)
    return re.sub(r"(memory:)/\w+/[0-9a-f]{32}$", r"\1/job", text, flags=re.MULTILINE)


def link(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None


def kept(name: str) -> str:
    lines = Path("/", name).read_text().splitlines(keepends=True)
    return anonymous("".join(line for line in lines if not name.endswith("mountinfo") or MOUNTS.match(line)))


found = {
    "origin": sys.argv[1],
    "variables": {name: anonymous(value) for name, value in sorted(os.environ.items()) if VARIABLES.fullmatch(name)},
    "links": {
        f"proc/{process}/ns/{kind}": target
        for process in ("self", "1")
        for kind in LINKS
        if (target := link(f"/proc/{process}/ns/{kind}"))
    },
    "markers": [marker for marker in MARKERS if Path("/", marker).exists()],
    "files": {name: kept(name) for name in FILES},
}
print(json.dumps(found, indent=1))
