"""What runs first on another machine, sent there as text: it looks for primbench or unpacks it, and becomes that.

The Python there runs it before anything is known of what is installed: it imports the standard library alone. Here each
worker imports this file among those of runtimes, and waits for nothing that only an arrival needs.
"""

from __future__ import annotations

import importlib.util
import io
import os
import shutil
import sys
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

KINDS = (".py", ".cu", ".cuh", ".json")
"""Endings of the files that a worker needs; the others are what was measured elsewhere, sizes and images."""


def become_supervisor(
    order: str, variables: Mapping[str, str], of_machine: Mapping[str, Mapping[str, str]], digest: str, code_bytes: int
) -> None:
    """variables: that it is given beside those here. of_machine: more of them on the machine with that boot().

    digest, code_bytes: of the code, which comes next on stdin.
    """
    code = _read(code_bytes)
    environment = {**os.environ, **variables, **of_machine.get(boot() or "", {})}
    if not _is_installed(digest):
        before = [environment["PYTHONPATH"]] if environment.get("PYTHONPATH") else []
        environment["PYTHONPATH"] = os.pathsep.join([_unpacked(code, digest), *before])
    command = [sys.executable, "-P", "-m", "primbench.workers.supervisor", order]
    os.execve(sys.executable, command, environment)


def boot() -> str | None:
    """Which start of which machine this is, as primbench.system.boot has it; None where the kernel does not say."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return None


def _read(size_bytes: int) -> bytes:
    """Not a byte more, since what follows is for the worker."""
    found = b""
    while len(found) < size_bytes:
        chunk = os.read(0, size_bytes - len(found))
        if not chunk:
            sys.exit("the connection ended before all of primbench was here")
        found += chunk
    return found


def _is_installed(digest: str) -> bool:
    """Whether the very same code would be imported here."""
    found = importlib.util.find_spec("primbench")
    package = os.path.dirname(found.origin) if found and found.origin else None
    return package is not None and digest_of(code_in(package)) == digest


def _unpacked(code: bytes, digest: str) -> str:
    """A folder with it in this user's cache. It gets its name once it is whole: others may be about the same."""
    import zipfile

    cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "primbench")
    folder = os.path.join(cache, digest)
    if os.path.isdir(folder):
        return folder
    os.makedirs(cache, mode=0o700, exist_ok=True)
    new = tempfile.mkdtemp(dir=cache)
    try:
        zipfile.ZipFile(io.BytesIO(code)).extractall(new)
        os.rename(new, folder)
    except OSError:
        shutil.rmtree(new, ignore_errors=True)
        if not os.path.isdir(folder):
            raise
    return folder


def code_in(package: str) -> dict[str, bytes]:
    """The files in the folder of primbench, by their names there: those that a worker needs."""
    found: dict[str, bytes] = {}
    for at, folders, files in os.walk(package, followlinks=True):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for path in [os.path.join(at, name) for name in files if name.endswith(KINDS)]:
            with open(path, "rb") as file:
                found[os.path.relpath(path, package)] = file.read()
    return dict(sorted(found.items()))


def digest_of(code: Mapping[str, bytes]) -> str:
    import hashlib

    whole = hashlib.sha256()
    for name, held in code.items():
        whole.update(f"{name} {len(held)}\n".encode() + held)
    return whole.hexdigest()[:32]
