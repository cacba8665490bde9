from __future__ import annotations

import types
from typing import TYPE_CHECKING

import pytest

from primbench import conditions

if TYPE_CHECKING:
    from pathlib import Path

V2 = {
    "proc/pressure/cpu": "some avg10=0.00 avg60=0.00 avg300=0.00 total={pressure}\nfull avg10=0.00 total=7\n",
    "proc/self/cgroup": "0::/job/step\n",
    "proc/self/mountinfo": "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    "sys/fs/cgroup/cpu.stat": "usage_usec 1\n",
    "sys/fs/cgroup/job/cpu.stat": "usage_usec 1\nnr_throttled 2\nthrottled_usec {throttled}\n",
    "sys/fs/cgroup/job/step/cpu.stat": "usage_usec 1\nthrottled_usec 100\n",
}
V1 = {
    "proc/pressure/cpu": "some avg10=0.00 total={pressure}\n",
    "proc/self/cgroup": "2:cpu,cpuacct:/job\n",
    "proc/self/mountinfo": "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n",
    "sys/fs/cgroup/cpu/cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
    "sys/fs/cgroup/cpu/job/cpu.stat": "nr_periods 9\nnr_throttled 2\nthrottled_time {throttled}\n",
}


def write(root: Path, files: dict[str, str], **counters: int) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text.format(**counters))
    return root


def test_v2_counters_are_differences_in_seconds(tmp_path: Path) -> None:
    before = conditions.start(write(tmp_path, V2, pressure=1_000_000, throttled=500))
    write(tmp_path, V2, pressure=1_000_005, throttled=250_500)
    reading = conditions.since(before)
    assert pytest.approx(5e-6) == reading.cpu_pressure_some_s
    assert pytest.approx(0.25) == reading.throttled_s
    assert reading.missing == {}


def test_v1_throttling_is_counted_in_nanoseconds(tmp_path: Path) -> None:
    before = conditions.start(write(tmp_path, V1, pressure=0, throttled=1_000))
    write(tmp_path, V1, pressure=0, throttled=6_000)
    assert pytest.approx(5e-6) == conditions.since(before).throttled_s


def test_nothing_that_happened_is_zero_and_known(tmp_path: Path) -> None:
    before = conditions.start(write(tmp_path, V2, pressure=3, throttled=3))
    reading = conditions.since(before)
    assert (reading.cpu_pressure_some_s, reading.throttled_s) == (0, 0)


def test_pressure_of_the_cgroup_stands_in_where_the_machine_hides_its_own(tmp_path: Path) -> None:
    own = {"sys/fs/cgroup/job/step/cpu.pressure": "some avg10=0.00 total={pressure}\n"}
    files = {name: text for name, text in V2.items() if name != "proc/pressure/cpu"} | own
    before = conditions.start(write(tmp_path, files, pressure=0, throttled=0))
    write(tmp_path, files, pressure=40, throttled=0)
    assert pytest.approx(40e-6) == conditions.since(before).cpu_pressure_some_s


def test_root_group_of_v2_cannot_be_throttled_and_says_so(tmp_path: Path) -> None:
    files = V2 | {"proc/self/cgroup": "0::/\n"}
    reading = conditions.since(conditions.start(write(tmp_path, files, pressure=0, throttled=0)))
    assert None is reading.throttled_s
    assert "counts no throttling" in reading.missing["throttled_s"]


def test_move_to_another_cgroup_leaves_throttling_unknown(tmp_path: Path) -> None:
    before = conditions.start(write(tmp_path, V2, pressure=0, throttled=0))
    write(tmp_path, {"sys/fs/cgroup/other/cpu.stat": "throttled_usec 4\n", "proc/self/cgroup": "0::/other\n"})
    reading = conditions.since(before)
    assert None is reading.throttled_s
    assert "moved to another control group" in reading.missing["throttled_s"]


@pytest.mark.parametrize("name", sorted(V2))
@pytest.mark.parametrize("content", [None, b"", b"\xff\x00", b"garbage", b"some total=x\nthrottled_usec x\n"])
def test_unreadable_counters_never_raise_and_have_a_reason(tmp_path: Path, name: str, content: bytes | None) -> None:
    root = write(tmp_path, V2, pressure=0, throttled=0)
    (root / name).unlink() if content is None else (root / name).write_bytes(content)
    reading = conditions.since(conditions.start(root))
    for field in ("cpu_pressure_some_s", "throttled_s"):
        assert (getattr(reading, field) is None) == (field in reading.missing)


def test_empty_root_names_both_counters(tmp_path: Path) -> None:
    reading = conditions.since(conditions.start(tmp_path))
    assert {"cpu_pressure_some_s", "throttled_s"} == set(reading.missing)
    assert reading.missing["throttled_s"].endswith("ENOENT")


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
    reading = conditions.since(conditions.start(tmp_path))
    assert (
        reading.duration_s,
        reading.cpu_time_s,
        reading.voluntary_switches,
        reading.involuntary_switches,
    ) == (2.0, 0.375, 4, 1)


def test_counters_of_this_machine_only_grow() -> None:
    reading = conditions.since(conditions.start())
    assert reading.duration_s > 0
    assert min(reading.cpu_time_s, reading.voluntary_switches, reading.involuntary_switches) >= 0
    assert (reading.cpu_pressure_some_s is None) == ("cpu_pressure_some_s" in reading.missing)
