"""`primbench watch` of real jobs: what really holds one back is what is found first."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import Result

from primbench.cli import main
from primbench.system.cgroups import cgroup_folders
from primbench.watching import watch

Invoke = Callable[..., Result]
Group = Callable[[str, dict[str, str]], Path]
Start = Callable[..., int]

LASTING = "1.5s"
SPIN = "print(flush=True)\nwhile True: pass"
SLEEP = "import time; print(flush=True)\nwhile True: time.sleep(0.2)"
THREADS = (
    "import hashlib, sys, threading; data = bytes(2**22); print(flush=True)\n"
    "def work():\n    while True: hashlib.sha256(data)\n"
    "for _ in range(int(sys.argv[1])): threading.Thread(target=work).start()"
)
# So much at once that a quick disk is waited for in one go: a thread that a look found blocked is still there a moment
# later, when the look asks for what.
SYNC = (
    "import os, sys; file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY); step = os.urandom(2**25)\n"
    "print(flush=True)\n"
    "while True: os.pwrite(file, step, 0), os.fsync(file)"
)
COLD = (
    "import os, random, sys; file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\n"
    "os.write(file, os.urandom(2**24)); os.fsync(file); os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)\n"
    "print(flush=True)\n"
    "while True:\n"
    "    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)\n"
    "    for page in random.sample(range(2**12), 1000): os.pread(file, 4096, page * 4096)"
)
OVER_AND_OVER = (
    "import os, sys; file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\n"
    "for _ in range(12): os.write(file, os.urandom(2**23))\n"
    "os.fsync(file); print(flush=True)\n"
    "while True:\n    os.lseek(file, 0, 0)\n    while os.read(file, 2**16): pass"
)

TOUCH_OVER_AND_OVER = (
    "import os, sys; memory = bytearray(os.urandom(3 * 2**24)); print(flush=True)\n"
    "while True:\n    for page in range(0, len(memory), 4096): memory[page] ^= 1"
)
# A network of one layer by gradient descent, on one thread: OpenBLAS starts none for products that small.
TRAIN = (
    "import numpy as np; dice = np.random.default_rng(0); print(flush=True)\n"
    "x, w = dice.random((32, 64)), np.zeros(64); y = x @ dice.random(64)\n"
    "while True: w -= 1e-3 * x.T @ (x @ w - y)"
)


@pytest.fixture
def swap(tmp_path: Path) -> Iterator[None]:
    """A file of 128 MiB that the kernel may swap to, until the test ends."""
    path = on_a_disk(tmp_path)
    path.touch(mode=0o600)
    path.write_bytes(bytes(2**27))
    for command in ("mkswap", "swapon"):
        done = subprocess.run([command, path], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"needs root's leave to swap to a file: {command}: {done.stderr.strip()}")
    yield
    subprocess.run(["swapoff", path], check=True)


@pytest.fixture
def start(group: Group, request: pytest.FixtureRequest) -> Iterator[Start]:
    """``start(program, *arguments, quota, memory, cpus)``: the number of a job that runs until the test ends.

    Of a quiet test it is in a control group of its own where that may be, which goes before others that run here, and
    leaves some for who watches it.
    quota: in CPUs. cpus: affinity.
    """
    v1 = (cgroup_folders("cpu")[0] / "tasks").exists()

    def settings(quota: float | None) -> dict[str, str]:
        if v1:
            limit = {} if quota is None else {"cpu.cfs_quota_us": f"{quota * 1e5:.0f}"}
            return {"cpu.shares": "8192"} | limit
        return {"cpu.weight": "800"} | ({} if quota is None else {"cpu.max": f"{quota * 1e5:.0f} 100000"})

    with ExitStack() as closing:

        def started(
            program: str,
            *arguments: object,
            quota: float | None = None,
            memory: int | None = None,
            cpus: set[int] | None = None,
        ) -> int:
            folders = []
            if memory is not None:
                folders.append(group("memory", {"memory.limit_in_bytes" if v1 else "memory.max": str(memory)}))
            if request.node.get_closest_marker("quiet") is not None:
                with contextlib.nullcontext() if quota else contextlib.suppress(pytest.skip.Exception):
                    folders.append(group("cpu", settings(quota)))
            moves = "".join(f"echo $$ > {folder / 'cgroup.procs'} && " for folder in folders)
            command = [sys.executable, "-P", "-c", program, *map(str, arguments)]
            process = subprocess.Popen(
                ["sh", "-c", f'{moves}exec "$@"', "sh", *command], stdout=subprocess.PIPE, start_new_session=True
            )
            closing.callback(end, process)
            if cpus is not None:
                os.sched_setaffinity(process.pid, cpus)
            assert process.stdout is not None
            assert b"\n" == process.stdout.readline()
            return process.pid

        yield started


def end(process: subprocess.Popen[bytes]) -> None:
    """With what it started, so that its control groups can be removed."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def watched(invoke: Invoke, pid: int, lasting: str = LASTING) -> list[dict[str, Any]]:
    """The lines that it writes."""
    found = invoke("watch", pid, "--for", lasting, "-o", "-")
    assert (0, "") == (found.exit_code, found.stderr)
    return [json.loads(line) for line in found.stdout.splitlines()]


