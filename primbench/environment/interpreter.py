"""How the interpreter is set, and what it runs at its start before anything of ours."""

from __future__ import annotations

import os
import re
import signal
import site
import sys
import threading
from typing import TYPE_CHECKING

from primbench.system import collector
from primbench.units import format_time

if TYPE_CHECKING:
    from pathlib import Path

_CUSTOM = ("sitecustomize", "usercustomize")
_RUNS = re.compile(r"import[ \t].*", re.MULTILINE)  # a line of a .pth file that is code: Python, library/site
_MODULE_OF_LINE = re.compile(r"import[ \t]+(\w+)")
_OF_SETUPTOOLS = "distutils-precedence.pth"  # where setuptools is: it adds a finder of distutils alone
_DIGITS = 12  # of a SHA-256: enough to tell two texts apart
_NUMBER = re.compile(r"-\d+")  # by which Python tells threads of one name apart, in the order in which they began
_TIMERS = {signal.ITIMER_REAL: "real", signal.ITIMER_VIRTUAL: "virtual", signal.ITIMER_PROF: "profiling"}
# Of finders of modules: Python's own, and those that look for a few names alone.
_USUAL = ("_frozen_importlib", "_frozen_importlib_external", "_distutils_hack", "six")


def start_code(root: Path) -> dict[str, str]:
    """.pth file, sitecustomize or usercustomize -> a digest of the code that it has run when this Python started."""
    if sys.flags.no_site:
        return {}
    found = {
        name: _digest(code)
        for folder in _site_folders()
        for name in _pth_files(folder)
        if (code := _code_of(os.path.join(folder, name)))
    }
    return found | {name: _digest(_text(path)) for name in _CUSTOM if (path := _file_of(name))}


def _pth_files(folder: str) -> list[str]:
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return [each for each in names if each.endswith(".pth") and not each.startswith(".") and each != _OF_SETUPTOOLS]


def _site_folders() -> list[str]:
    users = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    return [*site.getsitepackages(), *users]


def _code_of(path: str) -> bytes:
    """The lines that a .pth file has run, and the file of each module that they import; b"" where it has none."""
    lines = _RUNS.findall(_text(path).decode("utf-8", "replace"))
    modules = [named[1] for line in lines if (named := _MODULE_OF_LINE.match(line))]
    files = [file for module in modules if (file := _file_of(module))]
    return b"\n".join([*(line.encode() for line in lines), *map(_text, files)])


def _file_of(module: str) -> str | None:
    """Of a module of Python that is loaded."""
    path = getattr(sys.modules.get(module), "__file__", None)
    return path if path and path.endswith(".py") else None


def _text(path: str) -> bytes:
    """b"" where it cannot be read, as Python itself goes on then."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _digest(text: bytes) -> str:
    import hashlib  # few places have any such code

    return f"SHA-256 {hashlib.sha256(text).hexdigest()[:_DIGITS]}"


def settings(root: Path) -> dict[str, str]:
    """What code can set of the interpreter and every step of a program is run by, in words."""
    return {
        "garbage collection": collector.in_words(),
        "switch interval": format_time(sys.getswitchinterval()),
        "finders": ", ".join(filter(None, map(_added, sys.meta_path))) or "its own",
        "timers": ", ".join(_running()) or "none",
    }


def other_threads(root: Path) -> list[str]:
    """Each takes the interpreter's lock from what is timed here, for as long as it computes in Python."""
    ours = {threading.main_thread(), threading.current_thread()}
    return sorted(_NUMBER.sub("", each.name) for each in threading.enumerate() if each not in ours)


def _added(finder: object) -> str | None:
    """The name of one that Python does not have itself."""
    kind = finder if isinstance(finder, type) else type(finder)
    return None if kind.__module__ in _USUAL else f"{kind.__module__}.{kind.__qualname__}"


def _running() -> list[str]:
    """Interval timers, by which sampling profilers interrupt a program."""
    intervals = {name: signal.getitimer(timer)[1] for timer, name in _TIMERS.items()}
    return [f"{name}, every {format_time(interval_s)}" for name, interval_s in intervals.items() if interval_s]
