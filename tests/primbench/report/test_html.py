"""Pages of results files, held to what pages.check() says of every one of them."""

from __future__ import annotations

import dataclasses
import lzma
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from primbench.measurement import Measurement, Samples
from primbench.measurement.over_time import OverTime, Series
from primbench.numa.topology import Node
from primbench.registry import build
from primbench.report import explained
from primbench.report.document import Document, Note, Section, Table
from primbench.report.formats import known
from primbench.report.formats import report as html
from primbench.report.formats.report import STYLE
from primbench.report.measured import page as measured_page
from primbench.report.svg_plot import HOTTEST
from primbench.results.file import Results, encode, read
from primbench.results.record import Record
from primbench.results.step_explained import Explained, Number, SumRow
from primbench.spec.case import Case
from primbench.spec.placement import Placement

from .pages import Tag, check

if TYPE_CHECKING:
    from click.testing import Result

REFERENCE = Path(__file__).parents[3] / "suites/reference"
STUDIES = REFERENCE / "studies"


def report(invoke: Callable[..., Result], *files: Path) -> str:
    result = invoke("report", *files, "-o", "-")
    assert (0, "") == (result.exit_code, result.stderr)
    return result.stdout


def titles(found: Tag, name: str) -> list[str]:
    return [heading.text for heading in found.all(name)]


def test_study_is_answered_drawn_and_told_again(invoke: Callable[..., Result]) -> None:
    html = report(invoke, STUDIES / "h200-host-docker-podman-cupy.jsonl.xz")
    found = check(html)
    (answer,) = found.all("h1")
    few = "14 of 18 cases told only of these runs"
    assert f"Nothing is slower in any of 18 cases, within margins of 1.0% to 5.0%; {few}." == answer.text
    assert "fine" == answer.attributes["class"]
    assert titles(found, "h2")[:4] == [
        "Verdicts",
        "Process by process",
        "Slow calls",
        "What differs between the places",
    ]
    drawn = titles(found, "h3")
    assert {"docker-profile against host", "podman-profile against host", "launch on cupy cuda:0: slow calls"} <= {
        *drawn
    }
    verdicts = found.all("figure")[0].all("svg")[0].text
    assert verdicts.count("= equivalent") == 9
    assert "primbench study gpu-study.toml" in found.all("pre")[-1].text
    assert len(html) < 600_000


def test_only_what_is_one_is_a_warning(invoke: Callable[..., Result], tmp_path: Path) -> None:
    """Whatever arms are called: of one called GPU it is said that it is like itself."""
    text = lzma.decompress((STUDIES / "h200-host-docker-podman-cupy.jsonl.xz").read_bytes()).decode()
    path = tmp_path / "study.jsonl"
    path.write_text(re.sub(r'"(name|arm)":"host( \(again\))?"', r'"\1":"GPU\2"', text))
    verdicts = check(report(invoke, path)).all("section")[0]
    looks = {each.text: each.attributes.get("class") for each in verdicts.all("p")}
    (look,) = [look for words, look in looks.items() if words.startswith("GPU against itself: equivalent in")]
    assert "note" == look
    assert "warning" not in looks.values()


def test_training_set_is_small_and_shows_launches_and_the_roofline(invoke: Callable[..., Result]) -> None:
    html = report(invoke, REFERENCE / "h200-deepbench-training-float16-cupy.jsonl.xz")
    found = check(html)
    assert len(html) < 3_000_000
    assert titles(found, "h1")[0].startswith(
        "1803 of 1908 runs of 636 cases were measured on NVIDIA H200; 105 skipped; "
    )
    drawn = titles(found, "h3")
    assert {"What a call of gemm spends its time on", "Roofline of cuda:0, float16 ieee"} <= set(drawn)
    assert (
        "Drawn are 16 of 480 cases"
        in found.all("figcaption")[drawn.index("What a call of gemm spends its time on")].text
    )


def test_copies_are_drawn_by_size_with_their_fit(invoke: Callable[..., Result]) -> None:
    found = check(report(invoke, REFERENCE / "h200-memcpy-cupy.jsonl.xz"))
    at = titles(found, "h3").index("memcpy: bytes a second by size")
    figure = found.all("figure")[at]
    headings = [heading.text for heading in figure.all("th")]
    assert ["what", "size", "time", "by the fit", "bytes a second"] == headings
    assert len([path for path in figure.all("path") if "curve" in path.attributes["class"]]) == 4


