from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
import pytest

from primbench.measurement import Measurement, Samples
from primbench.measurement.readings import HostReading, Turns
from primbench.results.disturbances import disturbances
from primbench.system import neighbours
from primbench.system.cgroups import cgroup_folders
from primbench.timing import host_counters

V2 = {
    "proc/pressure/cpu": "some avg10=0.00 avg60=0.00 avg300=0.00 total={pressure}\nfull avg10=0.00 total=7\n",
    "proc/self/cgroup": "0::/job/step\n",
    "proc/self/mountinfo": "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    "sys/fs/cgroup/cpu.stat": "usage_usec 1\n",
    "sys/fs/cgroup/job/cpu.stat": "nr_periods {periods}\nnr_throttled {stopped}\nthrottled_usec {throttled}\n",
    "sys/fs/cgroup/job/step/cpu.stat": "usage_usec 1\nthrottled_usec 100\n",
    "proc/self/task/7/schedstat": "1 {waited} 1\n",
    "proc/self/task/9/schedstat": "1 500 1\n",
    "proc/self/io": "rchar: 7\nread_bytes: {read}\n",
    "proc/vmstat": "pgpgin 7\nworkingset_refault_file {reread}\n",
}
V1 = {
    "proc/pressure/cpu": "some avg10=0.00 total={pressure}\n",
    "proc/self/cgroup": "2:cpu,cpuacct:/job\n",
    "proc/self/mountinfo": "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n",
    "sys/fs/cgroup/cpu/cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
    "sys/fs/cgroup/cpu/job/cpu.stat": "nr_periods 9\nnr_throttled 2\nthrottled_time {throttled}\n",
}


def write(root: Path, files: dict[str, str], **counters: int) -> Path:
    counters = {"waited": 0, "periods": 9, "stopped": 2, "read": 0, "reread": 0} | counters
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text.format(**counters))
    return root


def test_v2_counters_are_differences_in_seconds(tmp_path: Path) -> None:
    before = host_counters.start(write(tmp_path, V2, pressure=1_000_000, throttled=500, waited=10**9))
    write(
        tmp_path, V2, pressure=1_000_005, throttled=250_500, waited=3 * 10**9, periods=14, stopped=6, read=5, reread=2
    )
    reading = host_counters.since(before)
    assert pytest.approx(5e-6) == reading.cpu_pressure_some_s
    assert pytest.approx(0.25) == reading.throttled_s
    assert (5, 4) == (reading.quota_periods, reading.throttled_periods)
    assert pytest.approx(2.0) == reading.waited_s
    assert (5, 2 * os.sysconf("SC_PAGE_SIZE")) == (reading.read_bytes, reading.reread_bytes)
    assert {"slow_cpus", "others_s", "stolen_s", "cpus"} == set(reading.missing)


def test_v1_throttling_is_counted_in_nanoseconds(tmp_path: Path) -> None:
    before = host_counters.start(write(tmp_path, V1, pressure=0, throttled=1_000))
    write(tmp_path, V1, pressure=0, throttled=6_000)
    assert pytest.approx(5e-6) == host_counters.since(before).throttled_s


def test_nothing_that_happened_is_zero_and_known(tmp_path: Path) -> None:
    before = host_counters.start(write(tmp_path, V2, pressure=3, throttled=3))
    reading = host_counters.since(before)
    assert (reading.cpu_pressure_some_s, reading.waited_s, reading.throttled_s) == (0, 0, 0)


def test_thread_that_came_since_counts_with_all_its_waiting(tmp_path: Path) -> None:
    before = host_counters.start(write(tmp_path, V2, pressure=0, throttled=0))
    write(tmp_path, {"proc/self/task/11/schedstat": "1 4000000000 1\n"})
    assert pytest.approx(4.0) == host_counters.since(before).waited_s


@pytest.mark.parametrize("files", [{}, {"proc/self/task/7/schedstat": "0 0 0\n"}])
def test_kernel_that_does_not_count_waiting_says_so(files: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "proc/self/task/7").mkdir(parents=True)
    write(tmp_path, files)
    reading = host_counters.since(host_counters.start(tmp_path))
    assert None is reading.waited_s
    assert "does not count" in reading.missing["waited_s"]


