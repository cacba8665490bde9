from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from primbench import backends
from primbench.environment.devices import has_gpu_node
from primbench.errors import BackendUnavailable, FileError, InvalidField, InvalidRequest, OutputError, UnsupportedCase
from primbench.kernels.chase import Chase
from primbench.kernels.files import Files
from primbench.kernels.gemm import Gemm
from primbench.kernels.loader import Loader
from primbench.kernels.model import Model
from primbench.kernels.program import Program
from primbench.results import file as results_file
from primbench.results.file import Results
from primbench.results.record import Record
from primbench.results.writer import Writer, check_kept, header, keep, left_to_do
from primbench.spec.arm import parse_arm
from primbench.spec.case import Case
from primbench.spec.method import Method
from primbench.spec.placement import Placement
from primbench.timing.case import measure_on
from primbench.workers import plan as planning
from primbench.workers import run
from primbench.workers.asking import asking_once
from primbench.workers.plan import choose, plan

DRY = Method(dry_run=True)
SMALL, LARGE = Gemm(8, 8, 8), Gemm(10**6, 10**6, 1)


def planned(problems: Sequence[Gemm], *names: str, device: str | None = "cpu", processes: int = 1) -> list[Case]:
    return plan(
        [(problem, {"id": str(problem.m)}) for problem in problems],
        backends=names,
        device=device,
        method=DRY,
        placement=Placement(),
        processes=processes,
    )


@pytest.fixture
def two_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if torch were there whether it is or not: nothing is run."""
    monkeypatch.setattr(backends, "missing", lambda name: None if name in ("numpy", "torch") else f"no {name} here")


def test_records_come_in_the_order_of_the_problems_and_stand_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    records = run.run([SMALL, LARGE], backend="numpy", device="cpu", method=DRY, output=path)
    held = results_file.read(path)
    assert ["ok", "skipped"] == [each.status for each in records]
    assert [SMALL, LARGE] == [each.case.problem() for each in records]
    assert records == held.records
    assert [0] == [worker.worker for worker in held.workers]
    assert ["primbench.run"] == held.header.command


def test_an_existing_file_is_refused_before_anything_is_run(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text("precious")
    with pytest.raises(FileError, match=r"exists; add to it with resume=True, begin anew with overwrite=True$"):
        run.run([SMALL], backend="numpy", device="cpu", method=DRY, output=path)
    assert "precious" == path.read_text()


def test_what_is_measured_while_the_file_is_lost_is_kept_beside_it(tmp_path: Path) -> None:
    path, case = tmp_path / "results.jsonl", planned([SMALL])[0]
    records = [Record(case=replace(case, process=n), status="ok", started_utc="", duration_s=1) for n in range(3)]
    found = Results(header=header([], {}), workers=[], records=[])

    def measured() -> Iterator[Record]:
        yield records[0]
        path.unlink()
        yield from records[1:]

    with closing(Writer(path, found.header)) as writer:
        with pytest.raises(OutputError) as caught:
            keep(measured(), writer, found)
        said = re.fullmatch(rf"{path}: was removed or renamed .*; all that was measured is in (.*)", str(caught.value))
        assert said
        assert records[:2] == found.records == results_file.read(said[1]).records
        tmp_path.rename(tmp_path.with_name("elsewhere"))
        with pytest.raises(OutputError, match=f"{tempfile.gettempdir()}/results-"):
            check_kept(writer, found)


def test_no_problems_are_no_records() -> None:
    assert [] == run.run([], backend="numpy", device="cpu")


@pytest.mark.parametrize(("names", "device"), [(["torch"], "cuda:0"), (["cupy"], None)])
def test_what_no_gpu_takes_part_in_is_left_out_of_what_is_asked_of_one(
    names: list[str], device: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backends, "missing", lambda name: None)
    monkeypatch.setattr(planning, "has_gpu_node", lambda: True)
    monkeypatch.setattr(planning, "ask_a_worker", lambda *asked: SimpleNamespace(device="cuda:0", backend=names[0]))
    entries: list[Any] = [(SMALL, {}), (Files(4096), {"device": "cpu"})]
    cases = plan(entries, backends=names, device=device, method=DRY, placement=Placement(), processes=1)
    assert [("gemm", names[0], "cuda:0")] == [(case.primitive, case.backend, case.device) for case in cases]


def test_what_runs_on_another_machine_is_chosen_by_what_that_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in says what a worker there would; those of tests/containers/test_ssh.py are real."""
    asked = []

    def ask(candidates: tuple[str, ...], device: str | None, arm: Any = None) -> SimpleNamespace:
        asked.append((device, arm.host))
        return SimpleNamespace(device=device or "cuda:0", backend="torch")

    monkeypatch.setattr(planning, "ask_a_worker", ask)
    entries: list[Any] = [(SMALL, {}), (Files(4096), {})]
    far = parse_arm("ssh:far")
    cases = plan(entries, backends=[], device=None, method=DRY, placement=Placement(), processes=1, afar=far)
    assert {("gemm", "cuda:0"), ("files", "cpu")} == {(case.primitive, case.device) for case in cases}
    assert [(None, "far"), ("cpu", "far")] == asked