def hindrances(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in lines if line["kind"] == "hindrance"]


def first(lines: list[dict[str, Any]]) -> Mapping[str, Any]:
    found = hindrances(lines)
    assert found, lines[-1]
    means_something(found[0]["study"])
    return found[0]


def means_something(study: str) -> None:
    words = shlex.split(study)
    with click.Context(main, info_name="primbench", **main.context_settings) as context:
        name, command, rest = main.resolve_command(context, words[1:])
        assert (name, command is not None) == ("study", True)
        assert command is not None
        command.make_context(name, rest, parent=context)


@pytest.mark.quiet
def test_a_training_loop_under_a_quota(invoke: Invoke, start: Start) -> None:
    found = first(watched(invoke, start(TRAIN, quota=0.5)))
    assert "cpu-quota" == found["cause"]
    assert re.fullmatch(r"held back by the CPU quota in \d+\.\d% of periods", found["summary"])
    assert "cpus=0.5" in found["study"]
    assert found["share"] > 0.3


@pytest.mark.quiet
def test_two_busy_threads_of_its_own_on_one_cpu(invoke: Invoke, start: Start) -> None:
    cpu, *others = sorted(os.sched_getaffinity(0))
    job = start(f"import os; os.fork()\n{SPIN}", cpus={cpu})
    os.sched_setaffinity(0, others or {cpu})  # who watches it takes nothing of its CPU, where there is another
    try:
        found = first(watched(invoke, job))
    finally:
        os.sched_setaffinity(0, {cpu, *others})
    assert "threads" == found["cause"]
    assert re.fullmatch(r"2 threads of its own want [12]\.\d CPUs and have 1", found["summary"])
    assert f"bind-cpus={cpu},threads=2" in found["study"]


@pytest.mark.quiet
def test_another_s_busy_thread_on_its_only_cpu(invoke: Invoke, start: Start) -> None:
    cpu = min(os.sched_getaffinity(0))
    job = start(SPIN, cpus={cpu})
    with ExitStack() as closing:
        beside = subprocess.Popen([sys.executable, "-P", "-c", SPIN], stdout=subprocess.DEVNULL, start_new_session=True)
        closing.callback(end, beside)
        os.sched_setaffinity(beside.pid, {cpu})
        (cgroup_folders("cpu", pid=job)[0] / "cgroup.procs").write_text(str(beside.pid))
        found = first(watched(invoke, job))
    assert "cpu-contention" == found["cause"]
    assert any(line.startswith(f"{beside.pid} (python") for line in found["evidence"]), found
    assert re.match(r"its busiest thread waited for a CPU [3-7]\d\.\d% of the time", found["summary"])


@pytest.mark.quiet
def test_more_threads_than_cpus(invoke: Invoke, start: Start) -> None:
    cpus = len(os.sched_getaffinity(0))
    found = first(watched(invoke, start(THREADS, 2 * cpus)))
    assert "threads" == found["cause"], found
    assert re.fullmatch(rf"\d+ threads of its own want \d+\.\d CPUs and have {cpus}", found["summary"])


def on_a_disk(folder: Path) -> Path:
    if os.statvfs(folder).f_blocks == 0 or subprocess.check_output(["stat", "-f", "-c%T", folder]).startswith(b"tmpfs"):
        pytest.skip(f"{folder} is in memory: reading from a disk takes one")
    return folder / "data"


@pytest.mark.quiet
def test_a_file_that_is_not_in_the_page_cache(invoke: Invoke, start: Start, tmp_path: Path) -> None:
    found = first(watched(invoke, start(COLD, on_a_disk(tmp_path))))
    assert "disk" == found["cause"], found
    assert re.fullmatch(r"reads from disk: [0-9.]+ [MG]iB a second", found["summary"])


@pytest.mark.quiet
def test_a_step_that_ends_with_fsync(invoke: Invoke, start: Start, tmp_path: Path) -> None:
    lines = watched(invoke, start(SYNC, on_a_disk(tmp_path)), "3s")
    (found,) = (line for line in lines if line.get("cause") == "disk")  # also where it waits for a CPU as well
    assert "until the disk has it, by fsync or alike" in found["summary"], found
    assert any(words.startswith("in do_fsync in ") for words in found["evidence"])


