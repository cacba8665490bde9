from __future__ import annotations

import ctypes
import functools
import gc
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from primbench import Method, measure, setup
from primbench.backends import missing
from primbench.cli.problem import Sized, entries_of
from primbench.devices import nth_gpu
from primbench.errors import InvalidRequest, PrimbenchError, UnsupportedCase
from primbench.kernels.launch import _runtime
from primbench.kernels.launch._cuda import cuda_step, parameters
from primbench.kernels.launch._driver import _launch_by_runtime, ptx
from primbench.kernels.launch._no_framework import step_without_framework
from primbench.kernels.launch.problem import CALLS, MAX_PARAMETER_BYTES, OF_CPUS, OF_TORCH, Launch
from primbench.measurement import Measurement, Samples, Trace
from primbench.problem import description_of

if TYPE_CHECKING:
    from click.testing import Result

QUICK = Method(min_time_s=0.002, max_time_s=0.01)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"call": "jump"}, "call='jump': one of dispatch, module"),
        ({"call": "driver", "parameter_bytes": 8}, "parameter_bytes=8: 0, or a multiple of 8 from 16 to 4096"),
        ({"call": "driver", "parameter_bytes": 20}, "parameter_bytes=20"),
        ({"call": "driver", "parameter_bytes": 4104}, "parameter_bytes=4104"),
        ({"parameter_bytes": 64}, "parameter_bytes=64 with call='dispatch': ask for call='kernel' or call='driver' or"),
        ({"nodes": -1}, "nodes=-1: a whole number of at least 0"),
        ({"call": "getppid", "nodes": 3}, "nodes=3 with call='getppid': a graph holds kernels only"),
        ({"seal": "some"}, "seal='some': one of none, ioctl, all"),
    ],
)
def test_nonsense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        Launch(**options)


@pytest.mark.parametrize("call", ["kernel", "driver"])
def test_a_cpu_launches_no_kernels(call: str) -> None:
    with pytest.raises(UnsupportedCase, match="ask for call=dispatch, getppid"):
        setup(Launch(call), backend="numpy", device="cpu")


@pytest.mark.parametrize("problem", [Launch(nodes=4), Launch("ctypes", parameter_bytes=16)])
def test_a_cpu_has_neither_graphs_nor_parameters(problem: Launch) -> None:
    with pytest.raises(UnsupportedCase, match="leave out nodes, parameter_bytes"):
        setup(problem, backend="numpy", device="cpu")


@pytest.mark.parametrize("call", OF_CPUS)
def test_what_a_cpu_does_is_refused_on_a_gpu(call: str) -> None:
    with pytest.raises(UnsupportedCase, match=f"{call} is a call of the CPU: ask for device=cpu"):
        step_without_framework(SimpleNamespace(device=nth_gpu(0)), Launch(call))


def test_an_empty_call_is_timed_unchecked_and_says_why() -> None:
    measured = measure(Launch("ctypes"), backend="numpy", device="cpu", method=QUICK)
    assert measured.verified is None
    assert "an empty call leaves nothing to compare" in measured.missing["verified"]
    assert (None, None) == (measured.bytes_moved, measured.bytes_per_s)
    assert measured.wall_s is not None


def test_a_process_that_fails_is_no_start(monkeypatch: pytest.MonkeyPatch) -> None:
    false = shutil.which("false")
    monkeypatch.setattr(shutil, "which", lambda name: false)
    with pytest.raises(PrimbenchError, match="false ended with exit status 1"):
        setup(Launch("process_start"), backend="numpy", device="cpu")()


def test_the_woken_thread_ends_with_its_step() -> None:
    before = set(threading.enumerate())
    step = setup(Launch("thread_wake"), backend="numpy", device="cpu")
    assert [0] == list(step())
    (woken,) = set(threading.enumerate()) - before
    del step
    gc.collect()
    woken.join(timeout=10)
    assert not woken.is_alive()


def samples(count: int) -> Samples:
    """1 to ``count`` microseconds."""
    times = [number / 1e6 for number in range(1, count + 1)]
    return Samples(samples_s=times, calls_per_sample=1, taken_by="a ruler", stopped="count")


