"""Runs inside the machine: takes commands from the host, one JSON line each, until the host hangs up.

A request: argv, timeout_s, and cgroup: file -> text for the control group that every command has of its own, and with
which all that it started ends. The answer: returncode (null: it ran into timeout_s), stdout and stderr.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ALL = Path("/sys/fs/cgroup")
GROUP = ALL / "command"


def answer(request: dict[str, Any]) -> dict[str, Any]:
    GROUP.mkdir()
    for file, text in request["cgroup"].items():
        (GROUP / file).write_text(text)
    process = subprocess.Popen(
        request["argv"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=functools.partial((GROUP / "cgroup.procs").write_text, "0"),
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
