from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from primbench.backends import missing, open_backend
from primbench.backends.numpy import Numpy
from primbench.devices import nth_gpu
from primbench.kernels.gemm import Gemm
from primbench.kernels.sparse_gemm import SparseGemm
from primbench.numa import mempolicy
from primbench.numa.buffers import host_buffer
from primbench.numa.pages import PAGE_BYTES, HostExtent, extent_of
from primbench.numa.scan import memory_nodes
from primbench.problem import Problem, Step, described
from primbench.spec.method import Method
from primbench.timing.case import measure_on
from primbench.timing.pages import extents_of, pages_since, watch

SECCOMP = str(Path(__file__).parents[2] / "seccomp.py")
QUICK = Method(min_time_s=0.001, max_time_s=0.005)
NOWHERE = 900  # no machine has so many nodes


def node() -> int:
    return next(each.id for each in memory_nodes() if each.has_memory and each.allowed)


def shows_pages_one_by_one() -> bool:
    try:
        mempolicy.probe("move_pages")
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    "backend", ["numpy", *(pytest.param(each, marks=pytest.mark.wheel) for each in ("torch", "numba"))]
)
def test_inputs_and_output_are_looked_at(backend: str) -> None:
    if (reason := missing(backend)) is not None:
        pytest.skip(reason)
    measured = measure_on(open_backend(backend, "cpu"), Gemm(512, 512, 512), QUICK)
    assert measured.pages is not None
    assert set(measured.pages.by_node) <= {each.id for each in memory_nodes()}
    if shows_pages_one_by_one():
        pages = 3 * 512 * 512 * 4 // PAGE_BYTES  # three of float32; ends may share pages with others
        assert pages <= sum(measured.pages.by_node.values()) <= pages + 3
        assert "move_pages" == measured.pages.read_by


@pytest.mark.parametrize("problem", [Gemm(8, 8, 8), SparseGemm(64, 64, 64)], ids=str)
def test_small_arrays_and_sparse_ones_are_looked_at_too(problem: Problem) -> None:
    measured = measure_on(Numpy(), problem, QUICK, page_nodes=[])
    assert measured.pages is not None
    assert sum(measured.pages.by_node.values()) > 0
    assert "pages" not in measured.missing


def test_every_set_of_a_cold_case_is_looked_at() -> None:
    method = Method(cache="cold", dry_run=True, check=False)
    measured = measure_on(Numpy(), Gemm(1024, 1024, 16), method)
    assert measured.pages is not None
    if shows_pages_one_by_one():
        pages = measured.pages.sampled_of or sum(measured.pages.by_node.values())
        assert pages >= measured.input_sets_bytes // PAGE_BYTES


def test_where_nothing_is_asked_nothing_is_misplaced() -> None:
    measured = measure_on(Numpy(), Gemm(8, 8, 8), QUICK, page_nodes=[])
    assert measured.pages is not None
    assert ([], False) == (measured.pages.asked, measured.pages.misplaced)


@pytest.mark.parametrize(("asked", "misplaced"), [([node()], False), ([NOWHERE], True), ([NOWHERE, node()], False)])
def test_pages_that_are_elsewhere_keep_their_numbers_and_are_marked(asked: list[int], misplaced: bool) -> None:
    if {each.id for each in memory_nodes() if each.has_memory} != {node()}:
        pytest.skip("this machine has several memory nodes: pages may be on any of them")
    measured = measure_on(Numpy(), Gemm(256, 256, 256), QUICK, page_nodes=asked)
    assert measured.pages is not None
    assert (sorted(asked), misplaced) == (measured.pages.asked, measured.pages.misplaced)
    assert measured.main is not None