@pytest.mark.parametrize(("parts", "times"), [(0, 1), (6, 1), (16, 2), (200, 10)])
def test_a_step_is_sampled_for_as_long_as_an_eighth_of_its_parts(parts: int, times: int) -> None:
    method = Method(min_time_s=0.01, max_time_s=0.04, dry_run=True)
    entries: list[Any] = [(SMALL, {"set": "whole"}), *[(SMALL, {"set": "parts", "id": str(n)}) for n in range(parts)]]
    whole, *others = plan(entries, backends=["numpy"], device="cpu", method=method, placement=Placement(), processes=1)
    assert pytest.approx((0.01 * times, 0.04 * times)) == (whole.method.min_time_s, whole.method.max_time_s)
    assert [method] * parts == [case.method for case in others]


@pytest.mark.usefixtures("two_backends")
def test_cases_of_one_backend_stand_together_within_each_process() -> None:
    cases = planned([SMALL, LARGE], "torch", "numpy", processes=2)
    assert [
        (process, backend, size) for process in (0, 1) for backend in ("torch", "numpy") for size in (8, 10**6)
    ] == [(case.process, case.backend, case.parameters["m"]) for case in cases]
    assert [{"id": "8"}, {"id": "1000000"}] == [case.labels for case in cases[:2]]


@pytest.mark.usefixtures("two_backends")
@pytest.mark.parametrize(
    ("asked", "places"),
    [
        ([], [("torch", "a"), ("torch", "b"), ("numpy", "c"), ("cupy", "d")]),
        (["numpy"], [("numpy", "a"), ("numpy", "c")]),
    ],
)
def test_an_entry_is_for_the_backend_that_it_names(asked: list[str], places: list[tuple[str, str]]) -> None:
    named = {"a": {}, "b": {"backend": "torch"}, "c": {"backend": "numpy"}, "d": {"backend": "cupy"}}
    entries: list[Any] = [(SMALL, {"id": name, **labels}) for name, labels in named.items()]
    cases = plan(entries, backends=asked, device="cpu", method=DRY, placement=Placement(), processes=1)
    assert places == [(case.backend, case.labels["id"]) for case in cases]


@pytest.mark.usefixtures("two_backends")
def test_all_backends_are_those_installed_and_none_named_is_the_best_one() -> None:
    assert [("torch", "cpu"), ("numpy", "cpu")] == choose("gemm", ["all"], "cpu")
    assert [("torch", "cpu")] == choose("gemm", [], "cpu")
    assert [("numpy", "cpu")] == choose("gemm", ["numpy"], "cpu")


@pytest.mark.usefixtures("two_backends")
@pytest.mark.parametrize(
    ("reached", "asked_first"), [("cuda:0", [("torch",)]), ("cpu", [("torch",), ("numpy", "torch")])]
)
def test_no_worker_is_asked_for_the_best_backend_that_another_has_found_to_reach_the_gpu(
    reached: str, asked_first: list[tuple[str, ...]]
) -> None:
    asked: list[Any] = []

    def ask(having: tuple[str, ...], device: str | None) -> Any:
        asked.append((having, device))
        return SimpleNamespace(backend=having[-1], device=device or reached)

    once = asking_once(ask)
    both, alone = ("numpy", "torch"), ("torch",)
    for having, device in ((alone, None), (both, None), (alone, "cuda:1"), (both, "cuda:1"), (("numpy",), "cpu")):
        assert having[-1] == once(having, device).backend
    assert [*((having, None) for having in asked_first), (alone, "cuda:1"), (("numpy",), "cpu")] == asked


def test_without_a_gpu_the_cpu_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "has_gpu_node", lambda: False)
    assert [("numpy", "cpu")] == choose("gemm", ["numpy"], None)


