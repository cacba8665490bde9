"""How long README's two commands take, exactly as they are written there, each in a fresh clone.

Promised by README. Takes as long as they do. Without Docker, Podman and QEMU: with --path=FOLDERS, where
the programs that are to be found lie.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]


def commands() -> list[str]:
    return re.findall(r"^python3 -m venv .*$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", default=os.environ["PATH"], help="of programs, instead of this shell's")
    path = parser.parse_args().path
    for command in commands():
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["git", "clone", "-q", ROOT, folder], check=True)
            start, before = time.perf_counter(), os.times()
            done = subprocess.run(command, shell=True, cwd=folder, env={**os.environ, "PATH": path}, check=False)
            wall_s, after = time.perf_counter() - start, os.times()
        cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
        print(f"{wall_s:.0f} s, {cpu_s:.0f} s of CPU time, exit code {done.returncode}: {command}", flush=True)


if __name__ == "__main__":
    main()
