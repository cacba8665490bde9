"""Completion as a user has it: a real bash on a terminal, which parts words at : and =."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

TYPED = {
    "primbench study --arm docker:im": "primbench study --arm docker:image=",
    "primbench study --arm docker:cpus=2,im": "primbench study --arm docker:cpus=2,image=",
    "primbench study --arm host:first.LD_P": "primbench study --arm host:first.LD_PRELOAD=",
    "primbench study --arm host:rlimit-da": "primbench study --arm host:rlimit-data=",
    "primbench study --arm podman:cpus=": "primbench study --arm podman:cpus=",
    "primbench study --arm podman:network=o": "primbench study --arm podman:network=overlay",
    "primbench study --arm=podman:network=o": "primbench study --arm=podman:network=overlay",
    "primbench study --arm host --arm podm": "primbench study --arm host --arm podman",
    "primbench gemm --against reference:h2": "primbench gemm --against reference:h200",
    "primbench gemm --against ref": "primbench gemm --against reference:h",
    "primbench gemm --against mi": "primbench gemm --against mine",
    "primbench compare x.jsonl --against mi": "primbench compare x.jsonl --against mine",
    "primbench gemm --dtype fp16,b": "primbench gemm --dtype fp16,bfloat16",
    "primbench run quick --dtype fp16,b": "primbench run quick --dtype fp16,bfloat16",
    "primbench gemm --dty": "primbench gemm --dtype",
    "primbench show 'a b": "primbench show a b.jsonl",
}
LONGEST_S = 60.0


class Terminal:
    """A bash that a user types into."""

    def __init__(self, folder: Path, script: Path) -> None:
        self._own, other = pty.openpty()
        environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "TERM": "dumb", "PS1": "", "PS2": ""}
        for variable in ("PROMPT_COMMAND", "INPUTRC", "BASH_ENV", "COMP_WORDBREAKS"):
            environment.pop(variable, None)
        self.bash = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"],
            stdin=other, stdout=other, stderr=other, cwd=folder, env=environment, start_new_session=True,
        )  # fmt: skip
        os.close(other)
        self.type(f"bind 'set bell-style none'; source {script}; echo re''ady\n")
        self.until("ready\r\n")

    def type(self, keys: str) -> None:
        os.write(self._own, keys.encode())

    def until(self, pattern: str) -> str:
        """What was shown up to the pattern, which comes within a minute."""
        shown, ends_s = "", time.monotonic() + LONGEST_S
        while not (found := re.search(pattern, shown)):
            ready, _, _ = select.select([self._own], [], [], ends_s - time.monotonic())
            assert ready, shown
            shown += os.read(self._own, 65536).decode()
        return found[0]

    def completed(self, line: str) -> str:
        """The words of the line after a tab: the cursor goes to its begin, and has them printed."""
        self.type(f"{line}\t")
        self.type("\x01printf '[%s]' \n")
        self.type("printf '\\n%s\\n' do''ne\n")
        words = re.findall(r"\[([^\]]*)\]", re.sub(r"printf '\[%s\]'", "", self.until(r"(?s).*\ndone\r\n")))
        return " ".join(words)

    def end(self) -> None:
        self.bash.kill()
        self.bash.wait()
        os.close(self._own)


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed: apt-get install bash")
    folder = tmp_path_factory.mktemp("typed")
    program = folder / "primbench"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m primbench "$@"\n')
    program.chmod(0o755)
    (folder / ".primbench/baselines/mine").mkdir(parents=True)
    (folder / "a b.jsonl").write_text("")
    script = folder / "script"
    script.write_bytes(subprocess.run([program, "completion", "show", "bash"], check=True, capture_output=True).stdout)
    opened = Terminal(folder, script)
    yield opened
    opened.end()


@pytest.mark.parametrize("line", TYPED)
def test_a_tab_in_bash(line: str, terminal: Terminal) -> None:
    assert TYPED[line] == terminal.completed(line)