@pytest.mark.parametrize("device", ["gpu", "cuda", "cuda:", "cuda:-1", "cuda:1000", "cuda:0 ", "cpu:0", ""])
def test_a_device_that_is_none_is_refused(device: str) -> None:
    with pytest.raises(InvalidRequest, match=r"cpu, cuda:N \(N from 0\) or all"):
        choose("gemm", [], device)


@pytest.mark.usefixtures("two_backends")
def test_a_named_backend_must_be_there() -> None:
    with pytest.raises(BackendUnavailable, match="backend=cupy: no cupy here"):
        choose("gemm", ["numpy", "cupy"], "cpu")


def test_a_backend_without_a_kernel_for_anything_asked_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"^backend numpy has no kernel for chase: ask for cupy, numba$"):
        choose("chase", ["numpy"], "cpu")


def test_a_case_that_its_backend_has_no_kernel_for_is_skipped_beside_others() -> None:
    chased, product = run.run([Chase(256), SMALL], backend="numpy", device="cpu", method=DRY)
    assert ("skipped", "ok") == (chased.status, product.status)
    assert "chase has no kernel for backend 'numpy': it has cupy, numba" == chased.reason


def test_a_worker_that_the_system_has_no_room_for_fails_its_case_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    refusals = [BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))]
    popen = subprocess.Popen

    def start(*given: Any, **named: Any) -> Any:
        if refusals:
            raise refusals.pop()
        return popen(*given, **named)

    monkeypatch.setattr(subprocess, "Popen", start)
    failed, product = run.run([SMALL, Gemm(9, 9, 9)], backend="numpy", device="cpu", method=DRY)
    assert ("failed", "ok") == (failed.status, product.status)
    assert "worker cannot be started: Resource temporarily unavailable: see the limits of `ulimit -a`" == failed.reason


def test_a_device_that_no_backend_reaches_is_refused_by_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "has_gpu_node", lambda: False)
    nowhere = r"^device=cuda:0: no GPU is seen here \(no /dev/nvidia\*\): .*numpy on cuda:0: it runs on cpu only"
    with pytest.raises(BackendUnavailable, match=nowhere):
        choose("gemm", ["numpy"], "cuda:0")
    with pytest.raises(InvalidField, match=r"^device=all: no GPU is seen here \(no /dev/nvidia\*\): leave it out"):
        choose("gemm", ["numpy"], "all")


@pytest.mark.parametrize(("name", "expected"), [("nvidia0", True), ("nvidiactl", False), ("dxg", True), ("sda", False)])
def test_a_gpu_shows_as_a_device_file(tmp_path: Path, name: str, expected: bool) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / name).touch()
    assert expected == has_gpu_node(tmp_path)


def test_what_is_left_to_do_is_what_is_not_held_or_failed_last() -> None:
    done, failed, mended, new = planned([Gemm(m, 1, 1) for m in (1, 2, 3, 4)], "numpy")

    def made(case: Case, status: str) -> Record:
        return Record(case=case, status=status, started_utc="", duration_s=0.0)  # type: ignore[arg-type]

    records = [made(done, "ok"), made(mended, "failed"), made(failed, "failed"), made(mended, "skipped")]
    held = Results(header=header([], {}), workers=[], records=records)
    assert [failed, new] == left_to_do([done, failed, mended, new], held)


def test_another_method_is_another_case() -> None:
    (case,) = planned([SMALL], "numpy")
    done = Record(case=replace(case, method=Method(seed=1, dry_run=True)), status="ok", started_utc="", duration_s=0.0)
    assert [case] == left_to_do([case], Results(header=header([], {}), workers=[], records=[done]))


def test_bytes_that_are_no_text_are_escaped_in_the_header() -> None:
    made = header(["primbench", "\udcff.jsonl", "é"], {"where\udcfe": "\udcfd"})
    assert (["primbench", r"\xff.jsonl", "é"], {r"where\xfe": r"\xfd"}) == (made.command, made.labels)
    results_file.encode(made)


def test_a_case_asked_for_twice_is_run_twice_and_resumed_once_for_each_record() -> None:
    twice = planned([SMALL, SMALL], "numpy")
    ok, failed = (Record(case=twice[0], status=status, started_utc="", duration_s=0.0) for status in ("ok", "failed"))

    def left(*held: Record) -> int:
        return len(left_to_do(twice, Results(header=header([], {}), workers=[], records=list(held))))

    assert [2, 1, 0] == [left(), left(ok), left(ok, ok)]
    assert [2, 1] == [left(failed), left(failed, ok)]