def test_nodes_are_answered_first(invoke: Callable[..., Result], tmp_path: Path) -> None:
    path = tmp_path / "nodes.html"
    assert 0 == invoke("numa", "--rounds", 1, "--bytes", "64KiB", "--device", "cpu", "-q", "--report", path).exit_code
    answer = titles(check(path.read_text(encoding="utf-8")), "h1")[0]
    assert re.search(r"NUMA node|nearest|is nearest to node", answer)
    assert not answer.endswith("..")


def test_finding_without_pictures_has_its_words_and_tables() -> None:
    rows = [["a|b", "<i>"], ["c", "d" * 40]]
    table = dataclasses.replace(Table.of_rows("two", ["node", ""], rows, [Note("slow", "marked")]), shared=["nodes"])
    sections = [Section("", [table]), Section("", [Note("last")])]
    made = Document("primbench", Note("One node is slower."), lambda: sections, beside=[Note("It is a|b.")])
    written = known()["report"].write(made)
    found = check(str(written))
    assert ["One node is slower."] == titles(found, "h1")
    assert ["node", "what", "two, nodes"] == titles(found, "th") + titles(found, "caption")
    assert ["a|b", "<i>", "c", "d" * 40] == titles(found, "td")
    assert ["primbench", "It is a|b.", "! slow", "last"] == titles(found, "p")


def test_a_page_of_a_run_begins_with_an_overview(invoke: Callable[..., Result], measured: tuple[Path, Result]) -> None:
    found = check(report(invoke, measured[0]))
    assert "Overview" == titles(found, "h2")[0]
    assert "By primitive" == titles(found, "caption")[0]


def test_a_page_of_several_files_begins_with_machines_and_curves(invoke: Callable[..., Result], tmp_path: Path) -> None:
    one, other = (tmp_path / f"{name}.jsonl.xz" for name in ("one", "other"))
    for path in (one, other):
        shutil.copy(REFERENCE / "h200-memcpy-cupy.jsonl.xz", path)
    found = check(report(invoke, one, other))
    assert "Overview" == titles(found, "h2")[0]
    assert "By machine" == titles(found, "caption")[0]
    rows = [[cell.text for cell in row.all("td")] for row in found.all("table")[0].all("tr")]
    assert ["one.jsonl.xz", "other.jsonl.xz"] == [row[0] for row in rows if row]
    assert "memcpy: bytes a second by size" == titles(found, "h3")[0]
    curves = {each.text.partition(": ")[0] for each in found.all("figure")[0].all("text") if ": " in each.text}
    assert {"one.jsonl.xz", "other.jsonl.xz"} == curves


def elsewhere(record: Record, thread: int, memory: int) -> Record:
    placement = Placement(cpu_node=thread, mem_nodes=(memory,), mem_policy="bind")
    return replace(record, case=replace(record.case, placement=placement))


def test_nodes_become_a_matrix_and_samples_over_time_lanes(measured: tuple[Path, Result]) -> None:
    results = read(measured[0])
    record = next(each for each in results.records if each.status == "ok")
    assert record.measurement is not None
    series = {
        "host_rss_bytes": Series(times_s=[n / 10 for n in range(500)], values=[2.0**20 * n for n in range(500)]),
        "sm_active_fraction": Series(times_s=[0.0, 1.0], values=[0.25, 0.5]),
    }
    used = OverTime(series=series, interval_s=0.1, cost_s=0.001)
    in_second = replace(record.case, process=1)
    used_there = replace(record.measurement, over_time=used, phases_s={"inputs": 0.5})
    sampled = replace(record, case=in_second, measurement=used_there)
    records = [*(elsewhere(record, thread, memory) for thread in (0, 1) for memory in (0, 1)), sampled]
    found = check(html.write(measured_page(replace(results, records=records))))
    drawn = titles(found, "h3")
    (matrix,) = [found.all("figure")[at] for at, title in enumerate(drawn) if title.endswith(": by node")]
    assert 4 == len(matrix.all("tbody")[0].all("tr"))
    (lanes,) = [found.all("figure")[at] for at, title in enumerate(drawn) if title.endswith(", process 1: over time")]
    assert "Of 500 samples, the largest of each of 120 windows of time is drawn." in lanes.all("figcaption")[0].text
    assert {"499 MiB", "50.0%"} <= {cell.text for cell in lanes.all("td")}


