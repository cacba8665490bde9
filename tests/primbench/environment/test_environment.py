"""The fingerprint as a whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from primbench.doctor import place as places
from primbench.environment import fingerprint
from primbench.environment.fingerprint import Environment

Place = Callable[..., Path]
# None without a reason means "no limit", or that the control group counts no such thing.
NO_LIMIT = {
    "cpu_quota", "cpu_period_s", "cpu_weight", "memory_limit_bytes", "periods", "throttled_periods", "throttled_s",
    "out_of_memory_kills", "memlock_bytes", "open_files", "processes_max", "processes_free", "processes_refused",
    "processes_own_max", "reread_bytes", "stack_bytes", "address_space_bytes", "file_size_bytes",
    "cpu_time_limit_s", "data_bytes", "core_bytes", "message_queue_bytes", "signals_pending_max", "nice_limit",
    "realtime_priority_max", "resident_bytes", "file_locks_max", "realtime_limit_s",
}  # fmt: skip


def unexplained(found: Environment) -> Iterator[str]:
    """Fields that are None without a reason and mean not "no limit", and reasons without words."""
    for group in (found, found.machine, found.limits, found.confinement, found.software, found.devices):
        unknown = {name for name in group.__struct_fields__ if getattr(group, name) is None}
        yield from unknown - set(group.missing) - (NO_LIMIT if group is found.limits else set())
        yield from (name for name, reason in group.missing.items() if not reason)


def test_whole_place_is_known_but_for_gpus_not_asked_for(place: Place) -> None:
    found = fingerprint.collect(gpus=False, root=place())
    assert [[0, 1, 2, 3, 8]] == [node.cpus for node in found.nodes or []]
    assert {} == found.missing
    assert [] == list(unexplained(found))


def test_every_field_has_a_source() -> None:
    found = fingerprint.collect(gpus=False)
    groups = {name: getattr(found, name) for name in ("machine", "limits", "confinement", "software", "devices")}
    fields = {f"{name}.{field}" for name, group in groups.items() for field in group.__struct_fields__}
    assert fields - {f"{name}.missing" for name in groups} | {"nodes"} == set(fingerprint.sources())
    assert all(fingerprint.sources().values())


@pytest.mark.parametrize("seed", range(30))
def test_damaged_place_never_raises_and_every_unknown_has_a_reason(
    place: Place, corrupt: Callable[[Path, int], str], seed: int
) -> None:
    root = place()
    done = corrupt(root, seed)
    found = fingerprint.collect(gpus=False, root=root)
    assert [] == list(unexplained(found)), done
    assert found == msgspec.json.decode(msgspec.json.encode(found), type=Environment), done


TREES = sorted(path.stem for path in (Path(__file__).parents[2] / "trees").glob("*.json"))


def test_damaged_recorded_machines_never_raise(damaged: list[tuple[str, places.Place]]) -> None:
    assert [] == [(damage, gaps) for damage, place in damaged if (gaps := list(unexplained(place.environment)))]


@pytest.mark.parametrize("name", TREES)
def test_recorded_machines_are_named(tree: Callable[[str], Path], name: str) -> None:
    found = fingerprint.collect(gpus=False, root=tree(name))
    assert found.machine.os_name
    assert found.machine.memory_bytes
    assert [] == list(unexplained(found))


def test_v1_place_is_known_too(place: Place, v1: dict[str, str]) -> None:
    assert [] == list(unexplained(fingerprint.collect(gpus=False, root=place(v1))))


def test_empty_root_has_a_reason_for_everything_read_from_it(tmp_path: Path) -> None:
    found = fingerprint.collect(gpus=False, root=tmp_path)
    assert [] == list(unexplained(found))
    by_system_call = {"kernel", "architecture", "clock_s", "clock_resolution_s"}
    assert set(found.machine.__struct_fields__) - by_system_call - {"missing"} == set(found.machine.missing)


def test_folders_in_place_of_files_never_raise(place: Place, tmp_path: Path) -> None:
    for path in place().rglob("*"):
        if path.is_file():
            (tmp_path / "folders" / path.relative_to(tmp_path / "place")).mkdir(parents=True)
    found = fingerprint.collect(gpus=False, root=tmp_path / "folders")
    assert {"os_name", "cpu_model"} <= set(found.machine.missing)
    assert [] == list(unexplained(found))


def test_this_machine_is_described_and_survives_json() -> None:
    found = fingerprint.collect(gpus=True)
    assert sorted(os.sched_getaffinity(0)) == found.limits.cpus_allowed
    assert (found.machine.memory_bytes or 0) >= (found.machine.memory_available_bytes or 0) > 0
    assert [] == list(unexplained(found))
    assert found == msgspec.json.decode(msgspec.json.encode(found), type=Environment)


def test_collecting_imports_no_framework() -> None:
    code = (
        "import json, sys; from primbench.environment import fingerprint; fingerprint.collect(gpus=False);"
        "print(json.dumps(sorted({'numpy', 'torch', 'cupy', 'numba', 'pynvml', 'psutil'} & set(sys.modules))))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