def threads(root: Path, **cpu_and_ran_s: tuple[int, int]) -> None:
    for name, (cpu, ran_s) in cpu_and_ran_s.items():
        folder = f"proc/self/task/{name.removeprefix('t')}"
        write(root, {f"{folder}/stat": f"7 (a) b) R {'0 ' * 35}{cpu} 0 0\n"})
        write(root, {f"{folder}/schedstat": f"{ran_s}000000000 0 1\n"})


@pytest.mark.parametrize(("allowed", "seen"), [(range(16), [9, 13]), (range(8, 16), []), ([0], [])])
def test_slower_cpus_count_where_busy_threads_were_and_quicker_ones_were_to_be_had(
    allowed: Iterable[int], seen: list[int], tree: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thread 8 sleeps; thread 9 came meanwhile. CPUs from 8 on are slower."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(allowed))
    root = tree("intel-hybrid")
    threads(root, t7=(9, 100), t8=(10, 100))
    before = host_counters.start(root)
    threads(root, t7=(3, 300), t8=(11, 100), t9=(13, 200))
    assert seen == host_counters.since(before).slow_cpus


@pytest.mark.parametrize("damage", ["", "7 (a", "7 (a) R 0\n"])
def test_processor_of_a_thread_that_cannot_be_read_has_a_reason(damage: str, tree: Callable[[str], Path]) -> None:
    root = tree("intel-hybrid")
    threads(root, t7=(9, 100))
    write(root, {"proc/self/task/7/stat": damage})
    reading = host_counters.since(host_counters.start(root))
    assert None is reading.slow_cpus
    assert "slow_cpus" in reading.missing


def test_pressure_of_the_cgroup_stands_in_where_the_machine_hides_its_own(tmp_path: Path) -> None:
    own = {"sys/fs/cgroup/job/step/cpu.pressure": "some avg10=0.00 total={pressure}\n"}
    files = {name: text for name, text in V2.items() if name != "proc/pressure/cpu"} | own
    before = host_counters.start(write(tmp_path, files, pressure=0, throttled=0))
    write(tmp_path, files, pressure=40, throttled=0)
    assert pytest.approx(40e-6) == host_counters.since(before).cpu_pressure_some_s


def test_root_group_of_v2_cannot_be_throttled_and_says_so(tmp_path: Path) -> None:
    files = V2 | {"proc/self/cgroup": "0::/\n"}
    reading = host_counters.since(host_counters.start(write(tmp_path, files, pressure=0, throttled=0)))
    assert None is reading.throttled_s
    assert "counts no throttling" in reading.missing["throttled_s"]


@pytest.mark.parametrize("periods", [0, 9])
def test_a_quota_is_one_whose_periods_are_counted(tmp_path: Path, periods: int) -> None:
    assert (periods > 0) == host_counters.has_quota(write(tmp_path, V2, pressure=0, periods=periods, throttled=0))


def test_move_to_another_cgroup_leaves_throttling_unknown(tmp_path: Path) -> None:
    before = host_counters.start(write(tmp_path, V2, pressure=0, throttled=0))
    write(tmp_path, {"sys/fs/cgroup/other/cpu.stat": "throttled_usec 4\n", "proc/self/cgroup": "0::/other\n"})
    reading = host_counters.since(before)
    assert None is reading.throttled_s
    assert "moved to another control group" in reading.missing["throttled_s"]


@pytest.mark.parametrize("name", sorted(V2))
@pytest.mark.parametrize("content", [None, b"", b"\xff\x00", b"garbage", b"some total=x\nthrottled_usec x\n"])
def test_unreadable_counters_never_raise_and_have_a_reason(tmp_path: Path, name: str, content: bytes | None) -> None:
    root = write(tmp_path, V2, pressure=0, throttled=0)
    (root / name).unlink() if content is None else (root / name).write_bytes(content)
    reading = host_counters.since(host_counters.start(root))
    for field in ("cpu_pressure_some_s", "waited_s", "slow_cpus", "throttled_s"):
        assert (getattr(reading, field) is None) == (field in reading.missing)


def test_empty_root_names_every_counter(tmp_path: Path) -> None:
    reading = host_counters.since(host_counters.start(tmp_path))
    fields = {"cpu_pressure_some_s", "waited_s", "slow_cpus", "throttled_s", "others_s", "stolen_s", "cpus"}
    fields |= {"read_bytes", "reread_bytes"}
    assert fields == set(reading.missing)
    assert reading.missing["throttled_s"].endswith("ENOENT")


TICKS = os.sysconf("SC_CLK_TCK")
OWN, CHILD = 42, 43


def machine(root: Path, busy_s: float, stolen_s: float, own_s: float, child_s: float, ended_s: float) -> Path:
    """Four CPUs, of which 0 and 2 are a core; this process has a child, and others that have ended."""
    own, ended, child, busy, stolen = (round(each * TICKS) for each in (own_s, ended_s, child_s, busy_s, stolen_s))
    others = "cpu1 9999 0 0 9 0 0 0 0 0 0\ncpu3 7777 0 0 9 0 0 0 7777 0 0\nintr 5 5 5\n"
    cpus = f"cpu0 {busy} 0 0 50 0 0 0 {stolen} 0 0\ncpu2 0 0 {busy} 50 0 0 0 0 0 0\n"
    cores = {
        f"sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list": f"{cpu % 2},{cpu % 2 + 2}\n" for cpu in range(4)
    }
    (root / "proc").mkdir(exist_ok=True)
    if not (root / "proc/self").is_symlink():
        (root / "proc/self").symlink_to(str(OWN))
    return write(
        root,
        cores
        | {"proc/stat": f"cpu {busy + 9} 0 0 50 0 0 0 0 0 0\n{cpus}{others}"}
        | {f"proc/{OWN}/stat": f"{OWN} (a) b) R {'0 ' * 10}{own} 0 {ended} 0 0\n"}
        | {f"proc/{OWN}/task/{OWN}/children": f"{CHILD} 99 "}
        | {f"proc/{CHILD}/stat": f"{CHILD} (c) R {'0 ' * 10}0 {child} 0 0 0\n"}
        | {f"proc/{CHILD}/task/{CHILD}/children": ""},
    )


def test_what_others_took_is_of_the_cpus_of_this_process_and_without_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Child 99 has ended since it was listed."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    before = host_counters.start(machine(tmp_path, busy_s=5, stolen_s=1, own_s=1, child_s=1, ended_s=1))
    machine(tmp_path, busy_s=9, stolen_s=1.25, own_s=2, child_s=1.5, ended_s=1.75)
    reading = host_counters.since(before)
    assert 2 == reading.cpus
    assert pytest.approx((8 - 2.25, 0.25)) == (reading.others_s, reading.stolen_s)
    turns = Turns(count=4, cpu=None, waited_s=0.0, queued_s=0.0, uncounted_s=0.0)
    for unknown in (host_counters.since(before, is_alone=False), host_counters.since(before, turns)):
        assert (None, None, None) == (unknown.cpus, unknown.others_s, unknown.stolen_s)
        assert "other processes of this measurement" in unknown.missing["stolen_s"]


def test_a_process_bound_to_other_cpus_meanwhile_does_not_know_what_others_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpus = [{0}]
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: cpus[-1])
    before = host_counters.start(machine(tmp_path, busy_s=5, stolen_s=1, own_s=1, child_s=1, ended_s=1))
    cpus.append({1})
    reading = host_counters.since(before)
    assert (None, "bound to other CPUs") == (reading.others_s, reading.missing["others_s"][17:36])