def test_a_quantile_of_the_tail_needs_ten_samples_beyond_it() -> None:
    figures = Launch().figures(Measurement(enqueue_single_s=samples(10_000), wall_s=samples(1000)))
    assert 9900e-6 == pytest.approx(figures["single_p99_s"], rel=1e-3)
    assert 9990e-6 == pytest.approx(figures["single_p999_s"], rel=1e-3)
    assert 990e-6 == pytest.approx(figures["wall_p99_s"], rel=1e-3)
    assert figures["wall_p999_s"] is None
    assert Launch().figures(Measurement(wall_s=samples(999)))["wall_p99_s"] is None


def test_figures_have_the_same_names_whatever_was_measured() -> None:
    trace = Trace(busy_s=samples(6), kernels_per_call=1, kernels=["empty"], launch_to_start_s=samples(5))
    others = {"instantiate_s": samples(7), "full_queue_s": samples(9)}
    others |= {"unsealed_s": samples(11), "sealed_s": samples(13)}
    refused = {"ioctl": 2, "mmap": 3}
    full = Launch("driver", nodes=4).figures(
        Measurement(device_s=samples(39), others=others, trace=trace, refused_calls=refused)
    )
    assert list(Launch().figures(Measurement())) == list(full)
    assert {None} == set(Launch().figures(Measurement()).values())
    assert [3e-6, 5e-6, 4e-6, 5e-6] == pytest.approx(
        [full[name] for name in ("launch_to_start_s", "full_queue_s", "instantiate_s", "per_node_s")]
    )
    assert [6e-6, 7e-6] == pytest.approx([full["unsealed_s"], full["sealed_s"]])
    assert [13, 5] == [full["sealed_calls"], full["refused_calls"]]


def test_each_node_is_told_its_own_address_and_word() -> None:
    output = np.zeros(3, np.int32)
    array = SimpleNamespace(__cuda_array_interface__=output.__array_interface__)
    words = parameters(Launch("driver", parameter_bytes=24, nodes=3), array)
    first = output.__array_interface__["data"][0]
    assert [24] * 3 == [each.nbytes for each in words]
    assert [first, first + 4, first + 8] == [int(each[:2].view(np.int64)[0]) for each in words]
    assert [1, 2, 3] == [int(each[-1]) for each in words]
    assert 1 == words[0].view("V24").size  # what CuPy takes by value


@pytest.mark.parametrize("parameter_bytes", [0, 16, MAX_PARAMETER_BYTES])
def test_the_driver_kernels_assemble(parameter_bytes: int, tmp_path: Path) -> None:
    ptxas = shutil.which("ptxas") or shutil.which("/usr/local/cuda/bin/ptxas")
    if ptxas is None:
        pytest.skip("needs ptxas of the CUDA toolkit")
    (tmp_path / "kernels.ptx").write_bytes(ptx(parameter_bytes))
    command = [ptxas, "-arch=sm_80", str(tmp_path / "kernels.ptx"), "-o", str(tmp_path / "kernels.cubin")]
    assert 0 == subprocess.run(command, timeout=60).returncode


BACKEND = SimpleNamespace(stream_handle=7, synchronize=lambda: None)


def test_without_a_graph_the_step_is_the_launch_itself() -> None:
    made: list[str] = []
    launch: Any = functools.partial(made.append, "launch")
    step: Any = cuda_step(BACKEND, Launch("kernel"), [launch], lambda enqueue: (0, launch))
    assert step is launch
    assert ["launch"] == made
    assert ["full_queue_s"] == list(description_of(step).others)


def test_a_graph_replays_every_launch_and_is_timed_on_the_stream() -> None:
    made: list[int] = []
    launches: list[Any] = [functools.partial(made.append, node) for node in range(3)]

    def capture(enqueue: Callable[[], None]) -> tuple[int, Any]:
        return len(launches), functools.partial(enqueue)

    step: Any = cuda_step(BACKEND, Launch("kernel", nodes=3), launches, capture)
    made.clear()
    step()
    assert [0, 1, 2] == made
    assert description_of(step).stream_only
    assert ["instantiate_s"] == list(description_of(step).others)


def test_a_graph_of_another_number_of_nodes_fails() -> None:
    launch: Any = functools.partial(int)
    with pytest.raises(PrimbenchError, match="a graph of 3 launches has 4 nodes"):
        cuda_step(BACKEND, Launch(nodes=3), [launch] * 3, lambda enqueue: (4, launch))


def asked_for(**given: tuple[Any, ...]) -> list[Any]:
    return [problem for problem, _ in entries_of(Launch, Sized(given=given))]