def test_slow_calls_of_every_backend_and_process_are_drawn(measured: tuple[Path, Result]) -> None:
    parameters = build("launch", {"call": "getppid"}).parameters()
    calls = Samples(samples_s=[1e-6] * 99 + [1e-4], calls_per_sample=1, taken_by="host clock", stopped="count")
    records = [
        Record(
            case=Case(primitive="launch", parameters=parameters, backend=backend, device="cpu", process=process),
            status="ok", measurement=Measurement(wall_s=calls), started_utc="", duration_s=1.0,
        )
        for backend, process in [("numpy", 0), ("numpy", 1), ("torch", 0)]
    ]  # fmt: skip
    found = check(html.write(measured_page(replace(read(measured[0]), records=records))))
    slow = found.all("figure")[titles(found, "h3").index("Slow calls of launch")]
    names = ["getppid on numpy cpu, row 1", "getppid on numpy cpu, row 2", "getppid on torch cpu"]
    assert [f"launch {name}" for name in names] == titles(slow, "th")[1:]


def test_step_ends_in_what_its_parts_leave_unexplained() -> None:
    rows = [
        SumRow(name="gemm", seconds=8e-3, calls=12),
        SumRow(name="launches", seconds=3e-3),
        SumRow(name="unexplained", seconds=-1e-3),
    ]
    whole = Number(name="step", parts_s=11e-3, step_s=10e-3)
    steps = [("A step", Explained(device="cuda:0", numbers=[whole], rows=rows, calls=12))]
    found = check(html.write(explained.page(steps)))
    assert [
        "The GPU's kernels bound this step: the GPU computes 8.00 ms of 10.0 ms, gemm most, for 8.00 ms; without any "
        "wait it would still take 8.00 ms: make the kernels faster."
    ] == titles(found, "h1")
    cells = [[cell.text for cell in row.all("td")] for row in found.all("figure")[0].all("tbody")[0].all("tr")]
    assert ["unexplained", "-", "-1.00 ms", "-10.0%"] == cells[-1]


def failed(results: Results) -> Results:
    records = [replace(each, status="failed", measurement=None, reason="crashed") for each in results.records]
    return replace(results, records=records)


def test_file_of_failures_says_so(measured: tuple[Path, Result]) -> None:
    found = check(html.write(measured_page(failed(read(measured[0])))))
    assert titles(found, "h1")[0].startswith("0 of 3 cases were measured")
    assert "failed: crashed" in {cell.text for cell in found.all("td")}


def test_file_without_records_says_so(
    invoke: Callable[..., Result], measured: tuple[Path, Result], tmp_path: Path
) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_bytes(encode(read(measured[0]).header))
    found = check(report(invoke, path))
    assert ["Nothing was measured: the file holds no records."] == titles(found, "h1")


def luminance(colour: str) -> float:
    """Relative, of sRGB: WCAG 2.2."""
    digits = colour if len(colour) == 6 else "".join(2 * digit for digit in colour)
    linear = [
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4
        for share in (int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4))
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def mixed(one: str, other: str, share: float) -> str:
    pairs = [(int(one[at : at + 2], 16), int(other[at : at + 2], 16)) for at in (0, 2, 4)]
    return "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in pairs)


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_words_stand_out_from_what_is_behind_them_by_day_and_by_night() -> None:
    """4.5 is WCAG's level AA for text of any size."""
    light, dark = (dict(re.findall(r"--(\w+):#(\w+)", part)) for part in STYLE.split("@media", 2)[:2])
    assert light.keys() == dark.keys()
    for colours in (light, dark):
        behind = {colours[name] for name in ("paper", "soft", "band")}
        for name in ("ink", "quiet", "slower", "faster", "same", "open"):
            assert all(contrast(colours[name], each) >= 4.5 for each in behind), (name, colours[name])
        assert contrast(colours["ink"], mixed(colours["heat"], colours["band"], HOTTEST)) >= 4.5
        assert all(contrast(colours[f"s{number}"], colours["paper"]) >= 4.5 for number in range(6))