def test_process_counters_are_differences(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    usages = iter(
        [
            types.SimpleNamespace(ru_utime=1.0, ru_stime=0.5, ru_nvcsw=10, ru_nivcsw=3),
            types.SimpleNamespace(ru_utime=1.25, ru_stime=0.625, ru_nvcsw=14, ru_nivcsw=4),
        ]
    )
    monkeypatch.setattr("resource.getrusage", lambda who: next(usages))
    clock = iter([100.0, 102.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    reading = host_counters.since(host_counters.start(tmp_path))
    assert (
        reading.duration_s,
        reading.cpu_time_s,
        reading.voluntary_switches,
        reading.involuntary_switches,
    ) == (2.0, 0.375, 4, 1)


def test_the_turns_of_others_are_no_time_of_this_process(tmp_path: Path) -> None:
    files = {**V2, f"proc/self/task/{os.getpid()}/schedstat": "1 {waited} 1\n", "proc/self/task/7/schedstat": "1 0 1\n"}
    before = host_counters.start(write(tmp_path, files, pressure=1, throttled=500, waited=0))
    write(tmp_path, files, pressure=9, throttled=500, waited=10**9)
    turns = Turns(count=4, cpu=None, waited_s=8.0, queued_s=0.75, uncounted_s=0.5)
    reading = host_counters.since(msgspec.structs.replace(before, time_s=before.time_s - 10), turns)
    assert 2 <= reading.duration_s < 8
    assert pytest.approx(0.25) == reading.waited_s, "it had to wait until its turns began, too"
    assert reading.cpu_pressure_some_s is None
    assert "others had their turns" in reading.missing["cpu_pressure_some_s"]


def test_counters_of_this_machine_only_grow() -> None:
    reading = host_counters.since(host_counters.start())
    assert reading.duration_s > 0
    assert min(reading.cpu_time_s, reading.voluntary_switches, reading.involuntary_switches) >= 0
    assert (reading.cpu_pressure_some_s is None) == ("cpu_pressure_some_s" in reading.missing)
    assert (reading.waited_s is None) == ("waited_s" in reading.missing)


# Takes so much of a CPU's time, however long it waits for it, and prints what it read.
SPIN = """
import time
import msgspec
from primbench.timing import host_counters
before = host_counters.start()
end = time.process_time() + {cpu_s}
while time.process_time() < end:
    pass
print(msgspec.json.encode(host_counters.since(before)).decode())
"""


def spin(before_exec: str, cpu_s: float) -> HostReading:
    """What a program reads that is put where ``before_exec`` says, in Python."""
    program = SPIN.format(cpu_s=cpu_s)
    start = f"import os, sys\n{before_exec}\nos.execv(sys.executable, [sys.executable, '-P', '-c', {program!r}])"
    done = subprocess.run([sys.executable, "-P", "-c", start], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return msgspec.json.decode(done.stdout, type=HostReading)


@pytest.fixture
def group_of_a_tenth() -> Iterator[Path]:
    """A control group that may use a tenth of a CPU, below that of this process."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="primbench-test-", dir=cgroup_folders("cpu")[0]))
    except (OSError, ValueError) as error:
        pytest.skip(f"a control group with a CPU quota cannot be made here: {error}")
    try:
        try:
            if (folder / "cpu.cfs_quota_us").exists():
                (folder / "cpu.cfs_quota_us").write_text("10000")
            else:
                (folder / "cpu.max").write_text("10000 100000")
        except OSError as error:
            pytest.skip(f"a control group with a CPU quota cannot be made here: {error}")
        yield folder
    finally:
        folder.rmdir()


def test_quota_of_a_real_control_group_holds_a_spinning_program_back(group_of_a_tenth: Path) -> None:
    move = f"open({str(group_of_a_tenth / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))"
    reading = spin(move, cpu_s=0.05)  # five periods' worth
    assert reading.throttled_s is not None
    assert reading.throttled_s > 0.1
    assert 1 == sum(each.kind == "quota" for each in disturbances(timed(reading)))


def test_program_that_shares_its_cpu_has_waited_for_it() -> None:
    cpu = max(os.sched_getaffinity(0))
    bind = f"os.sched_setaffinity(0, {{{cpu}}})"
    rival = subprocess.Popen(
        [sys.executable, "-P", "-c", f"import os\n{bind}\nprint(flush=True)\nwhile 1: pass"], stdout=subprocess.PIPE
    )
    try:
        assert rival.stdout is not None
        rival.stdout.readline()
        reading = spin(bind, cpu_s=0.25)
    finally:
        rival.kill()
        rival.communicate()
    if reading.waited_s is None:
        pytest.skip(reading.missing["waited_s"])
    assert reading.waited_s > 0.05
    assert "busy-cpus" in {each.kind for each in disturbances(timed(reading))}
    assert reading.others_s is not None
    assert reading.others_s > 0.1
    assert rival.pid in {each.pid for each in reading.others} or len(reading.others) == neighbours.MOST


def timed(reading: HostReading) -> Measurement:
    samples = Samples(samples_s=[1.0], calls_per_sample=1, taken_by="host clock", stopped="count")
    return Measurement(batch_s=samples, host=reading)
