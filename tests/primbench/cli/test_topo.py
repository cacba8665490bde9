"""`primbench topo`, on this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import fromstring

import msgspec
import pytest

from primbench.numa import scan
from primbench.numa.topology import Topology
from primbench.report.topology import summary

if TYPE_CHECKING:
    from click.testing import Result


@pytest.fixture
def topo(invoke: Callable[..., Result]) -> Callable[..., Result]:
    def run(*arguments: Any) -> Result:
        result = invoke("topo", *arguments)
        assert (0, "") == (result.exit_code, result.stderr)
        return result

    return run


def test_table_has_every_node(topo: Callable[..., Result]) -> None:
    shown = topo().stdout.splitlines()
    found = scan.collect()
    assert summary(found) == shown[: len(summary(found))]
    for node in found.nodes or []:
        assert any(line.startswith(f"{node.id} ") for line in shown)


def test_json_on_stdout_is_the_topology_and_no_table(topo: Callable[..., Result]) -> None:
    found = msgspec.json.decode(topo("--json", "-").stdout, type=Topology)
    expected = scan.collect()
    assert (expected.packages, expected.cpus_allowed, expected.missing) == (
        found.packages, found.cpus_allowed, found.missing,
    )  # fmt: skip


def test_files_are_written_beside_the_table(topo: Callable[..., Result], tmp_path: Path) -> None:
    json, svg = tmp_path / "topology.json", tmp_path / "topology.svg"
    assert topo().stdout.splitlines()[0] == topo("--json", json, "--svg", svg).stdout.splitlines()[0]
    assert msgspec.json.decode(json.read_bytes(), type=Topology).nodes != []
    assert fromstring(svg.read_text()).tag.endswith("svg")


def test_picture_on_stdout_is_alone_there(topo: Callable[..., Result]) -> None:
    assert fromstring(topo("--svg", "-").stdout).tag.endswith("svg")


def test_one_place_cannot_hold_both(refusal: Callable[..., str], tmp_path: Path) -> None:
    assert "stdout: asked to hold two things, and holds one" == refusal("topo", "--json", "-", "--svg", "-")
    same = tmp_path / "same"
    assert f"{same}: asked to hold two things, and holds one" == refusal("topo", "--json", same, "--svg", same)
    assert not same.exists()


def test_refuses_what_it_cannot_write_before_it_prints(refusal: Callable[..., str], tmp_path: Path) -> None:
    for option in ("--json", "--svg"):
        assert f"there is no folder {tmp_path / 'none'}" in refusal("topo", option, tmp_path / "none/x")
