"""Copies on GPUs, against a stand-in for the driver: right data, right order, right context, nothing kept."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from primbench.cuda import copies, kernels
from primbench.errors import UnsupportedCase, VerificationError
from primbench.gpu.nvidia import driver
from primbench.kernels.chase import Chase
from primbench.kernels.memcpy import Memcpy
from primbench.kernels.memcpy._while_other import while_other_goes
from primbench.numa import mempolicy
from primbench.numa.scan import memory_nodes
from primbench.problem import Step, description_of
from primbench.registry import setup_of
from primbench.spec.method import Method
from primbench.timing.sampling import Pace
from primbench.timing.verify import check_output

from .cuda_driver import MAIN_STREAM, NUMBERS, OnCuda, StandIn

NODE = next(node.id for node in memory_nodes() if node.has_memory and node.allowed)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    found = StandIn()
    monkeypatch.setattr(driver, "_library", lambda: found)
    monkeypatch.setattr(kernels, "module", lambda source: SimpleNamespace(function=NUMBERS.__getitem__))
    copies.primary_context.cache_clear()
    yield found
    copies.primary_context.cache_clear()
    gc.collect()


def may_bind() -> bool:
    try:
        mempolicy.probe("mbind")
    except OSError:
        return False
    return True


def step_of(problem: Memcpy) -> tuple[Step, Any]:
    backend, inputs = OnCuda(), problem.inputs(np.random.default_rng(0))
    return setup_of("memcpy", "cupy")(backend, problem, *inputs), inputs


def error_of(problem: Memcpy) -> float:
    step, inputs = step_of(problem)
    return check_output(OnCuda(), problem, step, problem.reference(np.random.default_rng(1), *inputs))  # type: ignore[arg-type]


EVERY = [
    Memcpy(1000, "h2d"),
    Memcpy(1000, "h2d", "pageable"),
    Memcpy(1000, "h2d", "write_combined"),
    Memcpy(1000, "d2h"),
    Memcpy(1000, "d2h", "pageable"),
    Memcpy(1000, "d2d"),
    Memcpy(1000, "bidirectional"),
    Memcpy(1000, "p2p", peer=1),
    Memcpy(1000, "h2d", gpus=2),
    Memcpy(1000, "d2h", gpus=2),
    Memcpy(1000, "d2d", gpus=2),
    Memcpy(1000, "bidirectional", gpus=2),
    *(Memcpy(1000, direction, engine="sm") for direction in ("h2d", "d2h", "d2d", "bidirectional")),
    Memcpy(1000, "p2p", peer=1, engine="sm"),
]


@pytest.mark.parametrize("problem", EVERY, ids=str)
def test_every_copy_arrives_and_leaves_the_context_as_it_was(cuda: StandIn, problem: Memcpy) -> None:
    assert 0 == error_of(problem)
    assert [0xC0] == cuda.current


@pytest.mark.parametrize("problem", EVERY, ids=str)
def test_everything_is_given_back_with_the_step(cuda: StandIn, problem: Memcpy) -> None:
    step, _ = step_of(problem)
    assert cuda.device_memory
    step()
    del step
    gc.collect()
    assert ({}, {}, {}, {MAIN_STREAM: 0xC0}) == (cuda.device_memory, cuda.pinned, cuda.events, cuda.streams)


def test_one_copy_is_one_call_on_the_stream_of_the_backend(cuda: StandIn) -> None:
    step, _ = step_of(Memcpy(8, "d2h"))
    cuda.log.clear()
    step()
    assert [("d2h", MAIN_STREAM)] == cuda.log


def test_copies_at_once_begin_and_end_on_the_stream_of_the_backend(cuda: StandIn) -> None:
    step, _ = step_of(Memcpy(8, "bidirectional"))
    cuda.log.clear()
    step()
    begun, wait, first, second, done, joined = cuda.log
    other = second[1]
    assert (("h2d", MAIN_STREAM), "d2h") == (first, second[0])
    assert (("record", begun[1], MAIN_STREAM), ("wait", begun[1], other)) == (begun, wait)
    assert (("record", done[1], other), ("wait", done[1], MAIN_STREAM)) == (done, joined)
    assert other != MAIN_STREAM


def test_each_of_several_gpus_copies_on_a_stream_of_its_own(cuda: StandIn) -> None:
    step, _ = step_of(Memcpy(8, "bidirectional", gpus=2))
    cuda.log.clear()
    step()
    streams = [entry[1] for entry in cuda.log if entry[0] in ("h2d", "d2h")]
    assert 4 == len(set(streams))
    assert [0xC0, 0xC0, 0xC1, 0xC1] == [cuda.streams[stream] for stream in streams]


@pytest.mark.parametrize("direction", ["h2d", "d2h", "d2d", "bidirectional"])
def test_a_byte_that_the_second_gpu_leaves_out_is_found(cuda: StandIn, direction: str) -> None:
    cuda.leaves_out = 1
    with pytest.raises(VerificationError):
        error_of(Memcpy(1000, direction, gpus=2))


def test_how_memory_is_pinned_is_told(cuda: StandIn) -> None:
    steps = {memory: step_of(Memcpy(8, "h2d", memory))[0] for memory in ("pinned", "pageable")}
    algorithms = {memory: description_of(step).algorithm for memory, step in steps.items()}
    assert "cuMemcpyHtoDAsync_v2, cuMemHostRegister" == algorithms["pinned"]
    assert "cuMemcpyHtoDAsync_v2, pageable" == algorithms["pageable"]


def test_multiprocessors_copy_by_our_kernel(cuda: StandIn) -> None:
    step, _ = step_of(Memcpy(1000, "d2h", engine="sm"))
    cuda.log.clear()
    step()
    assert [("sm", MAIN_STREAM)] == cuda.log
    assert "copy.cu, 132 blocks of 512 threads, cuMemHostRegister" == description_of(step).algorithm


@pytest.mark.parametrize("order", ["random", "rising"])
def test_a_chain_in_host_memory_is_walked_to_its_end(cuda: StandIn, order: str) -> None:
    problem, backend = Chase(128 * 300, order=order), OnCuda()
    inputs = problem.inputs(np.random.default_rng(0))
    step = setup_of("chase", "cupy")(backend, problem, *inputs)
    reference = problem.reference(np.random.default_rng(1), *inputs)
    assert 0 == check_output(backend, problem, step, reference)  # type: ignore[arg-type]
    another = setup_of("chase", "cupy")(backend, problem, *Chase(128 * 300).inputs(np.random.default_rng(2)))
    with pytest.raises(VerificationError):
        check_output(backend, problem, another, reference)  # type: ignore[arg-type]
    del step, another
    gc.collect()
    assert ({}, {}) == (cuda.device_memory, cuda.pinned)


def test_either_way_is_timed_by_itself_where_both_go(cuda: StandIn) -> None:
    ways = [Memcpy(8, "bidirectional"), Memcpy(8, "h2d"), Memcpy(8, "bidirectional", engine="sm")]
    assert [["h2d_s", "d2h_s"], [], []] == [list(description_of(step_of(each)[0]).others) for each in ways]


@pytest.mark.parametrize(("size_bytes", "count"), [(8, 16), (1 << 28, 4)])
def test_a_way_is_timed_from_the_moment_that_both_begin(
    cuda: StandIn, monkeypatch: pytest.MonkeyPatch, size_bytes: int, count: int
) -> None:
    def event() -> Any:
        mark = object()
        return SimpleNamespace(
            mark=mark,
            record=lambda stream: cuda.log.append(("mark", mark)),
            wait=lambda: None,
            seconds_until=lambda later: 8.0 if later.mark is not mark else 0.0,
        )

    said = ("hold", "release")
    blocker = SimpleNamespace(**{word: lambda word=word: cuda.log.append((word,)) for word in said})
    monkeypatch.setattr("primbench.kernels.memcpy._while_other.Blocker", lambda stream: blocker)
    for name, made in (("Event", event), ("synchronize", lambda stream: None)):
        monkeypatch.setattr(driver, name, made)
    to_gpu, to_host = (SimpleNamespace(device=0, source=SimpleNamespace(size_bytes=size_bytes)) for _ in range(2))
    ways = {id(to_gpu): "h2d", id(to_host): "d2h"}

    def enqueue(copy: Any, stream: int) -> Any:
        def copied(way: str, on: int) -> int:
            cuda.log.append((way, on))
            return 0

        return copied, (ways[id(copy)], stream)

    monkeypatch.setattr("primbench.kernels.memcpy._while_other.by_engine", enqueue)
    times = while_other_goes(to_gpu, to_host, MAIN_STREAM)  # type: ignore[arg-type]
    samples = times(Method(min_time_s=0.001, max_time_s=0.002), Pace())
    assert {8.0 / count} == set(samples.samples_s)
    first = cuda.log[: cuda.log.index(("release",)) + 1]
    assert ["hold", "record", "wait", "mark", *["h2d", "d2h"] * count, "mark", "release"] == [each[0] for each in first]
    assert 2 == len({each[1] for each in first if each[0] in ("h2d", "d2h")})


def test_write_combined_memory_is_allocated_so(cuda: StandIn) -> None:
    step_of(Memcpy(8, "h2d", "write_combined"))
    assert [("cuMemHostAlloc", 0x01 | 0x04)] == cuda.log


def test_where_registering_is_not_supported_the_driver_allocates(cuda: StandIn) -> None:
    cuda.registers = False
    step, _ = step_of(Memcpy(8, "d2h"))
    assert [("cuMemHostAlloc", 0x01)] == cuda.log
    assert "registering is not supported" in str(description_of(step).algorithm)
    assert 0 == error_of(Memcpy(8, "d2h"))


def test_memory_of_a_node_that_cannot_be_pinned_is_skipped(cuda: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda.registers = False
    monkeypatch.setattr("primbench.cuda.copies.host_buffer", lambda size, node: np.ones(size, np.int8))
    with pytest.raises(UnsupportedCase, match="memory on node 0 cannot be pinned"):
        step_of(Memcpy(8, "h2d", src_node=0))


def test_peer_access_that_is_there_already_is_no_error(cuda: StandIn) -> None:
    cuda.enabled.add((0xC0, 0xC1))
    assert 0 == error_of(Memcpy(8, "p2p", peer=1))


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (Memcpy(8, "p2p", peer=0), "no peer of itself: name another GPU, or ask for direction=d2d"),
        (Memcpy(8, "p2p", peer=2), "cuda:2: the driver shows 2 GPU"),
        (Memcpy(8, "h2d", gpus=3), "cuda:2: the driver shows 2 GPU"),
        (Memcpy(8, "h2h"), "ask for device=cpu"),
    ],
    ids=str,
)
def test_what_these_gpus_cannot_do_is_skipped(cuda: StandIn, problem: Memcpy, reason: str) -> None:
    with pytest.raises(UnsupportedCase, match=reason):
        step_of(problem)


def test_gpus_that_do_not_reach_each_other_are_skipped(cuda: StandIn) -> None:
    cuda.peers = False
    with pytest.raises(UnsupportedCase, match="cuda:0 does not reach the memory of cuda:1"):
        step_of(Memcpy(8, "p2p", peer=1))


def test_a_call_that_the_driver_refuses_is_named(cuda: StandIn) -> None:
    step, _ = step_of(Memcpy(8, "d2h"))
    cuda.streams.clear()
    with pytest.raises(driver.CudaError, match="cuMemcpyDtoHAsync_v2: CUDA_ERROR_INVALID_VALUE"):
        step()


@pytest.mark.parametrize(
    ("problem", "nodes"),
    [
        (Memcpy(8, "h2d"), [None]),
        (Memcpy(8, "d2h", "pageable"), [None]),
        (Memcpy(8, "bidirectional", gpus=2), [None] * 4),
        (Memcpy(8, "h2d", src_node=NODE), [NODE]),
        (Memcpy(8, "bidirectional", dst_node=NODE), [None, NODE]),
        (Memcpy(8, "d2d"), []),
        (Memcpy(8, "p2p", peer=1), []),
    ],
    ids=str,
)
def test_its_host_memory_is_named_with_the_node_it_is_to_be_on(
    cuda: StandIn, problem: Memcpy, nodes: list[int | None]
) -> None:
    if NODE in nodes and not may_bind():
        pytest.skip("mbind is denied here: needs root outside of containers")
    step, inputs = step_of(problem)
    step()
    buffers = description_of(step).host_buffers or []
    assert nodes == [node for _, node in buffers]
    for array, _ in buffers:
        np.testing.assert_array_equal(inputs[0], array)


def test_its_time_is_taken_on_a_stream(cuda: StandIn) -> None:
    assert description_of(step_of(Memcpy(8, "d2h"))[0]).stream_only
