"""The whole program, really started and really broken: what was measured is kept, and no process stays behind."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import jsonschema
import psutil
import pytest

from primbench.results import file as results_file
from primbench.results.file import Results
from primbench.results.record import Record

from ..processes import children, words_of

GONE_WITHIN_S = 60.0
MARK = "FAULT_TEST_RUN"


@dataclass
class Run:
    """Fronts whose processes are told from all others by a variable that they and their children inherit."""

    folder: Path
    package: Path
    fronts: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def file(self) -> Path:
        return self.folder / "results.jsonl"

    def start(self, *arguments: str, wrapper: Sequence[str] = ()) -> subprocess.Popen[str]:
        """The command line in a process group of its own, as a shell starts it."""
        front = subprocess.Popen(
            [*wrapper, sys.executable, "-P", "-m", "primbench", *arguments],
            cwd=self.folder,
            env=os.environ | {MARK: str(self.folder), "PYTHONPATH": str(self.package)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        self.fronts.append(front)
        return front

    def complete(self, *arguments: str, wrapper: Sequence[str] = ()) -> tuple[int, str, str]:
        return ended(self.start(*arguments, wrapper=wrapper))

    def processes(self) -> list[psutil.Process]:
        return [process for process in psutil.process_iter() if has_mark(process, str(self.folder))]

    def wait_until_hanging(self) -> None:
        wait_until(lambda: (self.folder / "hang").exists())

    def wait_until_all_gone(self) -> None:
        wait_until(lambda: not self.processes())


def has_mark(process: psutil.Process, folder: str) -> bool:
    try:
        return process.environ().get(MARK) == folder
    except (psutil.NoSuchProcess, psutil.ZombieProcess, psutil.AccessDenied):
        return False


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + GONE_WITHIN_S
    while not happened():
        assert time.monotonic() < deadline, f"not within {GONE_WITHIN_S} s"
        time.sleep(0.02)


def ended(front: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = front.communicate(timeout=60)
    return front.returncode, out, err


@pytest.fixture
def run(tmp_path: Path, faulty_package: Path) -> Iterator[Run]:
    started = Run(tmp_path, faulty_package)
    yield started
    for process in started.processes():
        process.kill()
    for front in started.fronts:
        front.communicate()


def workers_of(front: subprocess.Popen[str]) -> list[psutil.Process]:
    return children("primbench.workers.worker", front.pid)


def told(records: Sequence[Record]) -> list[tuple[str, str | None]]:
    return [(record.status, record.reason) for record in records]


def rows(table: str) -> list[str]:
    """Without the headings."""
    return [line for line in table.splitlines() if line.strip()[:1].isdigit()]


def faults(*names: str) -> list[str]:
    options = [option for name in names for option in ("--fault", name)]
    return ["faulty", "-n", "16", *options, "--device=cpu", "--max-time=10ms", "--min-time=1ms"]


INTERRUPTED = faults("none", "hang", "print")


def gemm(*options: str) -> list[str]:
    return ["gemm", "--backend", "numpy", "--device", "cpu", *options]


def interrupted_run(run: Run) -> subprocess.Popen[str]:
    """One case done, the next one hanging."""
    front = run.start(*INTERRUPTED, "-o", str(run.file))
    run.wait_until_hanging()
    return front


def check_interrupted(run: Run, out: str, err: str) -> None:
    held = results_file.read(run.file)
    assert [("ok", None)] == told(held.records)
    assert 1 == len(rows(out))
    going_on = shlex.join(["primbench", *INTERRUPTED, "--resume", str(run.file)])
    assert f"Stopped after 1 of 3 cases.\nGo on with: {going_on}\n" == err
    run.wait_until_all_gone()


def test_a_worker_killed_in_the_middle_of_a_case_costs_that_case_alone(run: Run) -> None:
    # The second case takes seconds, its inputs and its check.
    front = run.start(*gemm("-m64", "-m8192", "-m32", "-n4096", "-k4096", "--dry-run"), "-o", str(run.file))
    wait_until(lambda: run.file.exists() and b'"kind":"record"' in run.file.read_bytes())
    (worker,) = workers_of(front)
    worker.kill()
    code, out, _ = ended(front)

    held = results_file.read(run.file)
    assert 1 == code
    assert ["ok", "failed", "ok"] == [each.status for each in held.records]
    assert str(held.records[1].reason).startswith("worker was killed by SIGKILL")
    assert [0, 0, 1] == [each.worker for each in held.records]
    assert worker.pid == held.workers[0].pid != held.workers[1].pid
    assert 3 == len(rows(out))
    run.wait_until_all_gone()


FAILURES = {
    "hang": r"no answer within 8 s \(--timeout\)",
    "abort": "worker died of signal SIGABRT: last words",
    "segfault": "worker died of signal SIGSEGV",
    "nameless-signal": r"worker died of signal \d+",
    "exit": "worker died of exit status 3",
    "raise": "RuntimeError: out of luck",
    "wrong": "VerificationError: wrong result: error .*, tolerance 1e-12",
    "unwritten": "VerificationError: 16 of 16 elements of the output were never written, or are NaN",
    "memory": r"(_Array)?MemoryError: Unable to allocate 16.0 GiB .*",
}


def test_a_failing_case_is_recorded_and_the_next_one_gets_a_new_worker(run: Run) -> None:
    code, out, err = run.complete(*faults("none", *FAILURES, "print"), "--timeout", "8s", "-o", str(run.file))
    held = results_file.read(run.file)
    assert (1, "") == (code, err)
    first, *failed, last = held.records
    assert ("ok", "ok") == (first.status, last.status)
    for (fault, reason), each in zip(FAILURES.items(), failed, strict=True):
        assert ("failed", None) == (each.status, each.measurement), fault
        assert re.fullmatch(reason, str(each.reason)), fault
    workers = list(range(1 + len(FAILURES)))
    assert [0, *workers] == [each.worker for each in held.records]
    assert workers == [each.worker for each in held.workers]
    assert len(held.records) == len(rows(out))
    run.wait_until_all_gone()


@pytest.mark.parametrize("habit", ["print", "stdin"])
def test_a_kernel_that_prints_or_reads_does_not_disturb_the_run(run: Run, habit: str) -> None:
    code, _, err = run.complete(*faults("none", habit, "unsupported"), "-o", str(run.file))
    held = results_file.read(run.file)
    expected = [("ok", None), ("ok", None), ("skipped", "not with this fault")]
    assert (0, "", expected) == (code, err, told(held.records))
    assert 1 == len(held.workers)


def test_verbose_shows_what_workers_print(run: Run) -> None:
    _, out, err = run.complete(*faults("print"), "--verbose")
    assert {"written", "from a child"} <= set(err.splitlines())
    assert "written" not in out


def test_verbose_shows_where_a_case_failed(run: Run) -> None:
    code, out, err = run.complete(*faults("raise"), "--verbose")
    case, first, *frames, _, last = [line for line in err.splitlines() if line.strip(" ^~")]
    assert (1, "Traceback (most recent call last):", "and more") == (code, first, last)
    assert "raise on numpy cpu" in case
    assert any(line.endswith("in raise_error") for line in frames)
    assert "Traceback" not in out


def test_a_case_that_does_not_fit_in_memory_is_skipped_unallocated(run: Run) -> None:
    code, _, _ = run.complete(*gemm("-m1000000", "-m8", "-n1000000", "-k1", "--dry-run"), "-o", str(run.file))
    held = results_file.read(run.file)
    assert 0 == code
    assert ["skipped", "ok"] == [each.status for each in held.records]
    assert re.fullmatch(r"needs 7\.\d+ TiB, .* free on this host", str(held.records[0].reason))


def test_every_line_follows_the_published_schema(run: Run) -> None:
    run.complete(*faults("none", "raise", "unsupported", "abort"), "-o", str(run.file))
    validator = jsonschema.Draft202012Validator(results_file.schema())
    lines = [json.loads(line) for line in run.file.read_bytes().splitlines()]
    assert ["header", "worker", "record"] == [line["kind"] for line in lines[:3]]
    assert ["ok", "failed", "skipped", "failed"] == [line["status"] for line in lines if line["kind"] == "record"]
    for line in lines:
        validator.validate(line)


@pytest.fixture
def small_disk(tmp_path: Path) -> list[str]:
    """A command to put before another, which then finds a file system of 32 KiB as ``disk``.

    The disk is gone afterwards; what was in its results file is then in ``results.jsonl`` beside it.
    """
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    space = ["unshare", *as_root, "--mount", "sh", "-c"]
    (tmp_path / "disk").mkdir()
    mount = f"mount -t tmpfs -o size=32k tmpfs {tmp_path}/disk"
    if shutil.which("unshare") is None:
        pytest.skip("a small disk needs unshare, of util-linux")
    tried = subprocess.run([*space, mount], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"a small disk needs the right to mount a tmpfs: {tried.stderr.strip()}")
    keep = f"cp {tmp_path}/disk/results.jsonl {tmp_path}"
    return [*space, f'{mount} && {{ "$@"; code=$?; {keep}; exit $code; }}', "sh"]


def test_a_full_disk_ends_the_run_with_a_whole_file_and_the_table(run: Run, small_disk: list[str]) -> None:
    sizes = [f"-m{size}" for size in range(1, 65)]
    on_disk = run.folder / "disk/results.jsonl"
    code, out, err = run.complete(*gemm(*sizes, "-n1", "-k1", "--dry-run"), "-o", str(on_disk), wrapper=small_disk)
    held = results_file.read(run.file)
    assert 1 == code
    message = f"Error: {on_disk}: No space left on device; it holds every case finished before this one\n"
    assert message == err
    assert 0 < len(held.records) < 64
    assert {"ok"} == {each.status for each in held.records}
    assert len(held.records) == len(rows(out))
    run.wait_until_all_gone()


def test_ctrl_c_keeps_what_was_measured(run: Run) -> None:
    front = interrupted_run(run)
    os.killpg(front.pid, signal.SIGINT)
    code, out, err = ended(front)
    assert 130 == code
    check_interrupted(run, out, err)


def held_file(run: Run) -> tuple[bytes, Results]:
    run.complete(*faults("none", "raise-once", "unsupported"), "-o", str(run.file))
    return run.file.read_bytes(), results_file.read(run.file)


def test_resume_tries_failed_cases_again_and_adds_new_ones(run: Run) -> None:
    before, first = held_file(run)
    assert ["ok", "failed", "skipped"] == [each.status for each in first.records]

    code, out, _ = run.complete(*faults("none", "raise-once", "unsupported", "print"), "--resume", str(run.file))
    after = results_file.read(run.file)
    assert 0 == code
    assert run.file.read_bytes().startswith(before)
    assert ["raise-once", "print"] == [each.case.parameters["fault"] for each in after.records[3:]]
    assert [("ok", None)] * 2 == told(after.records[3:])
    assert ["ok", "ok", "skipped", "ok"] == [each.status for each in after.latest()]
    assert [0, 1, 2] == [each.worker for each in after.workers]
    assert [2, 2] == [each.worker for each in after.records[3:]]
    assert 4 == len(rows(out))


def test_a_file_is_resumed_once_at_a_time(run: Run) -> None:
    run.complete(*faults("none"), "-o", str(run.file))
    front = run.start(*faults("none", "hang"), "--resume", str(run.file))
    run.wait_until_hanging()
    before = run.file.read_bytes()
    code, out, err = run.complete(*faults("none", "print"), "--resume", str(run.file))
    assert (2, "") == (code, out)
    assert f"Error: {run.file}: process {front.pid} is writing to it: wait for its end\n" == err
    assert before == run.file.read_bytes()


def test_a_file_removed_during_the_run_is_told_and_what_was_measured_kept(run: Run) -> None:
    front = interrupted_run(run)
    run.file.unlink()
    front.send_signal(signal.SIGINT)
    code, out, err = ended(front)
    assert (1, 1) == (code, len(rows(out)))
    assert re.search(
        rf"Error: {run.file}: was removed .* all that was measured is in {run.folder}/results-.*\.jsonl\n", err
    )
    (kept,) = run.folder.glob("results-*.jsonl")
    assert [("ok", None)] == told(results_file.read(kept).records)


def test_resume_of_a_finished_run_starts_no_worker(run: Run) -> None:
    run.complete(*faults("none", "unsupported"), "-o", str(run.file))
    before = run.file.read_bytes()
    code, out, _ = run.complete(*faults("none", "unsupported"), "--resume", str(run.file))
    assert (0, 2, before) == (code, len(rows(out)), run.file.read_bytes())


UNFIT: list[tuple[Callable[[bytes], bytes], str]] = [
    (lambda whole: whole[:-9], "cut off in the middle of the line"),
    (lambda whole: b"m,n,k,time\n1,2,3,4\n", "not a primbench results file"),
    (lambda whole: re.sub(rb'"schema_version":\d+', b'"schema_version":999', whole, count=1), "upgrade primbench"),
]


def test_resume_refuses_a_file_that_it_cannot_go_on_with(run: Run) -> None:
    whole, _ = held_file(run)
    for spoil, expected in UNFIT:
        spoilt = spoil(whole)
        run.file.write_bytes(spoilt)
        code, out, err = run.complete(*faults("none"), "--resume", str(run.file))
        assert (2, "") == (code, out)
        assert re.fullmatch(f"Error: {run.file}.*{expected}.*\n", err)
        assert spoilt == run.file.read_bytes()
    run.file.unlink()
    code, out, err = run.complete(*faults("none"), "--resume", str(run.file))
    assert (2, "") == (code, out)
    assert re.fullmatch(f"Error: {run.file}.*No such file.*\n", err)
    assert not run.file.exists()


def test_output_leaves_an_existing_file_alone(run: Run) -> None:
    run.file.write_bytes(b"\x00 precious \xff")
    code, out, err = run.complete(*faults("none"), "-o", str(run.file))
    assert (2, "") == (code, out)
    assert f"Error: {run.file}: exists; add to it with --resume {run.file}, or replace it with --overwrite\n" == err
    assert b"\x00 precious \xff" == run.file.read_bytes()


def test_processes_are_fresh_ones(run: Run) -> None:
    code, _, _ = run.complete(*faults("none", "print"), "--processes", "3", "-o", str(run.file))
    held = results_file.read(run.file)
    assert 0 == code
    assert [0, 0, 1, 1, 2, 2] == [each.case.process for each in held.records]
    assert [0, 0, 1, 1, 2, 2] == [each.worker for each in held.records]
    assert 3 == len({worker.pid for worker in held.workers})


def test_a_file_name_that_is_no_utf8_is_recorded_escaped(run: Run) -> None:
    name = os.fsdecode(b"r\xff.jsonl")
    code, _, _ = run.complete(*faults("none"), "-o", name, "--label", os.fsdecode(b"where=\xfe"))
    header = results_file.read(run.folder / name).header
    assert (0, r"r\xff.jsonl", {"where": r"\xfe"}) == (code, header.command[-3], header.labels)


# A study, in which the workers of a pair take turns.


def arms(run: Run) -> list[str]:
    return [f"--arm=host:name={name},env.{MARK}={run.folder},env.PYTHONPATH={run.package}" for name in ("one", "other")]


def study(run: Run, *cases: str, options: Sequence[str] = ("--min-time=0.5s", "--max-time=0.5s")) -> list[str]:
    """Two arms of this machine, whose workers have the mark of the run, and a pair of theirs in these cases."""
    (run.folder / "suite.toml").write_text("\n".join(cases))
    where = ["--backend=numpy", "--device=cpu", "--fail-on=never", "--pairs=1", "-o", str(run.file)]
    return ["study", str(run.folder / "suite.toml"), *arms(run), *where, *options]


LAUNCHES = '[[launch]]\ncall = ["dispatch", "getppid"]'
LASTING = ("--min-time=1.5s", "--max-time=1.5s")  # until both workers have been found, and something is done to them


def in_turn(run: Run) -> list[psutil.Process]:
    """The two workers of a pair, once both sample: each has its thread on the CPU that both call from."""

    found: list[psutil.Process] = []

    def are_found() -> bool:
        found[:] = [each for each in run.processes() if is_sampling(each)]
        return len(found) == 2

    wait_until(are_found)
    return found


def is_sampling(process: psutil.Process) -> bool:
    with suppress(psutil.Error):  # it has ended
        return "primbench.workers.worker" in words_of(process) and len(process.cpu_affinity()) == 1
    return False


def test_a_worker_killed_in_its_turns_costs_its_own_case_alone(run: Run) -> None:
    front = run.start(*study(run, LAUNCHES, options=LASTING))
    killed, _ = in_turn(run)
    killed.kill()
    code, _, err = ended(front)
    held = results_file.read(run.file)
    assert (1, "") == (code, err)
    died = next(each.arm.name for each in held.workers if each.pid == killed.pid and each.arm)
    first, second = held.records[:2], held.records[2:]
    assert {died: "failed", other_than(died): "ok"} == {each.case.arm: each.status for each in first}
    assert {f"{each.reason}"[:28] for each in first} == {"None", "worker was killed by SIGKILL"}
    assert ["ok", "ok"] == [each.status for each in second]
    assert all(each.measurement and each.measurement.turns for each in second)
    assert 3 == len(held.workers)
    run.wait_until_all_gone()


def other_than(arm: str) -> str:
    return "other" if arm == "one" else "one"


def test_ctrl_c_in_the_middle_of_turns_keeps_what_was_measured_and_the_study_goes_on(run: Run) -> None:
    front = run.start(*study(run, LAUNCHES, options=LASTING))
    wait_until(lambda: run.file.exists() and run.file.read_bytes().count(b'"kind":"record"') == 2)
    in_turn(run)
    os.killpg(front.pid, signal.SIGINT)
    code, _, err = ended(front)
    going_on = f"primbench study --resume {run.file}"
    assert (130, f"Stopped after 2 of 4 cases.\nGo on with: {going_on}\n") == (code, err)
    assert [("ok", None)] * 2 == told(results_file.read(run.file).records)
    run.wait_until_all_gone()

    code, _, err = run.complete("study", "--resume", str(run.file), *arms(run), "--fail-on=never")
    held = results_file.read(run.file)
    assert (0, "") == (code, err)
    assert [0, 0, 1, 1, 1, 1] == [each.case.process for each in held.records]
    assert all(each.measurement and each.measurement.turns for each in held.records)
    assert [0, 1, 2, 3] == [each.worker for each in held.workers]
    run.wait_until_all_gone()


def test_a_case_that_does_not_fit_beside_other_arms_is_run_alone(run: Run) -> None:
    cases = '[[faulty]]\nn = 16\nfault = ["none", "crowded", "unsupported"]'
    code, _, err = run.complete(*study(run, cases, options=("--min-time=1ms", "--max-time=10ms")))
    held = results_file.read(run.file)
    assert (0, "") == (code, err)
    found = {(each.case.parameters["fault"], each.case.arm): each for each in held.records}
    assert 6 == len(found) == len(held.records)
    assert {"none": "ok", "crowded": "ok", "unsupported": "skipped"} == {
        fault: found[fault, "other"].status for fault, _ in found
    }
    alone = found["crowded", "other"].measurement
    assert alone is not None
    assert (None, "not beside other arms: there is room for one") == (alone.turns, alone.missing["turns"])
    first = found["crowded", "one"].measurement
    assert first is not None
    assert first.turns is not None