@pytest.mark.quiet
def test_a_memory_limit_below_what_is_read_over_and_over(invoke: Invoke, start: Start, tmp_path: Path) -> None:
    found = first(watched(invoke, start(OVER_AND_OVER, on_a_disk(tmp_path), memory=2**25)))
    assert "memory" == found["cause"], found
    assert found["summary"].startswith("reads again what its memory limit had taken out of the cache: ")
    assert "memory=32MiB" in found["study"]


@pytest.mark.quiet
@pytest.mark.usefixtures("swap")
def test_a_memory_limit_below_what_is_touched_over_and_over(invoke: Invoke, start: Start) -> None:
    found = first(watched(invoke, start(TOUCH_OVER_AND_OVER, memory=2**25)))
    assert "memory" == found["cause"], found
    assert re.fullmatch(r"swapping in: [0-9.]+ [KMG]iB a second", found["summary"])
    assert "memory=32MiB" in found["study"]


@pytest.mark.quiet
def test_a_job_that_sleeps_is_held_back_by_what_it_waits_for(invoke: Invoke, start: Start) -> None:
    found = invoke("watch", start(SLEEP), "--for", LASTING)
    assert 0 == found.exit_code
    assert re.search(r"\n1\. asleep: nothing of it ran for .* for time to pass: it sleeps by itself\n", found.stdout)
    assert re.search(r"\nWatching took \d+\.\d+% of one CPU: \S+ (ms|us) a sample\n$", found.stdout)


def test_launches_are_counted_by_uprobes_on_the_driver_that_the_job_maps(
    invoke: Invoke, start: Start, launching: str
) -> None:
    pid, counted = start(launching), dict[str, Any]()
    for _ in range(10):  # a count lasts 2 ms, in none of which the job may be given a CPU
        *_, last = watched(invoke, pid, "6s")
        if reason := last["whole"]["missing"].get("calls"):
            pytest.skip(f"needs root's leave for uprobes: {reason}")
        counted = {each["function"]: each for each in last["whole"]["calls"]}
        if counted["cuLaunchKernel"]["ran_s"] > 1e-3:
            break
    assert counted.pop("cuLaunchKernel")["count"] > 10
    assert {0} >= {each["count"] for each in counted.values()}


def test_what_a_job_started_is_followed_too(invoke: Invoke, start: Start) -> None:
    loading = f"import os\nif os.fork() == 0:\n    while True: pass\n{SLEEP}"
    pid, used_s = start(loading), 0.0
    for _ in range(10):  # beside much else it has little of a CPU in each
        *_, last = watched(invoke, pid)
        assert (2, 2) == (last["whole"]["process_count"], last["whole"]["thread_count"])
        if (used_s := last["whole"]["cpu_time_s"]) > 0.1:
            break
    assert used_s > 0.1, "of the one that it started"


def test_lines_are_the_job_its_samples_and_what_was_found(invoke: Invoke, start: Start, tmp_path: Path) -> None:
    pid, lines, counters = start(SPIN), tmp_path / "w.jsonl", tmp_path / "w.prom"
    shown = invoke("watch", pid, "--for", "2.2s", "-o", lines, "--prometheus", counters)
    assert shown.stdout.startswith(f"Process {pid} (python")
    read = [json.loads(line) for line in lines.read_text().splitlines()]
    kinds = [line["kind"] for line in read]
    samples = [line for line in read if line["kind"] == "sample"]
    assert samples  # three, unless the watcher itself waits long for a CPU
    assert ["job", *["sample"] * len(samples)] == kinds[: 1 + len(samples)]
    assert ["watched"] == kinds[-1:]
    assert {"hindrance"} >= set(kinds[1 + len(samples) : -1])
    whole = read[-1]["whole"]
    assert pytest.approx(whole["duration_s"]) == sum(sample["duration_s"] for sample in samples)
    assert pytest.approx(whole["cpu_time_s"]) == sum(sample["cpu_time_s"] for sample in samples)
    assert [lines, counters] == sorted(tmp_path.iterdir()), "nothing is left of what is written beside it"
    assert invoke("show", lines).stdout == shown.stdout
    lines.write_text("".join(lines.read_text().splitlines(keepends=True)[:2]))
    assert ", when watching was broken off\n" in invoke("show", lines).stdout
    assert "it is shown without --csv" in invoke("show", lines, "--csv", "-").stderr
    metric = rf'primbench_watch_cpu_seconds_total{{pid="{pid}"}} {whole["cpu_time_s"]!r}'
    text = counters.read_text()
    assert metric in text.splitlines()
    assert all(
        re.fullmatch(r"# (HELP|TYPE) \w+ .+|\w+\{\w+=\"\d+\"(,thread=\"\d+\")?\} [0-9.e+-]+", line)
        for line in text.splitlines()
    )


