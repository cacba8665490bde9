"""What a notebook shows of results, and that the example runs in one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

import primbench
from primbench.compare.pairs import compare
from primbench.kernels.gemm import Gemm
from primbench.results.file import encode

if TYPE_CHECKING:
    from click.testing import Result

ROOT = Path(__file__).parents[2]
STUDY = ROOT / "suites/reference/studies/h200-host-docker-podman-cupy.jsonl.xz"
MOST_CHARACTERS = 200
DRY = primbench.Method(dry_run=True)


@pytest.fixture(scope="module")
def results(measured: tuple[Path, Result]) -> primbench.Results:
    return primbench.load(measured[0])


def cells(html: str) -> list[str]:
    found: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag in ("td", "caption"):
                found.append("")

        def handle_data(self, data: str) -> None:
            if found:
                found[-1] += data

    Reader().feed(html)
    return found


def test_values_are_short_in_a_shell_and_tables_in_a_notebook(results: primbench.Results) -> None:
    record = results.records[0]
    comparison = compare(primbench.load(STUDY))
    for value in (record, record.measurement, results, comparison):
        assert len(repr(value)) < MOST_CHARACTERS
        assert "<table>" in value._repr_html_()  # type: ignore[union-attr]
    assert repr(record).startswith("Record(gemm m=16 n=24 k=8 float32 on numpy cpu: ")
    assert repr(results).startswith("Results(2 ok, 1 skipped, 1 processes, begun ")
    told = "14 equivalent-in-these-runs, 4 equivalent"
    assert f"Comparison(docker-profile, podman-profile against host: {told})" == repr(comparison)
    assert {"docker-profile", "1.002", "[0.997, 1.007]", "equivalent"} <= set(cells(comparison._repr_html_()))


def test_a_table_is_no_longer_than_can_be_read_and_no_markup_of_a_file(results: primbench.Results) -> None:
    hostile = replace(results.records[0], status="failed", reason="<script>\x1b[2J")
    many = replace(results, records=[hostile] * 1000)
    html = many._repr_html_()
    assert len(html) < 10_000
    assert "<script>" not in html
    assert "\x1b" not in html
    assert "failed: <script>?[2J" in cells(html)
    assert "and 980 more: frame() has all" in html


def test_run_says_how_far_it_is_and_goes_on_with_a_file(tmp_path: Path) -> None:
    path, told = tmp_path / "results.jsonl", []

    def progress(done: int, of: int, case: Any) -> None:
        told.append((done, of, case and case.parameters["m"]))

    options: dict[str, Any] = {"backend": "numpy", "device": "cpu", "method": DRY, "output": path}
    one = primbench.run([Gemm(8, 8, 8)], **options, progress=progress)
    assert [(0, 1, 8), (1, 1, None)] == told
    with pytest.raises(primbench.FileError, match="exists"):
        primbench.run([Gemm(8, 8, 8)], **options)
    both = primbench.run([Gemm(8, 8, 8), Gemm(16, 8, 8)], **options, resume=True, progress=progress)
    assert [(0, 1, 16), (1, 1, None)] == told[2:]
    assert both[0] == one[0]
    assert both == primbench.load(path).records
    assert [0, 1] == [worker.worker for worker in primbench.load(path).workers]
    anew = primbench.run([Gemm(8, 8, 8)], **options, overwrite=True, progress=None)
    assert anew == primbench.load(path).records
    with pytest.raises(primbench.InvalidRequest, match="resume=True: goes on with the file of output="):
        primbench.run([Gemm(8, 8, 8)], **options, resume=True, overwrite=True)


def test_files_that_no_run_goes_on_with_are_refused(tmp_path: Path, results: primbench.Results) -> None:
    machine = replace(results.header.environment.machine, cpu_model="another")
    other = replace(results.header.environment, machine=machine)
    path = tmp_path / "elsewhere.jsonl"
    worker = replace(results.workers[0], environment=other)  # which alone sees GPUs
    for lines in ([encode(replace(results.header, environment=other))], [encode(results.header), encode(worker)]):
        path.write_bytes(b"".join(lines))
        with pytest.raises(primbench.InvalidRequest, match=r"begun on another machine .*\.cpu_model was another"):
            primbench.run([Gemm(8, 8, 8)], backend="numpy", method=DRY, output=path, resume=True)


@pytest.mark.wheel
def test_frames_have_numbers_and_parquet_has_the_same(
    results: primbench.Results, invoke: Callable[..., Result], measured: tuple[Path, Result], tmp_path: Path
) -> None:
    pandas = pytest.importorskip("pandas", reason="pip install 'primbench[report]'")
    pytest.importorskip("pyarrow", reason="pip install 'primbench[report]'")
    frame = results.frame()
    assert {"float64"} == {str(frame[name].dtype) for name in frame.columns if name.endswith(("_s", "_bytes", "_hz"))}
    assert [False, False, True] == frame["batch_s"].isna().tolist()
    path = tmp_path / "results.parquet"
    assert 0 == invoke("show", measured[0], "--parquet", path).exit_code
    assert frame["batch_s"].equals(pandas.read_parquet(path)["batch_s"])


@pytest.mark.wheel
@pytest.mark.parametrize("other", [True, "large"])
def test_parameters_of_one_name_and_different_types_are_texts_in_parquet(
    results: primbench.Results, invoke: Callable[..., Result], tmp_path: Path, other: Any
) -> None:
    pandas = pytest.importorskip("pandas", reason="pip install 'primbench[report]'")
    pytest.importorskip("pyarrow", reason="pip install 'primbench[report]'")
    first, *more = results.records
    changed = replace(first, case=replace(first.case, parameters={**first.case.parameters, "m": other}))
    path = tmp_path / "mixed.jsonl"
    lines = [encode(results.header), *map(encode, results.workers), *map(encode, [changed, *more])]
    path.write_bytes(b"".join(lines))
    assert 0 == invoke("show", path, "--parquet", tmp_path / "mixed.parquet").exit_code
    found = sorted(pandas.read_parquet(tmp_path / "mixed.parquet")["m"])
    assert sorted(str(each.case.parameters["m"]) for each in [changed, *more]) == found


def test_what_is_missing_for_a_frame_is_named(
    refusal: Callable[..., str], measured: tuple[Path, Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pandas", "pyarrow"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError, match=r"^a data frame needs pandas: pip install 'primbench\[report\]'$"):
        primbench.load(measured[0]).frame()
    said = refusal("show", measured[0], "--parquet", "x.parquet")
    assert "--parquet: needs pandas and pyarrow: pip install 'primbench[report]'" == said


@pytest.mark.wheel
def test_the_example_runs_and_shows_little(tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat", reason="pip install 'primbench[dev]'")
    nbclient = pytest.importorskip("nbclient", reason="pip install 'primbench[dev]'")
    pytest.importorskip("ipykernel", reason="pip install 'primbench[dev]'")
    pytest.importorskip("pandas", reason="pip install 'primbench[report]'")
    notebook = nbformat.read(ROOT / "docs/notebook.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": tmp_path}}).execute()
    written = nbformat.writes(notebook)
    assert len(written) < 200_000
    assert 3 <= written.count("text/html")
    assert "[0/3] gemm m=64 n=64 k=64" in written
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
