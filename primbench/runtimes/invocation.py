"""What a runtime file hands over: how a worker is started in an arm, in programs and arguments, with no shell."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

import primbench
from primbench.errors import InvalidRequest
from primbench.runtimes.hostroot import bound_folders, caches
from primbench.runtimes.placed import in_front
from primbench.spec.arm import Arm, asked
from primbench.spec.settings.files import SEARCHED as PACKAGES
from primbench.spec.settings.libraries import SEARCHED
from primbench.spec.variables import is_for_libraries

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAMESPACES = ("mnt", "pid", "user", "ipc", "net", "uts", "cgroup")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs are in an image."""

ANSWERS_WITHIN_S = 10.0
OLDEST_PYTHON = (3, 11)
CACHES = ("CUDA_CACHE_PATH", "CUPY_CACHE_DIR", "TRITON_CACHE_DIR")  # in the home folder otherwise
_OF_THE_HOST = ("HOME", "LANG", "LC_ALL", "PATH")


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker is started in an arm: programs with their arguments."""

    before: list[list[str]] = []
    """Commands that run to their ends, one after the other, each of which must succeed."""
    worker: list[str]
    """Runs as long as the worker does, and passes its standard streams through."""
    first: bytes = b""
    """What it is told on its standard input before anything else."""
    after: list[list[str]] = []
    """Commands that leave nothing behind, run whatever happened before; none of them need succeed."""
    environment: dict[str, str] | None = None
    """Variables of all these programs; None is this process's own."""


def python(arm: Arm) -> str:
    """That by which a worker is started. An image and another machine bring their own."""
    if arm.python is not None:
        return os.path.abspath(arm.python) if "/" in arm.python else str(arm.python)
    return sys.executable if arm.on_host_root else "python3"


def check_python(arm: Arm) -> None:
    """Raises InvalidRequest where what is asked for on this machine is no Python that primbench runs with."""
    if arm.python is None:
        return
    reason, said = answer([arm.python, "-c", "import sys; print('Python', *sys.version_info[:2])"])
    found = re.fullmatch(r"Python ([0-9]+) ([0-9]+)", said)
    wrong = reason or (None if found else f"{arm.python} is no Python")
    if found and tuple(map(int, found.groups())) < OLDEST_PYTHON:
        wrong = f"{arm.python} is of {said}, older than {'.'.join(map(str, OLDEST_PYTHON))}"
    if wrong is not None:
        raise InvalidRequest(f"python: {wrong}: name the bin/python of an environment", arm=arm.name)


def module(arm: Arm) -> list[str]:
    """The worker as it is called inside. The parent of this process is the one that all workers of a run are of."""
    return [python(arm), "-P", "-m", "primbench.workers.worker", f"run={os.getppid()}"]


def variables(arm: Arm, folder: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """All that is in the worker's environment, the same in every runtime but for what the runtime itself sets.

    folder: the launch's.
    """
    links = ",".join(os.readlink(f"/proc/self/ns/{kind}") for kind in NAMESPACES)
    found = _Variables(arm, folder, _inherited(arm, folder, environ) | {name: environ[name] for name in arm.passed})
    for row, value in asked(arm, "surroundings"):
        assert row.surroundings is not None
        found.setting = row.said(value)
        row.surroundings(found, value)
    if (front := in_front(arm, folder)) is not None:
        found.values[SEARCHED] = ":".join(filter(None, (front, found.values.get(SEARCHED))))
    if arm.python is not None:  # which runs this primbench, be there another one in its environment
        own = found.linked({"primbench": os.path.dirname(primbench.__file__)})
        found.values[PACKAGES] = ":".join(filter(None, (own, found.values.get(PACKAGES))))
    told = {"PRIMBENCH_RUNTIME": arm.runtime, "PRIMBENCH_HOST_NAMESPACES": links}
    return dict(sorted((found.values | told).items()))


@dataclasses.dataclass
class _Variables:
    """As ``Surroundings`` has it."""

    arm: Arm
    """The arm whose worker is started."""
    folder: Path
    """The launch's own."""
    values: dict[str, str]
    """Variable -> its value."""
    setting: str = ""
    """The setting that changes them now, in words."""

    def shown(self, path: str) -> str:
        """A copy, in a folder that all on the host's root have. Raises InvalidRequest where there is none."""
        if os.path.exists(path) and not os.path.isfile(path):  # a device may never end
            raise InvalidRequest(f"{self.setting}: no plain file: name a library", arm=self.arm.name)
        if self.arm.runtime == "host" and os.path.exists(path):
            return path
        try:
            return shutil.copy(path, str(caches(self.folder)))
        except OSError as error:
            raise InvalidRequest(f"{self.setting}: {error.strerror}", arm=self.arm.name) from None

    def linked(self, places: Mapping[str, str]) -> str:
        """Raises InvalidRequest where a container does not see what the links lead to."""
        seen = {*bound_folders()}
        for path in places.values():
            if self.arm.runtime != "host" and seen.isdisjoint(Path(path).parents):
                raise InvalidRequest(f"{self.setting}: a container does not see {path}", arm=self.arm.name)
        top = caches(self.folder) / "linked"
        for name, path in places.items():
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).symlink_to(path)
        return str(top)