def test_a_job_that_ends_while_it_is_watched(invoke: Invoke) -> None:
    begun = time.monotonic()
    with subprocess.Popen(["sleep", "3.3"]) as job:
        *_, last = watched(invoke, job.pid, "60s")
    assert last["ended"] is True
    assert 1 < last["whole"]["time_s"] < time.monotonic() - begun < 30


def test_a_job_that_ends_before_a_second_look_has_nothing_to_show(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "EVERY_S", 60.0)
    with subprocess.Popen(["sleep", "2"]) as job:
        found = invoke("watch", job.pid)
    assert (0, True) == (found.exit_code, ", when it ended\n" in found.stdout)


def test_one_that_has_ended_and_was_not_waited_for_is_said_to_have(refusal: Callable[..., str]) -> None:
    with subprocess.Popen(["true"], stdout=subprocess.PIPE) as job:
        os.waitid(os.P_PID, job.pid, os.WEXITED | os.WNOWAIT)
        words = f"process {job.pid} (true) has ended: process {os.getpid()} has not waited for it yet"
        assert words == refusal("watch", job.pid)
        assert words == refusal("doctor", job.pid)


def test_ctrl_c_ends_it_with_what_was_seen(start: Start) -> None:
    command = [sys.executable, "-P", "-m", "primbench", "watch", str(start(SLEEP)), "-o", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        next(line for line in watching.stdout if '"sample"' in line)
        watching.send_signal(signal.SIGINT)
        rest = [json.loads(line)["kind"] for line in watching.stdout]
    assert (130, "watched") == (watching.returncode, rest[-1])


def test_another_user_s_files_are_unknown_with_the_command_that_shows_them(start: Start) -> None:
    if os.geteuid() != 0:
        pytest.skip("to become another user takes root")
    program = (
        "import os, sys; from primbench.cli import main\n"
        "def run(*words): main(['watch', sys.argv[1], '--for', '0.2s', *words], standalone_mode=False)\n"
        "run(); os.setuid(65534); run()"  # the first imports all there is, which another user may not read
    )
    pid = start(SLEEP)
    found = subprocess.run([sys.executable, "-P", "-c", program, str(pid)], capture_output=True, text=True, check=True)
    as_root, as_other = found.stdout.split("Process ")[1:]
    assert "could not be seen" not in as_root
    assert "could not be seen: read_bytes, written_bytes, calls" in as_other
    assert f"`sudo primbench watch {pid}`" in " ".join(as_other.split())
    assert "read -, written -" in as_other


def test_counters_go_into_no_other_file_than_was_named(invoke: Invoke, start: Start, tmp_path: Path) -> None:
    pid, victim, counters = start(SPIN), tmp_path / "victim", tmp_path / "w.prom"
    victim.write_text("victim's")
    guessed = counters.with_name(f"{counters.name}.{os.getpid()}")  # invoke() is of this process
    guessed.symlink_to(victim)
    assert 0 == invoke("watch", pid, "--for", "1s", "--prometheus", counters).exit_code
    assert "primbench_watch_cpu_seconds_total" in counters.read_text()
    counters.unlink()
    counters.symlink_to(victim)
    for option in ("--prometheus", "-o"):
        refused = invoke("watch", pid, "--for", "1s", option, counters)
        assert f"Error: {counters}: is a link to {victim}, and links are not followed" in refused.stderr
    assert "victim's" == victim.read_text()


def test_counters_go_into_a_device_and_do_not_replace_it(invoke: Invoke, start: Start, tmp_path: Path) -> None:
    null = tmp_path / "null"
    try:
        os.mknod(null, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        null.write_bytes(b"")
    except PermissionError as error:
        pytest.skip(f"needs root's leave to make a device: {error}")
    assert 0 == invoke("watch", start(SPIN), "--for", "1s", "--prometheus", null).exit_code
    assert null.is_char_device()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("999999999",), "process 999999999: there is none of this number here"),
        (("0",), "process 0: numbers of processes begin with 1"),
        (("no-such-job",), "container 'no-such-job': docker: "),
        (("1", "--for", "0s"), "more than 0"),
        (("1", "--for", "ten"), "'ten'"),
        (("1", "--prometheus", "-"), "cannot be stdout"),
        (("1", "-o", "/nowhere/lines"), "/nowhere/lines: there is no folder /nowhere"),
        (("slurm:train",), "slurm:train: the number of a job, or of a step"),
        ((), "Missing argument 'PID|CONTAINER|slurm:JOB'"),
    ],
)
def test_bad_arguments_are_one_line(refusal: Callable[..., str], arguments: tuple[str, ...], words: str) -> None:
    assert words in refusal("watch", *arguments)
