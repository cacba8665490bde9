from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from primbench import Method, measure
from primbench.backends import missing
from primbench.devices import CPU, Device, nth_gpu
from primbench.errors import InvalidRequest, UnsupportedCase, VerificationError
from primbench.kernels.memcpy.problem import Memcpy
from primbench.measurement import Measurement, Samples
from primbench.numa import mempolicy
from primbench.numa.pages import PAGE_BYTES
from primbench.numa.scan import memory_nodes
from primbench.registry import setup_of
from primbench.spec.placement import Placement
from primbench.suites import SIZES, read
from primbench.timing.verify import check_output
from primbench.workers.plan import plan

QUICK = Method(min_time_s=0.001, max_time_s=0.005)
BACKENDS = ["numpy", *(pytest.param(each, marks=pytest.mark.wheel) for each in ("torch", "numba"))]


def test_a_way_counts_once_and_a_copy_within_one_memory_twice() -> None:
    once = [Memcpy(100, "h2d"), Memcpy(100, "d2h"), Memcpy(100, "p2p", peer=1), Memcpy(100, "bidirectional")]
    assert [100] * 4 == [problem.bytes_moved() for problem in once]
    assert [200, 200] == [Memcpy(100, direction).bytes_moved() for direction in ("d2d", "h2h")]
    assert 300 == Memcpy(100, "h2d", gpus=3).bytes_moved()


def test_what_is_left_open_follows_the_device() -> None:
    assert Memcpy(8, "h2d", "pinned") == Memcpy(8).on(nth_gpu(1))
    assert Memcpy(8, "h2h", "pageable") == Memcpy(8).on(Device(CPU))
    assert Memcpy(8, "h2d", "pageable") == Memcpy(8, memory="pageable").on(nth_gpu(0))
    assert Memcpy(8, "d2h") == Memcpy(8, "d2h").on(Device(CPU))


def test_a_record_says_what_was_copied() -> None:
    cases = plan([(Memcpy(64), {})], backends=["numpy"], device="cpu", method=QUICK, placement=Placement(), processes=1)
    assert [("h2h", "pageable")] == [(case.parameters["direction"], case.parameters["memory"]) for case in cases]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bytes": 0}, "bytes=0: a whole number"),
        ({"direction": "sideways"}, "direction='sideways': one of auto, h2d"),
        (
            {"direction": "d2h", "memory": "write_combined"},
            "memory='write_combined': only pinned, framework",
        ),
        (
            {"direction": "bidirectional", "memory": "pageable"},
            "bidirectional' memory='pageable': only",
        ),
        ({"direction": "d2d", "memory": "pinned"}, "direction='d2d' memory='pinned': only device"),
        ({"direction": "p2p"}, "direction='p2p' peer=-1: p2p needs the number of another GPU"),
        ({"direction": "h2d", "peer": 1}, "direction='h2d' peer=1: .* nothing else takes one"),
        ({"direction": "p2p", "peer": -2}, "peer=-2: a whole number of at least -1"),
        ({"direction": "p2p", "peer": 1, "gpus": 2}, "direction='p2p' gpus=2: several copy at once in h2d"),
        ({"direction": "h2d", "memory": "pageable", "gpus": 2}, "gpus=2"),
        ({"direction": "h2h", "gpus": 2}, "gpus=2"),
        ({"gpus": 0}, "gpus=0: a whole number"),
        ({"direction": "h2d", "dst_node": 0}, "dst_node=0: a node is for"),
        ({"direction": "d2h", "src_node": 0}, "src_node=0: a node is for"),
        ({"direction": "h2d", "memory": "framework", "src_node": 0}, "src_node=0: a node is for pinned or pageable"),
        ({"direction": "h2h", "src_node": 1024}, "src_node=1024: a whole number from -1 to 1023"),
        ({"direction": "h2h", "dst_node": -2}, "dst_node=-2"),
    ],
    ids=str,
)
def test_nonsense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        Memcpy(**{"bytes": 8} | options)


def test_a_direction_left_open_is_refused_once_the_device_is_known() -> None:
    with pytest.raises(InvalidRequest, match="direction='h2h' memory='pinned': only pageable; ask for that"):
        Memcpy(8, memory="pinned").on(Device(CPU))


def test_a_copy_on_a_cpu_to_a_gpu_is_skipped_with_what_to_ask_for() -> None:
    with pytest.raises(UnsupportedCase, match="h2d needs a GPU: ask for direction=h2h"):
        measure(Memcpy(64, "h2d"), backend="numpy", device="cpu", method=QUICK)


@pytest.mark.parametrize("backend", BACKENDS)
def test_within_the_host_each_backend_copies_by_its_own_means(backend: str) -> None:
    if (reason := missing(backend)) is not None:
        pytest.skip(reason)
    measured = measure(Memcpy(70_001), backend=backend, device="cpu", method=QUICK)
    expected = {"numpy": "numpy.copyto", "torch": "torch.Tensor.copy_", "numba": "compiled loop"}
    assert str(measured.algorithm).startswith(expected[backend])
    assert (True, 0.0, 2 * 70_001) == (measured.verified, measured.error, measured.bytes_moved)
    assert "second check" in measured.phases_s


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_pages_of_its_own_buffers_are_those_that_are_looked_at(backend: str) -> None:
    if (reason := missing(backend)) is not None:
        pytest.skip(reason)
    measured = measure(Memcpy(64 * PAGE_BYTES), backend=backend, device="cpu", method=QUICK)
    assert measured.pages is not None
    assert ([], False) == (measured.pages.asked, measured.pages.misplaced)
    if measured.pages.read_by == "move_pages":
        assert 2 * 64 == sum(measured.pages.by_node.values())


