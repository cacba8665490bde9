"""How long each study that repeats a published one takes here, and what was published beside what it finds.

Within 5 minutes each on two CPUs without a GPU, says docs/studies.md. Names may follow; --arm, repeated or not,
takes the place of their own arms.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import primbench.suites as suites
from primbench.compare.pairs import compare
from primbench.report import table
from primbench.report.published import published_table
from primbench.results import file as results_file


def studied(name: str, arms: list[str], folder: Path) -> str:
    path = folder / f"{name}.jsonl"
    words = [word for arm in arms for word in ("--arm", arm)]
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-P", "-m", "primbench", "study", name, *words, "--fail-on", "never", "-o", str(path)],
        stdout=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    took_s = time.perf_counter() - start
    shown = published_table(compare(results_file.read(path)))
    assert shown is not None
    return f"{name}: {took_s:.0f} s, exit code {done.returncode}\n{table.text(shown)}"


def main() -> None:
    repeated = [name for name in suites.studies() if suites.study(name).published]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "studies", nargs="*", metavar="STUDY", help=f"of {', '.join(repeated)}; all, where none is named"
    )
    parser.add_argument("--arm", action="append", default=[], dest="arms")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in asked.studies or repeated:
            print(studied(name, asked.arms, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
