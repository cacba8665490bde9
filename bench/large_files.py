"""What commands take to read results files of many records, and a dry run of many cases: wall time and peak memory.

The files are made of recorded records of `suites/reference/`, each again and again at other sizes, its times scattered
by a percent, its samples cut to a few, so that a record has 3.7 kB; two of them differ by their scatter alone.
`--records 100000` makes two of 371 MB and takes some minutes.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench.measurement import Samples
from primbench.results.file import encode, read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from primbench.results.record import Line, Record

SOURCE = Path(__file__).parents[1] / "suites/reference/h200-deepbench-training-float16-cupy.jsonl.xz"
MOST_SAMPLES = 6  # of a metric
SIZES = ("m", "n", "batch_size", "k")
"""The first of them that a primitive has is another number in every copy."""


def write(path: Path, count_of_records: int, seed: int) -> None:
    """A results file of so many records."""
    held, chance = read(SOURCE), random.Random(seed)
    with path.open("wb") as file:
        lines: list[Line] = [held.header, *held.workers]
        file.writelines(map(encode, lines))
        file.writelines(map(encode, islice(_varied(held.records, chance), count_of_records)))


def _varied(records: Sequence[Record], chance: random.Random) -> Iterator[Record]:
    for copy in count():
        yield from (_at_other_size(record, copy, chance) for record in records)


def _at_other_size(record: Record, copy: int, chance: random.Random) -> Record:
    parameters = dict(record.case.parameters)
    size = next((name for name in SIZES if isinstance(parameters.get(name), int)), None)
    if size is not None:
        parameters[size] = int(parameters[size]) + copy
    found, measured = record.measurement, None
    if found is not None:
        sampled = {name: getattr(found, name) for name in found.__struct_fields__}
        cut = {name: _cut(each, chance) for name, each in sampled.items() if isinstance(each, Samples)}
        measured = replace(found, **cut)
    return replace(record, case=replace(record.case, parameters=parameters), measurement=measured)


def _cut(samples: Samples, chance: random.Random) -> Samples:
    kept_s = [each * chance.uniform(0.99, 1.01) for each in samples.samples_s[:MOST_SAMPLES]]
    loops = sum(begin < len(kept_s) for begin, _ in samples.loops_s)
    return replace(samples, samples_s=kept_s, loops_s=samples.loops_s[:loops], queued_s=samples.queued_s[:loops])


def suite(path: Path, cases: int) -> None:
    """A suite of so many small products."""
    path.write_text(f"gemm = [{{ m = [{', '.join(map(str, range(1, cases + 1)))}], n = 1, k = 1 }}]\n")


def taken(arguments: Sequence[str]) -> tuple[float, float, int, int]:
    """Wall and CPU time in seconds, peak memory of any of its processes in bytes, the exit status: of `primbench`."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-P", "-m", "primbench", *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime, 1024 * usage.ru_maxrss, process.returncode


def commands(folder: Path) -> Mapping[str, Sequence[str]]:
    one, other, page = (str(folder / name) for name in ("one.jsonl", "other.jsonl", "page.html"))
    return {
        "show": ["show", one],
        "show --csv": ["show", one, "--csv", str(folder / "rows.csv"), "--overwrite"],
        "compare": ["compare", one, other],
        "report": ["report", one, "-o", page, "--overwrite"],
        "report of two": ["report", one, other, "-o", str(folder / "two.html"), "--overwrite"],
        "dry run": ["run", str(folder / "many.toml"), "--dry-run", "--backend", "numpy", "-q"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000, help="of each file")
    parser.add_argument("--cases", type=int, default=10_000, help="of the dry run")
    parser.add_argument("--only", action="append", help="a row by its name, such as 'compare'; repeatable")
    parser.add_argument(
        "--folder", type=Path, help="where files stay, and are used again; default: a new one that goes"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        for seed, name in enumerate(("one.jsonl", "other.jsonl")):
            if not (folder / name).exists():
                write(folder / name, options.records, seed)
        suite(folder / "many.toml", options.cases)
        size = (folder / "one.jsonl").stat().st_size
        print(f"{options.records} records a file, {size / 1e6:.0f} MB; {options.cases} cases of a dry run")
        for name, arguments in commands(folder).items():
            if options.only is None or name in options.only:
                wall_s, cpu_s, peak_bytes, status = taken(arguments)
                print(
                    f"{name:14} {wall_s:6.1f} s, of CPU {cpu_s:6.1f} s, {peak_bytes / 1e6:6.0f} MB, exit {status}",
                    flush=True,
                )
        for page in sorted(folder.glob("*.html")):
            print(f"{page.name} {page.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