def test_pages_are_on_the_nodes_that_were_asked_for() -> None:
    try:
        mempolicy.probe("mbind")
    except OSError as error:
        pytest.skip(f"mbind is denied here, needs root outside of containers: {error}")
    node = next(each.id for each in memory_nodes() if each.has_memory and each.allowed)
    measured = measure(Memcpy(2**20, src_node=node, dst_node=node), backend="numpy", device="cpu", method=QUICK)
    assert measured.pages is not None
    assert ([node], False) == (measured.pages.asked, measured.pages.misplaced)


def test_the_inputs_are_random_and_never_what_poison_leaves() -> None:
    (x,) = Memcpy(100_000, "h2h").inputs(np.random.default_rng(0))
    assert set(range(-127, 128)) == set(x.tolist())


class Backend:
    """As much of one as verification needs; its arrays are host arrays."""

    def synchronize(self) -> None:
        pass


@pytest.mark.parametrize("size", [1000, 2**22 + 12_345])
@pytest.mark.parametrize("fault", ["nothing", "32 bytes not written", "32 bytes wrong", "shifted by one"])
def test_faults_are_found(size: int, fault: str) -> None:
    problem = Memcpy(size, "h2h")
    (x,) = problem.inputs(np.random.default_rng(0))
    output = np.empty_like(x)

    def step() -> Any:
        if fault == "32 bytes not written":
            output[:500], output[532:] = x[:500], x[532:]
            return output
        output[:] = x[::-1] if fault == "shifted by one" else x
        if fault == "32 bytes wrong":
            output[500:532] = -x[500:532] + 1
        return output

    def check() -> float:
        reference = problem.reference(np.random.default_rng(1), x)
        return check_output(Backend(), problem, step, reference)  # type: ignore[arg-type]

    if fault == "nothing":
        assert 0 == check()
        return
    with pytest.raises(VerificationError):
        check()


def test_several_copies_are_expected_one_behind_the_other() -> None:
    problem = Memcpy(5, "bidirectional", gpus=2)
    (x,) = problem.inputs(np.random.default_rng(0))
    reference = problem.reference(np.random.default_rng(1), x)
    assert 0 == check_output(Backend(), problem, lambda: np.tile(x, 4), reference)  # type: ignore[arg-type]
    last_wrong = np.tile(x, 4)
    last_wrong[-1] = -last_wrong[-1] + 1
    with pytest.raises(VerificationError, match="1 of 20 elements"):
        check_output(Backend(), problem, lambda: last_wrong.copy(), reference)  # type: ignore[arg-type]
    with pytest.raises(VerificationError, match=r"int8\[6\], expected int8\[5\] repeated"):
        check_output(Backend(), problem, lambda: np.ones(6, "int8"), reference)  # type: ignore[arg-type]


def test_the_tail_of_single_calls_is_a_figure_whatever_was_measured() -> None:
    wall = Samples(samples_s=[i * 1e-6 for i in range(1, 101)], calls_per_sample=1, taken_by="a test", stopped="count")
    figure = Memcpy(8).figures(Measurement(wall_s=wall))["wall_p99_s"]
    assert figure == pytest.approx(99e-6, rel=0.01)
    assert {"h2d_bytes_per_s": None, "d2h_bytes_per_s": None, "wall_p99_s": None} == Memcpy(8).figures(Measurement())


def test_either_way_while_both_go_is_a_rate_of_its_own() -> None:
    ways = {
        f"{way}_s": Samples(samples_s=[each], calls_per_sample=4, taken_by="a test", stopped="count")
        for way, each in (("h2d", 1e-3), ("d2h", 2e-3))
    }
    figures = Memcpy(1 << 20, "bidirectional").figures(Measurement(others=ways))
    assert ((1 << 20) / 1e-3, (1 << 20) / 2e-3) == (figures["h2d_bytes_per_s"], figures["d2h_bytes_per_s"])


@pytest.mark.parametrize("fields", [{"direction": "h2d", "memory": "pageable"}, {"direction": "d2h", "gpus": 2}])
def test_multiprocessors_copy_for_one_gpu_what_they_can_reach(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="engine='sm': multiprocessors copy pinned memory and their GPU's own"):
        Memcpy(8, engine="sm", **fields)


def test_a_cpu_needs_no_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("primbench.gpu.nvidia.driver._library", None)
    backend = importlib.import_module("primbench.backends.numpy").open("cpu")
    step = setup_of("memcpy", "numpy")(backend, Memcpy(8, "h2h"), np.arange(8, dtype=np.int8))
    assert list(range(8)) == list(step())


@pytest.mark.parametrize("name", SIZES)
def test_every_set_of_sizes_has_copies_for_each_kind_of_device(name: str) -> None:
    entries = read(name, only=["memcpy"])
    most = {"cpu": 2**29, "cuda": 2**30}
    for kind, most_bytes in most.items():
        sizes = [int(entry.problem.parameters()["bytes"]) for entry in entries if entry.labels["device"] == kind]
        assert 1 <= len(sizes) <= 12
        assert max(sizes) <= most_bytes
    assert {entry.labels["device"] for entry in entries} == set(most)