HOSTILE = "</script><script>alert(1)</script><svg onload=alert(2)>\x1b[2J\x00\u202e&amp;]]><!--"


def hostile(results: Results) -> Results:
    """Its words close what they may stand in."""
    records = [
        replace(each, reason=HOSTILE, case=replace(each.case, labels={HOSTILE: HOSTILE, "set": HOSTILE}, arm=HOSTILE))
        for each in results.records
    ]
    node = Node(id=0, cpus=[0], has_memory=True, allowed=True)
    environment = replace(results.header.environment, nodes=[node], missing={HOSTILE: HOSTILE})
    header = replace(results.header, command=["primbench", HOSTILE], environment=environment)
    return replace(results, header=header, records=records, workers=[])


def test_words_of_a_file_are_no_markup(measured: tuple[Path, Result]) -> None:
    text = html.write(measured_page(hostile(read(measured[0])), title=HOSTILE))
    found = check(text)
    assert 1 == len(found.all("script"))
    assert "<script>alert(1)</script>" in found.all("title")[0].text
    assert not {"\x1b", "\x00", "\u202e"} & set(text)


def test_every_measuring_command_writes_one(invoke: Callable[..., Result], tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    result = invoke("gemm", "-m", 8, "-n", 8, "-k", 8, "--backend", "numpy", "--max-time", "5ms", "--report", path)
    assert 0 == result.exit_code
    assert titles(check(path.read_text(encoding="utf-8")), "h1")[0].startswith("1 of 1 cases were measured")


def test_files_are_set_beside_the_first(
    invoke: Callable[..., Result], measured: tuple[Path, Result], tmp_path: Path
) -> None:
    others = [tmp_path / name for name in ("second.jsonl", "third.jsonl")]
    for path in others:
        path.write_bytes(measured[0].read_bytes())
    found = check(report(invoke, measured[0], *others))
    name = measured[0].name
    (answer,) = titles(found, "h1")
    assert f"2 against {name}: not all is told of second.jsonl, third.jsonl." == answer
    told = [each.text for each in found.all("p") if each.attributes.get("class") == "warning"]
    for path in others:
        assert 1 == sum(f"{path.name} took 1.000 times as long as {name} in " in each for each in told)
    assert 2 == sum(title.endswith(": Verdicts") for title in titles(found, "h2"))


def test_study_of_failures_says_what_became_of_it(invoke: Callable[..., Result], tmp_path: Path) -> None:
    whole, path = read(STUDIES / "h200-host-docker-podman-cupy.jsonl.xz"), tmp_path / "failed.jsonl"
    path.write_bytes(
        b"".join([encode(whole.header), *map(encode, [*whole.workers]), *map(encode, failed(whole).records)])
    )
    found = check(report(invoke, path))
    told = "Nothing was compared. 0 of 272 runs of 9 cases were measured on NVIDIA H200; 272 failed."
    assert [told] == titles(found, "h1")
    assert "host failed: crashed" in found.all("section")[0].text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--baseline", "host"], "--baseline host: FILE holds no two arms"),
        (["FILE", "--baseline", "host"], "--baseline and several files: the first file is the baseline"),
    ],
)
def test_what_cannot_be_is_refused(
    refusal: Callable[..., str], measured: tuple[Path, Result], tmp_path: Path, arguments: list[str], said: str
) -> None:
    name = str(measured[0])
    words = [name if word == "FILE" else word for word in arguments]
    assert said.replace("FILE", name) in refusal("report", name, *words, "-o", tmp_path / "page.html")


def test_nothing_is_overwritten_that_was_not_named(
    measured: tuple[Path, Result], refusal: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "report.html").write_text("somebody's")
    assert "report.html: exists; replace it with --overwrite" == refusal("report", measured[0])
    assert "somebody's" == (tmp_path / "report.html").read_text()
