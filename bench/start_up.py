"""What help, completion, `primbench list` and `show` cost beside `import click`, which they cannot do without.

`show --against` takes at most twice as long as `show`: both are of a file of 3 MB, set beside all that ships.

The second row is the least that click can print: the help of a program with one option and no module of its own.

Promised by primbench/cli/__init__.py: the help costs little more than click itself. Takes a minute. The
primbench is that of the Python that runs it: an editable install, or a wheel in an environment of its own.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ONE_OPTION = "import click; click.command()(click.option('--size', help='Of it.')(lambda size: None))(['--help'])"
FILE = str(Path(__file__).parents[1] / "suites/reference/h200-memcpy-cupy.jsonl.xz")
COMMANDS = {
    "import click": ("-c", "import click"),
    "help of one option": ("-c", ONE_OPTION),
    "primbench --version": ("-m", "primbench", "--version"),
    "primbench --help": ("-m", "primbench", "--help"),
    "primbench <Tab>": ("-m", "primbench"),
    "gemm --help": ("-m", "primbench", "gemm", "--help"),
    "primbench list": ("-m", "primbench", "list"),
    "show": ("-m", "primbench", "show", FILE),
    "show --against": ("-m", "primbench", "show", FILE, "--against", "reference:h200"),
}


def taken(arguments: tuple[str, ...], folder: str) -> tuple[float, float]:
    """Wall and CPU time of a fresh Python, in seconds. folder: for temporary files."""
    asked = {"_PRIMBENCH_COMPLETE": "bash_complete", "COMP_WORDS": "primbench ", "COMP_CWORD": "1"}
    completes = arguments == COMMANDS["primbench <Tab>"]
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    kept["TMPDIR"] = folder  # in which nothing was left that would be cleared away
    before, start = cpu_s(), time.perf_counter()
    subprocess.run(
        [sys.executable, "-P", *arguments],
        stdout=subprocess.DEVNULL, check=True, env={**kept, **(asked if completes else {})},
    )  # fmt: skip
    return time.perf_counter() - start, cpu_s() - before


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        for arguments in COMMANDS.values():
            taken(arguments, folder)  # writes what Python keeps compiled
        times = [{name: taken(arguments, folder) for name, arguments in COMMANDS.items()} for _ in range(rounds)]
    print(f"medians of {rounds} rounds; ratios within rounds, to the first")
    for name in COMMANDS:
        wall, cpu = (statistics.median(each[name][kind] for each in times) for kind in (0, 1))
        ratios = [statistics.median(each[name][kind] / each["import click"][kind] for each in times) for kind in (0, 1)]
        print(f"{name:19} {1e3 * wall:5.0f} ms ({ratios[0]:.2f}), of CPU time {1e3 * cpu:5.0f} ms ({ratios[1]:.2f})")


if __name__ == "__main__":
    main()