def planned_for(*devices: str) -> list[Case]:
    """Entries for such devices, in a run on a CPU."""
    entries = [(SMALL, {"device": device} if device else {}) for device in devices]
    return plan(entries, backends=["numpy"], device="cpu", method=DRY, placement=Placement(), processes=1)


def test_an_entry_for_another_kind_of_device_is_left_out() -> None:
    assert [None, "cpu"] == [case.labels.get("device") for case in planned_for("", "cuda", "cpu")]


@pytest.mark.parametrize(
    ("has_gpu", "device", "kept"), [(True, None, ["cuda"]), (True, "cpu", ["cpu"]), (False, None, ["cpu"])]
)
@pytest.mark.usefixtures("two_backends")
def test_an_entry_of_programs_is_for_machines_with_such_a_device(
    has_gpu: bool, device: str | None, kept: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "has_gpu_node", lambda: has_gpu)
    entries: list[Any] = [(Program("snn", gpu=kind == "cuda"), {"device": kind}) for kind in ("cpu", "cuda")]
    cases = plan(entries, backends=[], device=device, method=DRY, placement=Placement(), processes=1)
    assert [(each, "cpu") for each in kept] == [(case.labels["device"], case.device) for case in cases]


def test_nothing_left_for_this_device_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="every entry is for cuda, this run is on cpu"):
        planned_for("cuda", "cuda")


def test_a_primitive_may_prefer_a_backend_on_cpus(two_backends: None) -> None:
    assert [("torch", "cpu")] == choose("gemm", [], "cpu")
    assert [("numpy", "cpu")] == choose("allreduce", [], "cpu")
    assert [("torch", "cpu"), ("numpy", "cpu")] == choose("allreduce", ["all"], "cpu")


def test_what_gpus_take_no_part_in_is_on_the_cpu_even_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "has_gpu_node", lambda: True)
    monkeypatch.setattr(backends, "missing", lambda name: None)
    assert [("torch", "cpu")] == choose("loader", [], None, ask=lambda *_: pytest.fail("a worker was asked"))


def test_a_primitive_without_a_backend_here_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "missing", lambda name: f"no {name} here")
    with pytest.raises(BackendUnavailable, match="loader has no backend on a CPU here: torch: no torch here"):
        choose("loader", [], "cpu")


def test_a_suite_goes_on_without_what_has_no_backend_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models, too, whose own inputs need the backend that is not here."""
    monkeypatch.setattr(backends, "missing", lambda name: None if name == "numpy" else f"no {name} here")

    def planned_here(*problems: Any) -> list[Case]:
        entries: list[tuple[Any, dict[str, str]]] = [(problem, {}) for problem in problems]
        return plan(entries, backends=[], device="cpu", method=DRY, placement=Placement(), processes=1)

    cases = planned_here(Model("snn"), SMALL)
    assert [("model", "numpy", "cpu"), ("gemm", "numpy", "cpu")] == [
        (each.primitive, each.backend, each.device) for each in cases
    ]
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UnsupportedCase, match="model has no kernel for backend 'numpy': it has torch"):
        measure_on(backends.open_backend("numpy", "cpu"), cases[0].problem(), DRY)
    with pytest.raises(BackendUnavailable, match="model has no backend on a CPU here"):
        planned_here(Model("snn"))


def test_a_suite_goes_on_on_a_gpu_too_but_not_where_what_is_missing_here_may_be_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backends, "missing", lambda name: None if name in ("cupy", "numpy") else f"no {name} here")
    monkeypatch.setattr(planning, "has_gpu_node", lambda: True)
    monkeypatch.setattr(planning, "ask_a_worker", lambda *_: SimpleNamespace(backend="cupy", device="cuda:0"))
    entries: list[tuple[Any, dict[str, str]]] = [(Model("snn"), {}), (Loader(512), {"device": "cpu"}), (SMALL, {})]

    def planned_there(*, elsewhere: bool) -> list[Case]:
        return plan(
            entries, backends=[], device=None, method=DRY, placement=Placement(), processes=1, elsewhere=elsewhere
        )

    assert {("model", "cupy", "cuda:0"), ("loader", "numpy", "cpu"), ("gemm", "cupy", "cuda:0")} == {
        (each.primitive, each.backend, each.device) for each in planned_there(elsewhere=False)
    }
    with pytest.raises(BackendUnavailable, match="model has no backend here: torch: no torch here"):
        planned_there(elsewhere=True)