def test_pages_that_moved_while_timed_are_misplaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel moves pages only on machines of several nodes: what it says the second time is made up."""
    watched = watch([], [extent_of(kept := host_buffer(10 * PAGE_BYTES))], [node()])
    monkeypatch.setattr(mempolicy, "nodes_of_pages", lambda addresses: [NOWHERE] * len(addresses))
    pages, reasons = pages_since(watched)
    assert pages is not None
    assert (True, {NOWHERE: 10}, {}) == (pages.misplaced, pages.by_node, reasons)
    assert kept.size


def test_a_step_names_its_buffers_itself() -> None:
    buffer, other = host_buffer(3 * PAGE_BYTES), host_buffer(50 * PAGE_BYTES)

    def step() -> Any:
        return buffer

    watched = watch([described(step, host_buffers=[(buffer, None), (buffer, 5)])], [extent_of(other)], [])
    assert [None, (5,)] == [extent.nodes for extent in watched.extents]
    assert {buffer.ctypes.data} == {extent.address for extent in watched.extents}


def plain_step() -> None:
    """Returns nothing, as a launch does."""


@pytest.mark.parametrize("step", [plain_step, described(lambda: None, host_buffers=[])])
def test_a_case_without_host_memory_says_so(step: Step) -> None:
    watched = watch([step], extents_of(Numpy(), [step()]), [])
    assert (None, {"pages": "no host memory is timed"}) == pages_since(watched)


def test_a_number_that_a_function_returns_lies_nowhere() -> None:
    class OfTensors(Numpy):
        """Takes nothing but arrays of its own, as torch does."""

        def get(self, array: Any) -> Any:
            raise AttributeError("detach")

    assert [] == extents_of(OfTensors(), [np.float64(3.0)])


def test_arrays_on_a_gpu_are_no_host_memory() -> None:
    class OnGpu(Numpy):
        """A GPU's backend as far as its name goes: no array is touched."""

        device = nth_gpu(0)

    assert [] == extents_of(OnGpu(), [np.zeros(3)])


def test_memory_that_cannot_be_seen_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a driver's own allocations."""
    monkeypatch.setattr(mempolicy, "nodes_of_pages", lambda addresses: [-14] * len(addresses))
    pages, reasons = pages_since(watch([], [HostExtent(4096, 10)], []))
    assert (None, {"pages": "move_pages shows no page of it"}) == (pages, reasons)


def test_a_policy_that_a_script_runs_under_is_what_it_asks_for() -> None:
    try:
        mempolicy.probe("set_mempolicy")
    except OSError as error:
        pytest.skip(f"set_mempolicy is denied here, needs root outside of containers: {error}")
    code = f"""
import primbench
from primbench.numa import mempolicy
from primbench.kernels.gemm import Gemm
mempolicy.set_policy("bind", [{node()}])
print(primbench.measure(Gemm(8, 8, 8), backend="numpy").pages.asked)
"""
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    assert f"[{node()}]\n" == done.stdout, done.stderr


def test_without_the_calls_a_placement_is_met_by_first_touch_and_verified_by_the_file(tmp_path: Path) -> None:
    """From the command line, under a filter that refuses what Docker's default profile refuses."""
    results = tmp_path / "results.json"
    filtered = [sys.executable, "-P", SECCOMP, "--deny", "get_mempolicy,set_mempolicy,mbind,move_pages", "--"]
    times = ["--min-time", "1ms", "--max-time", "5ms", "-q", "--json", str(results)]
    size = ["memcpy", "--bytes", "8MiB", "--backend", "numpy", "--device", "cpu", "--numa-node", str(node())]
    done = subprocess.run(
        [*filtered, sys.executable, "-P", "-m", "primbench", *size, *times], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(results.read_text())
    placed, pages = found["workers"][0]["placement"], found["records"][0]["measurement"]["pages"]
    assert ("first touch", [node()], None) == (placed["rung"], placed["page_nodes"], placed["memory_policy"])
    assert placed["reasons"]["set_mempolicy"].endswith("allow it (docker run --cap-add SYS_NICE): EPERM")
    assert ("numa_maps", [node()], False) == (pages["read_by"], pages["asked"], pages["misplaced"])
    assert pages["by_node"][str(node())] >= 2 * 2**23 // PAGE_BYTES
