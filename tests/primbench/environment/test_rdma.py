"""Adapters, their addresses and files, and NCCL's plugin."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from primbench.environment import rdma
from primbench.environment.fingerprint import Environment

if TYPE_CHECKING:
    import pytest

Look = Callable[..., Environment]
Place = Callable[..., Path]


def test_no_infiniband_is_none_of_it_and_not_unknown(look: Look, adapter: list[str]) -> None:
    found = look(dict.fromkeys(adapter)).machine
    assert ([], {}, []) == (found.infiniband, found.infiniband_vendors, found.roce_addresses)
    assert {} == found.missing


def test_a_port_without_an_address_of_this_place_has_none(place: Place) -> None:
    root = place()
    types = root / "sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types"
    (types / "3").unlink()
    assert ["mlx5_0:1 0 IB/RoCE v1 link-local"] == rdma.roce_addresses(root)
    (types / "0").unlink()
    assert ["mlx5_0:1 none"] == rdma.roce_addresses(root)


def test_modules_by_which_adapters_reach_gpu_memory(place: Place) -> None:
    nobody = {"sys/module/nvidia_peermem/refcnt": None, "sys/kernel/mm/memory_peers/nv_mem/version": None}
    root = place({**nobody, "sys/module/nvidia/refcnt": "1"})
    shutil.rmtree(root / "sys/kernel/mm/memory_peers", ignore_errors=True)
    assert ([], []) == (rdma.peer_memory(root), rdma.peer_memory_clients(root))
    (root / "sys/kernel/mm/memory_peers/nv_mem").mkdir(parents=True)
    assert ["nv_mem"] == rdma.peer_memory(root) == rdma.peer_memory_clients(root)
    (root / "sys/module/nvidia_peermem").mkdir(exist_ok=True)
    assert (["nvidia_peermem"], ["nv_mem"]) == (rdma.peer_memory(root), rdma.peer_memory_clients(root))


def test_plugin_is_where_the_loader_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NCCL_NET_PLUGIN", raising=False)
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/ofi/lib::/opt/other")
    assert {"libnccl-net.so": "not found"} == rdma.plugins(tmp_path)
    for name in ("opt/other/libnccl-net.so", "opt/ofi/lib/libnccl-net-tuned.so", "opt/here.so"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert {"libnccl-net.so": "in /opt/other"} == rdma.plugins(tmp_path)
    monkeypatch.setenv("NCCL_NET_PLUGIN", "tuned, absent,/opt/here.so")
    assert {"tuned": "in /opt/ofi/lib", "absent": "not found", "/opt/here.so": "in /opt"} == rdma.plugins(tmp_path)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/ld.so.cache").write_bytes(b"ld.so-1.7.0\0\1libnccl-net-absent.so\0/x/libnccl-net-absent.so\0")
    assert "not found" == rdma.plugins(tmp_path)["absent"]  # another name ends so
    (tmp_path / "etc/ld.so.cache").write_bytes(b"ld.so-1.7.0\0libnccl-net-absent.so\0/x/libnccl-net-absent.so\0")
    assert "in /etc/ld.so.cache" == rdma.plugins(tmp_path)["absent"]