def test_options_alone_make_a_problem_and_nothing_at_all_the_medium_set() -> None:
    assert [Launch(nodes=1), Launch(nodes=100)] == asked_for(nodes=((1,), (100,)))
    assert set(CALLS) - set(OF_TORCH) == {problem.call for problem in asked_for()}


def test_what_is_called_is_shown_though_it_is_the_default(invoke: Callable[..., Result]) -> None:
    result = invoke("launch", "--backend", "numpy", "--device", "cpu", "--call", "dispatch", "--dry-run")
    assert ["call", "check", "dispatch", "ok"] == " ".join(result.stdout.splitlines()[1:]).split()


def test_the_ladder_of_a_cpu_is_a_table(invoke: Callable[..., Result]) -> None:
    times = ("--min-time", "2ms", "--max-time", "4ms")
    result = invoke(
        "launch", "--backend", "numpy", "--device", "cpu", "--call", "getppid", "--call", "dispatch", *times
    )
    header, getppid, dispatch = result.stdout.splitlines()[1:4]
    assert ["call", "batch", "wall", "noise"] == header.removeprefix("row").split()[:4]  # where a note cites one
    assert "B/s" not in header
    assert getppid.endswith("not checked")
    assert dispatch.endswith("ok")


RUNTIME = """
struct dim3 { unsigned x, y, z; };
static int loaded, word;
int launched(void) { return word; }
int is_loaded(void) { return loaded; }
const char *cudaGetErrorName(int status) { return status == 98 ? "cudaErrorInvalidDeviceFunction" : "?"; }
int cudaLibraryLoadData(void **library, const void *code, void *a, void *b, unsigned c, void *d, void *e, unsigned f)
{ loaded++; *library = &loaded; return a || b || c || d || e || f || !code; }
int cudaLibraryUnload(void *library) { loaded--; return library != &loaded; }
int cudaLibraryGetKernel(void **kernel, void *library, const char *name) { *kernel = &word; return library != &loaded; }
int cudaLaunchKernel(
    const void *kernel, struct dim3 grid, struct dim3 block, void **words, unsigned long shared, void *stream)
{
    if (kernel != &word) return 98;
    word = ((int *)words[0])[3];
    return !(grid.x == 1 && grid.y == 1 && grid.z == 1 && block.x == 1 && block.y == 1 && block.z == 1
        && shared == 0 && stream == (void *)0x51);
}
"""


def test_the_runtime_is_given_what_it_asks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a stand-in in C: no GPU is here."""
    if (compiler := shutil.which("cc")) is None:
        pytest.skip("no C compiler")
    source, path = tmp_path / "runtime.c", tmp_path / "libcudart.so.13"
    source.write_text(RUNTIME)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", path, source], check=True)
    stand_in = ctypes.CDLL(str(path))
    monkeypatch.setattr(_runtime, "library", lambda: stand_in)
    module, words = _runtime.Module(b"ptx"), np.array([0, 0, 0, 7], np.int32)
    step = _launch_by_runtime(module.function("last_word"), 0x51, words.ctypes.data, ("output", words))
    assert ("output", 7) == (step(), stand_in.launched())
    with pytest.raises(PrimbenchError, match="cudaLaunchKernel: cudaErrorInvalidDeviceFunction"):
        _launch_by_runtime(0x1, 0x51, words.ctypes.data, (words,))()
    del module
    gc.collect()
    assert 0 == stand_in.is_loaded()


@pytest.mark.wheel
@pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))
@pytest.mark.filterwarnings("ignore:.*torch.jit.script_method:DeprecationWarning")
@pytest.mark.parametrize("call", ["module", "custom_op", "compiled"])
def test_layers_above_an_operator_add_as_it_does_and_tell_of_their_first_call(call: str) -> None:
    problem = Launch(call)
    found = [measure(problem, backend="torch", device="cpu", method=QUICK) for _ in range(2)]
    assert [True, True] == [each.verified for each in found]
    first, again = (problem.figures(each)["first_s"] for each in found)
    assert first == again  # there is one first call in a process
    assert first is not None
    assert "torch." in (found[0].algorithm or "")


def test_layers_of_torch_are_refused_elsewhere() -> None:
    with pytest.raises(UnsupportedCase, match="call=module is torch's: ask for backend=torch"):
        setup(Launch("module"), backend="numpy", device="cpu")
