"""Runs inside the machine: takes commands from the host, one JSON line each, until the host hangs up.

A request: argv, timeout_s, and cgroup: file -> text for the control group that every command has of its own, and with
which all that it started ends. The answer: returncode (null: it ran into timeout_s), stdout and stderr.

Commands of primbench itself, and programs given as text, are forked from this process, which has imported what they
need: emulated, that takes longer than most of them. What they start is started anew.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import primbench.cli.study  # noqa: F401 - which brings what most commands need

ALL = Path("/sys/fs/cgroup")
GROUP = ALL / "command"
PYTHON = [sys.executable, "-P"]


def answer(request: dict[str, Any]) -> dict[str, Any]:
    GROUP.mkdir()
    for file, text in request["cgroup"].items():
        (GROUP / file).write_text(text)
    process = subprocess.Popen(
        request["argv"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=functools.partial(begin, request["argv"]),  # noqa: PLW1509 - one thread
    )
    returncode = None
    try:
        stdout, stderr = process.communicate(timeout=request["timeout_s"])
        returncode = process.returncode
    except subprocess.TimeoutExpired:
        (GROUP / "cgroup.kill").write_text("1")
        stdout, stderr = process.communicate()
    end_group()
    return {
        "returncode": returncode,
        "stdout": stdout.decode(errors="replace"),
        "stderr": stderr.decode(errors="replace"),
    }


def begin(argv: Sequence[str]) -> None:
    """In the new process: join the group; it goes on as the program that argv names, or here and now in Python."""
    (GROUP / "cgroup.procs").write_text("0")
    code = code_of(argv)
    if code is not None:
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # one of these would tell the agent that a program was started
        os._exit(status_of(code, ["-c", *argv[4:]]))


def code_of(argv: Sequence[str]) -> str | None:
    """What this Python is asked to run: a text, or the module of a command of primbench."""
    if argv[:4] == [*PYTHON, "-m", "primbench"]:
        return "from primbench.__main__ import main; main()"
    return argv[3] if argv[:3] == [*PYTHON, "-c"] else None


def status_of(code: str, argv: list[str]) -> int:
    """The exit status of a program, with which this process ends."""
    sys.argv = argv
    try:
        exec(code, {"__name__": "__main__"})
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def end_group() -> None:
    (GROUP / "cgroup.kill").write_text("1")
    while "populated 1" in (GROUP / "cgroup.events").read_text():
        time.sleep(0.01)
    GROUP.rmdir()


def main() -> None:
    (ALL / "cgroup.subtree_control").write_text("+cpu +cpuset +memory")
    # The port can be opened once only, and takes part of what is written where that is long: flush goes on with it.
    with open(sys.argv[1], "r+b", buffering=0) as requests, open(requests.fileno(), "wb", closefd=False) as answers:
        answers.write(b'"ready"\n')
        answers.flush()
        for line in requests:
            answers.write(json.dumps(answer(json.loads(line))).encode() + b"\n")
            answers.flush()


main()
