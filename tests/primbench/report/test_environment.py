from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from primbench.environment import fingerprint
from primbench.environment.difference import Change, Difference, LayerDifference
from primbench.environment.fingerprint import Environment
from primbench.environment.libraries import Library
from primbench.gpu.nvidia.gpu import Gpu
from primbench.report.environment import difference_document, document, shown
from primbench.system.cores import Cache
from primbench.system.meaning import FactId

from .exports import text_of

listing, comparison = text_of(document), text_of(difference_document)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("memory_bytes", 3 * 2**29, "1.50 GiB"),
        ("system_call_s", 2.5e-7, "250 ns"),
        ("sm_clock_max_hz", 1.98e9, "1.98 GHz"),
        ("power_limit_w", 700.0, "700 W"),
        ("cpu_quota", 1.5, "1.5"),
        ("cpus", [0, 1, 2, 8], "0-2,8"),
        ("lsm", ["yama", "apparmor"], "yama, apparmor"),
        ("turbo", False, "no"),
        ("infiniband", [], "none"),
        ("shm_bytes", None, "-"),
        ("gpu", {"name": "H200", "memory_bytes": 1024, "missing": {}}, "name H200, memory_bytes 1 KiB"),
    ],
)
def test_values_in_peoples_units(name: str, value: Any, expected: str) -> None:
    assert expected == shown(name, value)


@pytest.fixture(scope="module")
def found() -> Environment:
    here = fingerprint.collect(gpus=False)
    libraries = {"libcuda": [Library(path="/a", version="5", missing={"build_id": "not read"}), Library(path="/b")]}
    gpu = Gpu(name="H200", power_limit_w=700.0, missing={"ecc": "not supported"})
    return replace(
        here,
        limits=replace(here.limits, cpu_quota=None, cores_allowed=None, missing={"memory_limit_bytes": "hidden"}),
        software=replace(here.software, libraries=libraries, variables={"NCCL_DEBUG": "x" * 200}),
        devices=replace(here.devices, gpus=[gpu], missing={}),
    )


@pytest.mark.parametrize("columns", [80, 100])
def test_listing_fits_the_terminal(found: Environment, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    shown = listing(found, fingerprint.sources())
    too_long = [line.split() for line in shown.splitlines() if len(line) > columns]
    assert ["x" * 200] in too_long
    assert {1} == {*map(len, too_long)}, "a single word"


def test_groups_units_sources_and_unknowns(found: Environment) -> None:
    lines = listing(found, fingerprint.sources()).splitlines()
    assert ["place", "machine", "limits", "confinement", "software", "devices"] == [
        line for line in lines if line and not line.startswith(" ")
    ]
    limits = lines[lines.index("limits") + 1 : lines.index("confinement") - 1]
    assert ["cpu_quota", "no", "limit", "control", "group:", "cpu.max", "or", "cpu.cfs_quota_us"] in map(
        str.split, limits
    )
    assert ["cores_allowed", "-"] in [line.split()[:2] for line in limits], "what was not read is no limit"
    assert ["unknown:", ["memory_limit_bytes", "hidden"]] == [limits[-2].strip(), limits[-1].split()]
    devices = [line.split() for line in lines[lines.index("devices") :]]
    assert ["power_limit_w", "700", "W"] in devices
    assert ["ecc", "unknown:", "not", "supported"] in devices
    assert ["build_id", "unknown:", "not", "read"] in [line.split() for line in lines]


def test_the_caches_of_a_large_machine_are_one_line(found: Environment) -> None:
    caches = [Cache(level=3, size_bytes=2**25, cpus=[2 * number, 2 * number + 1]) for number in range(24)]
    machine = replace(found.machine, last_level_caches=caches, missing={})
    words = " ".join(listing(replace(found, machine=machine), {}).split())
    assert "last_level_caches 24 L3 of 32 MiB: CPUs 0-1; 2-3; 4-5; 6-7; 8-9; 10-11; 12-13; 14-15; ... clock" in words


def change(field: str, a: Any, b: Any, **others: Any) -> Change:
    return Change(**{"field": FactId(*field.split(".")), "kind": "differs", "a": a, "b": b} | others)


def test_comparison_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    changes = [
        change("software.variables.LD_LIBRARY_PATH", "/usr/local/nvidia/lib64:" * 4, "/opt/hpcx/ucx/lib:" * 5),
        change("software.libraries.libcublasLt", ["build id " + "a" * 40], ["build id " + "b" * 40]),
        change("limits.cpu_quota", 1.5, None, kind="unknown", reason="no control groups with cpu are mounted"),
    ]
    part = LayerDifference(same=False, changes=changes)
    shown = comparison(Difference(stack=part, limits=part, confinement=part, machine=part), "a.json", "b.json")
    assert [] == [line for line in shown.splitlines() if len(line) > 80 and len(line.split()) > 1]
    assert {"/usr/local/nvidia/lib64:" * 4, "/opt/hpcx/ucx/lib:" * 5, "a" * 40, "b" * 40} <= {*shown.split()}


def test_comparison_says_what_differs_and_what_cannot_be_told() -> None:
    stack = [change("machine.clock_s", 1e-7, 2e-7, kind="varies"), change("software.libc", "glibc 2.36", None)]
    limits = [change("limits.memory_limit_bytes", 2**30, None, kind="unknown", reason="hidden")]
    confinement = [change("confinement.capabilities", ["CAP_BPF", "CAP_SYS_NICE"], ["CAP_BPF"])]
    text = comparison(
        Difference(
            stack=LayerDifference(same=False, changes=stack),
            limits=LayerDifference(same=None, changes=limits),
            confinement=LayerDifference(same=False, changes=confinement),
            machine=LayerDifference(same=True, changes=[]),
        ),
        "a.json",
        "b.json",
    )
    expected = """\
A: a.json
B: b.json

same stack: no
                   A           B
  software.libc    glibc 2.36  none
  machine.clock_s  100 ns      200 ns  (varies)

same limits: cannot be told
                             A      B
  limits.memory_limit_bytes  1 GiB  unknown  (hidden)

same confinement: no
                            A             B
  confinement.capabilities  CAP_SYS_NICE  none  (on one side only)

same machine: yes
"""
    assert expected == text
