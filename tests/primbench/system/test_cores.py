from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from primbench.system import memory
from primbench.system.cores import cpu_kinds, last_level_caches, slower_cpus

CPU = "sys/devices/system/cpu"


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def speeds(root: Path, name: str, *values: int) -> Path:
    """A machine whose CPUs tell one number each."""
    write(root, {f"{CPU}/cpu{cpu}/{name}": f"{value}\n" for cpu, value in enumerate(values)})
    write(root, {f"{CPU}/online": f"0-{len(values) - 1}\n"})
    return root


def named(root: Path) -> dict[str, list[int]]:
    return {kind.name: kind.cpus for kind in cpu_kinds(root)}


def test_kinds_of_an_intel_hybrid_are_those_of_its_monitors(tree: Callable[[str], Path]) -> None:
    """The higher clock of a favoured core makes no third kind."""
    quick, slow = cpu_kinds(tree("intel-hybrid"))
    assert ("performance", [*range(8)], "cpu_core", 4.9e9) == (
        quick.name, quick.cpus, quick.told_by, quick.max_frequency_hz,
    )  # fmt: skip
    assert ("efficiency", [*range(8, 16)], "cpu_atom", 3.6e9) == (
        slow.name, slow.cpus, slow.told_by, slow.max_frequency_hz,
    )  # fmt: skip


def test_slow_cores_within_one_monitor_are_a_kind_of_their_own(tree: Callable[[str], Path]) -> None:
    """As the two low-power cores beside the other efficient ones."""
    root = tree("intel-hybrid")
    write(root, {f"{CPU}/cpu{cpu}/cpufreq/cpuinfo_max_freq": "2500000\n" for cpu in (14, 15)})
    assert {"performance": [*range(8)], "efficiency": [*range(8, 14)], "efficiency-2": [14, 15]} == named(root)


def test_monitors_alone_tell_kinds(tree: Callable[[str], Path]) -> None:
    quick, slow = cpu_kinds(without(tree("intel-hybrid"), "cpuinfo_max_freq"))
    assert ([*range(8)], [*range(8, 16)], None) == (quick.cpus, slow.cpus, quick.max_frequency_hz)


def test_monitors_that_name_some_cpus_alone_tell_no_kinds(tree: Callable[[str], Path]) -> None:
    root = tree("intel-hybrid")
    write(root, {"sys/devices/cpu_atom/cpus": "8\n"})
    assert {"cpuinfo_max_freq"} == {kind.told_by for kind in cpu_kinds(root)}


def test_kinds_by_the_capacity_that_the_scheduler_has(tree: Callable[[str], Path]) -> None:
    quick, slow = cpu_kinds(tree("grace-blackwell"))
    assert ([*range(5, 10), *range(15, 20)], 1024, "cpu_capacity") == (quick.cpus, quick.capacity, quick.told_by)
    assert ([*range(5), *range(10, 15)], 718) == (slow.cpus, slow.capacity)


@pytest.mark.parametrize("name", ["debian-9", "epyc-ccx"])
def test_cpus_that_are_alike_are_of_no_kind(name: str, tree: Callable[[str], Path]) -> None:
    assert [] == cpu_kinds(tree(name))


def test_kinds_differ_by_more_than_favoured_cores_do(tmp_path: Path) -> None:
    assert {} == named(speeds(tmp_path / "a", "cpufreq/cpuinfo_max_freq", 5750, 5500, 5250))
    assert {"performance": [0], "efficiency": [1]} == named(speeds(tmp_path / "b", "cpu_capacity", 1024, 760))


def test_kinds_that_nothing_tells_are_unknown(tmp_path: Path) -> None:
    speeds(tmp_path, "cpu_capacity", 1024, 760)
    (tmp_path / f"{CPU}/cpu1/cpu_capacity").unlink()
    with pytest.raises(ValueError, match="neither cpu_capacity nor cpufreq/cpuinfo_max_freq can be read of every CPU"):
        cpu_kinds(tmp_path)


@pytest.mark.parametrize(
    ("slower", "allowed"),
    [([8, 9], [0, 8, 9]), ([], [0, 1]), ([], [8, 9]), ([14], [8, 14]), ([8, 14], [7, 8, 14]), ([], [])],
)
def test_slower_is_what_a_quicker_kind_may_replace(
    slower: list[int], allowed: list[int], tree: Callable[[str], Path]
) -> None:
    root = tree("intel-hybrid")
    write(root, {f"{CPU}/cpu{cpu}/cpufreq/cpuinfo_max_freq": "2500000\n" for cpu in (14, 15)})
    assert slower == slower_cpus(cpu_kinds(root), allowed)


def test_groups_of_cores_with_a_last_level_cache_each(tree: Callable[[str], Path]) -> None:
    caches = last_level_caches(tree("epyc-ccx"))
    assert [[cpu, cpu + 1] for cpu in range(0, 16, 2)] == [cache.cpus for cache in caches]
    assert {(3, 16 * 2**20)} == {(cache.level, cache.size_bytes) for cache in caches}


def without(root: Path, *names: str) -> Path:
    for path in [found for name in names for found in (root / CPU).rglob(name)]:
        path.unlink()
    return root


def test_cache_that_does_not_tell_who_shares_it_is_the_sockets(tree: Callable[[str], Path]) -> None:
    root = without(tree("debian-9"), "shared_cpu_list")
    assert [[0, 1, 2, 3], [4, 5, 6, 7]] == [cache.cpus for cache in last_level_caches(root)]
    without(root, "core_siblings_list")
    assert [[cpu] for cpu in range(8)] == [cache.cpus for cache in last_level_caches(root)]


def test_caches_of_the_own_cpus_alone_count_and_unknown_ones_as_32_mib(
    tree: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 6})
    root = tree("epyc-ccx")
    assert 2 * 16 * 2**20 == memory.last_level_cache_bytes(root)
    assert 32 * 2**20 == memory.last_level_cache_bytes(without(root, "size"))
    assert 32 * 2**20 == memory.last_level_cache_bytes(without(root, "level"))