def _inherited(arm: Arm, folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of libraries that a worker takes over; none with a path where an image has files of its own."""
    of_libraries = {name: value for name, value in environ.items() if is_for_libraries(name)}
    if not arm.on_host_root:
        return without_paths(of_libraries)
    of_host = {name: environ[name] for name in _OF_THE_HOST if name in environ}
    return of_libraries | of_host | {name: str(caches(folder) / name) for name in CACHES}


def without_paths(variables: Mapping[str, str]) -> dict[str, str]:
    """Those that mean the same where other files are."""
    return {name: value for name, value in variables.items() if "/" not in value}


def env_options(arm: Arm, inside: Mapping[str, str]) -> list[str]:
    """``--env`` for each variable: one that is passed on without its value, which the program has in its own ones."""
    return [f"--env={name}" if name in arm.passed else f"--env={name}={value}" for name, value in inside.items()]


def gpu_files(root: Path = Path("/")) -> list[str]:
    """The device files by which the GPUs of this machine are reached."""
    found = [*(root / "dev").glob("nvidia*"), *(root / "dev").glob("nvidia-caps/*")]
    return sorted(f"/{path.relative_to(root)}" for path in found if path.is_char_device())


def cdi_names_gpus(root: Path = Path("/")) -> bool:
    """Whether a specification of the Container Device Interface tells what the device nvidia.com/gpu=all is."""
    files = [path for folder in ("etc/cdi", "var/run/cdi") for path in (root / folder).glob("*")]
    return any(b"nvidia.com/gpu" in path.read_bytes() for path in files if path.is_file() and os.access(path, os.R_OK))


def answer(command: Sequence[str], environment: Mapping[str, str] | None = None) -> tuple[str | None, str]:
    """Why a program does not answer, or None, and the first line that it prints."""
    reason, printed = answers(command, environment)
    return reason, next(iter(printed), "")


def answers(command: Sequence[str], environment: Mapping[str, str] | None = None) -> tuple[str | None, list[str]]:
    """The same with all lines, of which there is one at least where it answers."""
    if shutil.which(command[0]) is None:
        return f"{command[0]} is not installed", []
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            env=environment, timeout=ANSWERS_WITHIN_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"{command[0]} did not answer within {ANSWERS_WITHIN_S:g} s", []
    except OSError as error:
        return f"{command[0]}: {error.strerror}", []
    printed = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    if done.returncode or not printed:
        return printed[-1] if printed else f"{command[0]} ended with exit status {done.returncode}", []
    return None, printed  # ch-run tells its version on stderr


def client(*command: str) -> tuple[str | None, str]:
    """Why a program cannot be used here, or None, and its version, by a command that prints that."""
    reason, line = answer(command)
    return reason, version(line)


def version(text: str) -> str:
    """The first version number in a line, such as "1.2.3"; the whole line where it has none."""
    found = re.search(r"[0-9]+\.[0-9]+[0-9A-Za-z.+~-]*", text)
    return found[0] if found else text


def options(arm: Arm, program: str) -> list[str]:
    """What a program is told of an arm: ``--name=value``, or the name alone where the value is True."""
    found = (pair for row, value in asked(arm, program) for pair in row.options[program](value))
    return [name if value is True else f"{name}={value}" for name, value in found if value not in (None, False)]
