"""Injects faults into real runs and studies, one after the other into each, and goes on with them by --resume.

After each: exit codes are those of docs/read.md, no traceback is shown, no process left, each finished case is in the
file. In the end --resume completes it, every case is there once, and no folder or control group is left.

    python -m tests.faults.driver --count 1000 --seed 7

A file suffers LENGTH faults. Each prints its seed first, with which --count 10 --seed SEED repeats it alone.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from primbench.errors import FileError
from primbench.experiments.study import whole_pairs
from primbench.results import file as results_file
from primbench.results import record
from primbench.results.file import Results
from primbench.results.record import Record
from primbench.system.files import read_mounts
from tests.faults.injection import ENDED, Fault, drawn

LENGTH = 10
MARK = "FAULT_DRIVER_RUN"
GONE_WITHIN_S = 60.0
RUN_WITHIN_S = 180.0
PAIRS = 2
TIMES = ["--backend=numpy", "--device=cpu", "--max-time=10ms", "--min-time=1ms"]
GEMM = ["gemm", *(f"-m{size}" for size in range(1, 13)), "-n8", "-k8", *TIMES]
SUITE = "[[gemm]]\nm = [1, 2, 3]\nn = 8\nk = 8\n[[launch]]\ncall = ['dispatch', 'getppid']\n"
STUDY = [
    "study",
    "suite.toml",
    "--arm=host",
    "--primitive=gemm",
    "--primitive=launch",
    f"--pairs={PAIRS}",
    *TIMES,
]
LIMITED, ALIKE = "--arm=host:memory=4GiB,name=b", "--arm=host:name=b"
OURS = re.compile(r'File "[^"]*/primbench/(?!__init__|__main__)')


class Wrong(Exception):
    """What is not as it should be after a fault."""


def check(holds: object, words: str) -> None:
    if not holds:
        raise Wrong(words)


class Victim:
    """A results file, and the command that makes it, in a folder of its own."""

    def __init__(self, folder: Path, dice: random.Random, *, has_groups: bool) -> None:
        self.folder = folder
        self.file = folder / "results.jsonl"
        (folder / "tmp").mkdir()
        (folder / "suite.toml").write_text(SUITE)
        self.is_study = dice.random() < 0.25
        self.asked = [*STUDY, LIMITED if has_groups else ALIKE] if self.is_study else GEMM

    def command(self) -> list[str]:
        if not self.file.exists():
            return [*self.asked, "-o", str(self.file)]
        return ["study", "--resume", str(self.file)] if self.is_study else [*self.asked, "--resume", str(self.file)]

    def start(self, fault: Fault) -> subprocess.Popen[str]:
        program = [sys.executable, "-P", "-m", "primbench", *self.command(), *fault.options]
        shell = f'"$@" {fault.shell}; exit ${{PIPESTATUS[0]}}' if "|" in fault.shell else f'exec "$@" {fault.shell}'
        here = {MARK: str(self.folder), "TMPDIR": str(self.folder / "tmp"), "PYTHONPATH": str(Path(__file__).parent)}

        def begin() -> None:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # what a shell starts in the background ignores it
            if fault.begin:
                fault.begin()

        return subprocess.Popen(
            ["bash", "-c", shell, "bash", *program], cwd=self.folder, env={**os.environ, **here, **fault.variables},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0,
            preexec_fn=begin,  # noqa: PLW1509 - it takes no lock that another thread could hold
        )  # fmt: skip

    def suffer(self, fault: Fault) -> None:
        """Raises Wrong."""
        held = self.held()
        front = self.start(fault)
        if fault.strike:
            fault.strike(front, self.file)
        try:
            out, err = front.communicate(timeout=RUN_WITHIN_S)
        except subprocess.TimeoutExpired:
            front.kill()
            raise Wrong(f"does not end within {RUN_WITHIN_S:g} s") from None
        check(front.returncode in fault.exits, f"exit status {front.returncode}: {err[-500:]}")
        check("Traceback" not in err or ("KeyboardInterrupt" in err and not OURS.search(err)), err[-2000:])
        wait_until(lambda: not self.processes(), "a process is left")
        self.check_kept(held, out, err, fault)

    def held(self) -> Results | None:
        """Removes what holds nothing yet: of a front that was killed before its first line."""
        if self.file.exists() and not self.file.stat().st_size:
            self.file.unlink()
        return results_file.read(self.file) if self.file.exists() else None

    def check_kept(self, held: Results | None, out: str, err: str, fault: Fault) -> None:
        saved = re.search(r"all that was measured is in (\S+)\n", err)
        if saved:
            check(fault.hits_file, f"nobody touched the file: {err}")
            Path(saved[1]).replace(self.file)
        elif fault.hits_file:  # after the end of the run, or before it began: not the program's to notice
            self.file.unlink(missing_ok=True)
            if held is not None:
                write(held, self.file)
            return
        try:
            now = self.held()
        except FileError as error:
            raise Wrong(f"the file cannot be read: {error}") from None
        if held is not None:
            check(now is not None and now.records[: len(held.records)] == held.records, "a record is gone")
        rows = [line for line in out.splitlines() if re.match(r" *\d+  +8  +8 ", line)]
        finished = now.latest() if now else []
        check(self.is_study or len(rows) <= len(finished), f"{len(rows)} rows, {len(finished)} records in the file")

    def processes(self) -> list[psutil.Process]:
        return [each for each in psutil.process_iter() if has_mark(each, str(self.folder))]

    def complete(self) -> None:
        """Raises Wrong where what is left cannot be done, or is done twice."""
        self.suffer(Fault("none"))
        found = self.held()
        check(found, "there is no file")
        assert found
        numbers = [worker.worker for worker in found.workers]
        check(len(numbers) == len(set(numbers)), f"workers {numbers}")
        check(not list((self.folder / "tmp").iterdir()), f"left: {list((self.folder / 'tmp').iterdir())}")
        if found.header.study:
            check(len(whole_pairs(found.header.study, found.records)) == PAIRS, "not as many pairs as asked for")
            check(len(set(map(asked, found.records))) == len(found.records), "a case of a pair is there twice")
        else:
            sizes = sorted(int(each.case.parameters["m"]) for each in found.latest())
            check(sizes == list(range(1, 13)), f"cases {sizes}")
            check({each.status for each in found.latest()} == {"ok"}, "not all are ok")

    def end(self) -> None:
        for process in self.processes():
            process.kill()


def asked(found: Record) -> bytes:
    return found.case.key()


def write(results: Results, path: Path) -> None:
    lines: list[record.Line] = [results.header, *results.workers, *results.records]
    path.write_bytes(b"".join(map(results_file.encode, lines)))


def has_mark(process: psutil.Process, folder: str) -> bool:
    try:
        return process.environ().get(MARK) == folder and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, psutil.ZombieProcess, psutil.AccessDenied):
        return False


def wait_until(happened: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + GONE_WITHIN_S
    while not happened():
        check(time.monotonic() < deadline, otherwise)
        time.sleep(0.02)


def twice(victim: Victim) -> None:
    """Two go on with one file at once: one of them is refused, or comes after the other."""
    if victim.held() is None:
        return
    fronts = [victim.start(Fault("none")) for _ in range(2)]
    said = [front.communicate(timeout=RUN_WITHIN_S)[1] for front in fronts]
    codes = sorted(front.returncode for front in fronts)
    check(set(codes) <= ENDED or (codes[0] in ENDED and codes[1] == 2), f"exit status {codes}: {said}")
    check(codes[1] != 2 or any("is writing to it" in each for each in said), str(said))


def chain(seed: int, *, has_groups: bool) -> tuple[list[str], str | None]:
    """The faults of one file, in words, and what was wrong after the last of them."""
    dice, words = random.Random(seed), []
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        victim = Victim(Path(folder), dice, has_groups=has_groups)
        try:
            for _ in range(LENGTH):
                if dice.random() < 0.08:
                    words.append("--resume twice at once")
                    twice(victim)
                else:
                    fault = drawn(dice)
                    words.append(f"{'study' if victim.is_study else 'run'}: {fault.words}")
                    victim.suffer(fault)
            words.append("none")
            victim.complete()
        except Wrong as wrong:
            return words, str(wrong)
        finally:
            victim.end()
    return words, None


def can_limit() -> bool:
    """Whether control groups can be made here."""
    tops = [Path(each.point) for each in read_mounts(Path("/")) if each.kind.startswith("cgroup")]
    return os.geteuid() == 0 and any(os.access(top, os.W_OK) for top in tops)


def inject(count: int, seed: int, *, at_once: int = 2, tell: Callable[[str], object] = print) -> list[str]:
    """What went wrong, in words. at_once: files that suffer side by side."""
    seeds, has_groups, wrong = range(seed, seed + -(-count // LENGTH)), can_limit(), []
    kinds: Counter[str] = Counter()
    with ThreadPoolExecutor(at_once) as pool:
        chains = pool.map(lambda each: chain(each, has_groups=has_groups), seeds)
        for number, (words, why) in zip(seeds, chains, strict=True):
            kinds.update(re.sub(r"[\d.]+", "N", each) for each in words[:LENGTH])
            if why:
                wrong.append(f"seed {number}: {'; '.join(words)}: {why}")
            tell(f"seed {number}: {wrong[-1] if why else '; '.join(words)}")
    for kind, often in kinds.most_common():
        tell(f"{often:5} {kind}")
    tell(f"{sum(kinds.values())} faults in {len(seeds)} files, {len(wrong)} files wrong")
    return wrong


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--at-once", type=int, default=os.cpu_count() or 2)
    asked = parser.parse_args(arguments)
    sys.exit(bool(inject(asked.count, asked.seed, at_once=asked.at_once)))


if __name__ == "__main__":
    main()
