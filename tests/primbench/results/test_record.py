from __future__ import annotations

import codecs
import contextlib
import gzip
import lzma
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from primbench.environment import fingerprint
from primbench.errors import FileError, InvalidRequest, OutputError
from primbench.measurement import Measurement, Samples, Trace
from primbench.measurement.over_time import OverTime, Series
from primbench.measurement.readings import GpuReading, HostReading
from primbench.numa.placement import EffectivePlacement
from primbench.results import file as results_file
from primbench.results import record
from primbench.results.file import Results, encode, read
from primbench.results.record import Header, Record, Worker
from primbench.results.writer import Writer
from primbench.spec.case import Case
from primbench.spec.method import Method
from primbench.spec.placement import Placement
from primbench.system import jsonlines

PLACE = fingerprint.collect(gpus=False)
HEADER = Header(
    schema_version=record.SCHEMA_VERSION,
    command=["primbench", "gemm"],
    started_utc="2026-01-02T03:04:05.678+00:00",
    labels={"where": "here"},
    environment=PLACE,
)
WORKER = Worker(
    worker=0,
    pid=4321,
    backend="numpy",
    device="cpu",
    environment=PLACE,
    placement=EffectivePlacement(cpus=[0], memory_policy="default", memory_nodes=[], rung="none"),
    versions={"numpy": "2"},
)
PARAMETERS: dict[str, Any] = {"m": 1, "n": 2, "k": 3, "bias": False}
CASE = Case(primitive="gemm", parameters=PARAMETERS, backend="numpy", device="cpu")
RECORD = Record(case=CASE, status="failed", reason="no luck", worker=0, started_utc="2026", duration_s=1.5)
SECCOMP = str(Path(__file__).parents[2] / "seccomp.py")
WHOLE = encode(HEADER) + encode(WORKER) + encode(RECORD)

texts = st.text(max_size=20)
floats = st.floats(allow_nan=False, allow_infinity=False)
counts = st.integers(0, 2**63 - 1)
reasons = st.dictionaries(texts, texts, max_size=3)
amounts, seconds = st.floats(-1e30, 1e30), st.floats(0, 1e9)
times = st.lists(st.floats(0, 1e6), min_size=1, max_size=5)
samples = st.builds(Samples, samples_s=times, calls_per_sample=counts, taken_by=texts)
traces = st.builds(Trace, busy_s=samples, kernels_per_call=amounts, kernels=st.lists(texts, max_size=3))
gpus = st.builds(GpuReading, sm_clock_hz=st.none() | amounts, energy_j=st.none() | amounts, missing=reasons)
hosts = st.builds(
    HostReading,
    duration_s=seconds,
    cpu_time_s=seconds,
    voluntary_switches=counts,
    involuntary_switches=counts,
    missing=reasons,
)
curves = st.lists(st.tuples(seconds, amounts), min_size=1, max_size=5).map(
    lambda points: Series(times_s=[time_s for time_s, _ in points], values=[value for _, value in points])
)
over_times = st.builds(
    OverTime,
    series=st.dictionaries(texts, curves, max_size=3),
    interval_s=seconds,
    cost_s=seconds,
    host_peak_bytes=st.none() | counts,
    missing=reasons,
)
measurements = st.builds(
    Measurement,
    device_s=st.none() | samples,
    batch_s=st.none() | samples,
    trace=st.none() | traces,
    missing=reasons,
    verified=st.none() | st.booleans(),
    error=st.none() | amounts,
    flop=st.none() | counts,
    phases_s=st.dictionaries(texts, seconds, max_size=3),
    gpu=st.none() | gpus,
    host=st.none() | hosts,
    over_time=st.none() | over_times,
)
methods = st.builds(
    Method, cache=st.sampled_from(["hot", "cold"]), seed=counts, check=st.booleans(), over_time=st.booleans()
)
placements = st.builds(
    Placement,
    cpus=st.none() | st.lists(st.integers(0, 999), min_size=1, max_size=3).map(tuple),
    numa_node=st.none() | st.just("auto") | st.integers(0, 9),
)
cases = st.builds(
    Case,
    primitive=texts,
    parameters=st.dictionaries(texts, st.booleans() | st.integers(-(2**63), 2**63 - 1) | floats | texts, max_size=5),
    backend=texts,
    device=texts,
    method=methods,
    placement=placements,
    labels=reasons,
    process=counts,
)
records = st.builds(
    Record,
    case=cases,
    reason=st.none() | texts,
    measurement=st.none() | measurements,
    worker=st.none() | counts,
    started_utc=texts,
    duration_s=seconds,
)


def written(folder: Path, content: bytes) -> Path:
    path = folder / "results.jsonl"
    path.write_bytes(content)
    return path


@contextmanager
def file_of(content: bytes) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield written(Path(folder), content)


def refusal(path: Path) -> str:
    with pytest.raises(FileError) as caught:
        read(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    return message.removeprefix(str(path))


def test_a_whole_file_is_read_in_the_order_of_its_lines(tmp_path: Path) -> None:
    assert Results(header=HEADER, workers=[WORKER], records=[RECORD]) == read(written(tmp_path, WHOLE))


@settings(max_examples=60, deadline=None)
@given(st.lists(records, max_size=4))
def test_what_is_written_is_read_back_equal(made: list[Record]) -> None:
    with file_of(encode(HEADER) + b"".join(map(encode, made))) as path:
        assert made == read(path).records


@pytest.fixture(scope="module")
def published() -> jsonschema.Draft202012Validator:
    """The schema; that it is one, tests/primbench/cli/test_schema.py holds."""
    return jsonschema.Draft202012Validator(results_file.schema())


@settings(max_examples=60, deadline=None)
@given(made=records)
def test_every_record_is_one_line_that_follows_the_published_schema(
    made: Record, published: jsonschema.Draft202012Validator
) -> None:
    line = encode(made)
    assert line.index(b"\n") == len(line) - 1
    published.validate(msgspec.json.decode(line))


@pytest.mark.parametrize("line", [HEADER, WORKER, RECORD], ids=["header", "worker", "record"])
def test_the_schema_refuses_a_line_without_a_part(
    line: Header | Worker | Record, published: jsonschema.Draft202012Validator
) -> None:
    spoilt = msgspec.json.decode(encode(line))
    published.validate(spoilt)
    del spoilt["environment" if not isinstance(line, Record) else "case"]
    with pytest.raises(jsonschema.ValidationError):
        published.validate(spoilt)


@settings(max_examples=60, deadline=None)
@given(cases)
def test_the_key_tells_cases_apart_whatever_the_order_of_their_fields(case: Case) -> None:
    reordered = replace(case, parameters=dict(reversed(case.parameters.items())))
    again = msgspec.json.decode(msgspec.json.encode(case), type=Case)
    assert {case.key()} == {reordered.key(), again.key()}
    others = [replace(case, process=case.process + 1), replace(case, labels=case.labels | {"more": "x" * 21})]
    assert case.key() not in {other.key() for other in others}


@pytest.mark.parametrize(
    ("primitive", "device", "tried"),
    [("model", "cpu", False), ("model", "cuda:1", True), ("aten", "cuda:0", True), ("gemm", "cuda:0", None)],
)
def test_cudnn_tried_its_algorithms_before_there_was_a_field_for_it(
    tmp_path: Path, primitive: str, device: str, tried: bool | None
) -> None:
    case = Case(primitive=primitive, parameters={"dtype": "float32"}, backend="torch", device=device)
    now = replace(case, parameters=case.parameters | {"cudnn_benchmark": not tried})
    path = tmp_path / "results.jsonl"
    path.write_bytes(b"".join(encode(each) for each in (HEADER, replace(RECORD, case=case), replace(RECORD, case=now))))
    found = [each.case.parameters.get("cudnn_benchmark") for each in read(path).records]
    assert [tried, not tried] == found


def test_latest_keeps_the_last_record_of_a_case_at_its_first_place() -> None:
    other = replace(RECORD, case=replace(CASE, process=1))
    again = replace(RECORD, status="ok", reason=None)
    results = Results(header=HEADER, workers=[], records=[RECORD, other, again])
    assert [again, other] == results.latest()


def test_a_case_of_fields_that_make_no_problem_says_so() -> None:
    with pytest.raises(InvalidRequest, match="gemm has no field 'q'"):
        replace(CASE, parameters={"q": 1}).problem()


HEAD, LINE = encode(HEADER), encode(RECORD)
DEEP = b"[" * 1_000_000 + b"]" * 1_000_000  # Python 3.14 goes 100,000 deep
NO_RESULTS = "not a primbench results file, as -o writes it: its first line is no header"
HOSTILE = {
    "empty": (b"", "not a primbench results file: it is empty"),
    "a blank line": (b"\n", NO_RESULTS),
    "binary": (bytes(range(256)) * 8, NO_RESULTS),
    "UTF-16": (WHOLE.decode().encode("utf-16"), "no header|cut off"),
    "another tool's JSON": (b'{"kind": "run", "schema_version": 1}\n', NO_RESULTS),
    "null": (b"null\n", NO_RESULTS),
    "deep from the start": (DEEP + b"\n", NO_RESULTS),
    "no header": (LINE, NO_RESULTS),
    "two headers": (HEAD + LINE + HEAD, ":3: a second header"),
    "half a header": (HEAD.replace(b'"command"', b'"comment"'), ":1: .*missing required field `command`"),
    "cut": (WHOLE[:-3], ":3: cut off .*head -n 2 .*results.jsonl > whole.jsonl"),
    "one line of something else": (b"\x89PNG\r" + bytes(64), ":1: no file of primbench's: it does not begin with"),
    "cut in the header": (HEAD[:-3], ":1: cut off in the middle of its first line"),
    "deep": (HEAD + LINE.replace(b'"status"', b'"more":' + DEEP + b',"status"'), ":2: .*(recursion|Stack overflow)"),
    "NaN": (HEAD + LINE.replace(b"1.5", b"NaN"), ":2: .*malformed"),
    "infinity": (HEAD + LINE.replace(b"1.5", b"1e999"), ":2: .*out of range"),
    "a time beyond all": (HEAD + LINE.replace(b"1.5", b"1e308"), ":2: .*<= 1000000000.0"),
    "a number of 20 digits": (HEAD + LINE.replace(b'"worker":0', b'"worker":99999999999999999999'), ":2: .*worker"),
    "a number for a list": (HEAD + LINE.replace(b'{"m":1,"n":2,"k":3,"bias":false}', b"17"), r":2: .*parameters"),
    "an unknown status": (HEAD + LINE.replace(b'"failed"', b'"odd"'), r":2: .*status"),
    "an unknown kind": (HEAD + LINE.replace(b'"record"', b'"study"'), r":2: .*kind"),
    "a line end in a word": (HEAD + LINE.replace(b'"record"', b'"re\\ncord"'), ":2: not a line"),
    "half a surrogate pair": (HEAD + LINE.replace(b"numpy", b"\\ud800"), ":2: .*surrogate"),
    "no UTF-8": (HEAD + LINE.replace(b"numpy", b"\xff"), ":2: .*(?i:utf-8)"),
    "a method out of bounds": (HEAD + LINE.replace(b":0.005", b":5"), ":2: .*max_noise=5.0"),
    "a placement out of bounds": (HEAD + LINE.replace(b'"cpus":null', b'"cpus":[-1]'), ":2: .*cpus="),
    "a blank line within": (
        HEAD + b"\n" + LINE,
        ":2: not a line .*; to do without it, .*: sed -i.bak 2d .*results.jsonl",
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_file_that_is_not_as_it_should_be_is_refused_in_one_line(tmp_path: Path, kind: str) -> None:
    content, expected = HOSTILE[kind]
    with pytest.raises(FileError, match=expected):
        read(written(tmp_path, content))
    refusal(tmp_path / "results.jsonl")


def test_a_newer_schema_is_told_from_damage(tmp_path: Path) -> None:
    newer = b'{"kind":"header","schema_version":999,"place":{}}\n{"kind":"comparison"}\n'
    expected = f": written with schema 999, this primbench reads up to {record.SCHEMA_VERSION}: upgrade primbench"
    assert expected == refusal(written(tmp_path, newer))


def test_a_file_of_the_first_day_is_told_from_damage(tmp_path: Path) -> None:
    first = b'{"kind":"header","schema_version":1,"environment":{"machine":"x86_64","kernel":"6.18"}}\n'
    assert ": recorded on 20 November 2026, the first day, " in refusal(written(tmp_path, first))


ROOT = Path(__file__).parents[3]
RECORDED = [*(ROOT / "suites/reference").rglob("*.jsonl*"), *(ROOT / "tests/primbench/fixtures").rglob("*.jsonl*")]


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_every_recorded_file_is_read(path: Path) -> None:
    """Whatever primbench wrote it, since the second day."""
    found = read(path)
    assert {each.worker for each in found.records} - {None} <= {each.worker for each in found.workers}
    assert any(each.measurement is not None for each in found.records)


def test_an_endless_line_is_refused_after_64_mib(tmp_path: Path) -> None:
    assert ":1: longer than 64 MiB: not a line of a results file" == refusal(Path("/dev/zero"))
    path = written(tmp_path, HEAD)
    os.truncate(path, 100 * 2**20)
    assert ":2: longer than 64 MiB: not a line of a results file" == refusal(path)


def test_a_long_word_of_the_file_is_not_repeated_whole(tmp_path: Path) -> None:
    long = HEAD + b'{"kind":"' + b"a" * 10**6 + b'"}\n'
    assert len(refusal(written(tmp_path, long))) < 400


def test_a_file_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    assert ": Is a directory" == refusal(tmp_path)
    assert ": No such file or directory" == refusal(tmp_path / "none")


@settings(max_examples=200, deadline=None)
@given(at=st.integers(0, len(WHOLE)), length=st.integers(0, 40), put=st.binary(max_size=20))
def test_damage_anywhere_is_read_or_refused_but_never_another_exception(at: int, length: int, put: bytes) -> None:
    with file_of(WHOLE[:at] + put + WHOLE[at + length :]) as path, contextlib.suppress(FileError):
        read(path).latest()


@pytest.mark.parametrize(("program", "compress"), [("xz", lzma.compress), ("gzip", gzip.compress)])
def test_a_compressed_file_is_read_and_half_of_one_refused(
    tmp_path: Path, program: str, compress: Callable[[bytes], bytes]
) -> None:
    compressed = compress(WHOLE)
    (tmp_path / "kept.jsonl.xz").write_bytes(compressed)
    (tmp_path / "half.jsonl.xz").write_bytes(compressed[: len(compressed) // 2])
    (tmp_path / "plain.jsonl.xz").write_bytes(WHOLE)
    (tmp_path / "plain.jsonl").write_bytes(codecs.BOM_UTF8 + WHOLE)
    assert read(tmp_path / "plain.jsonl") == read(tmp_path / "kept.jsonl.xz") == read(tmp_path / "plain.jsonl.xz")
    with pytest.raises(FileError, match=rf"not a whole file of {program}: "):
        read(tmp_path / "half.jsonl.xz")
    with pytest.raises(FileError, match=rf"is compressed, and cannot be added to: {program} --decompress "):
        Writer(tmp_path / "kept.jsonl.xz", None)


def test_a_small_compressed_file_that_holds_far_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "small.jsonl.xz"
    path.write_bytes(lzma.compress(HEAD + bytes(100 * 2**20), preset=0))
    assert ":2: longer than 64 MiB: not a line of a results file" == refusal(path)
    monkeypatch.setattr(jsonlines, "MAX_UNPACKED_BYTES", 2**20)
    path.write_bytes(lzma.compress(HEAD + LINE * (2**20 // len(LINE))))
    assert refusal(path).startswith(": holds more than 1 MiB: if it is what you expect, xz --decompress ")


def test_line_ends_of_another_system_are_read(tmp_path: Path) -> None:
    assert [RECORD] == read(written(tmp_path, WHOLE.replace(b"\n", b"\r\n"))).records


def test_a_writer_makes_a_file_and_another_adds_to_it(tmp_path: Path) -> None:
    path = tmp_path / "new.jsonl"
    with closing(Writer(path, HEADER)) as writer:
        writer.write(WORKER)
        assert HEAD + encode(WORKER) == path.read_bytes()
    with closing(Writer(path, None)) as writer:
        writer.write(RECORD)
    assert WHOLE == path.read_bytes()


def test_a_file_has_one_writer_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "new.jsonl"
    with closing(Writer(path, HEADER)), pytest.raises(FileError, match=f"process {os.getpid()} is writing to it"):
        Writer(path, None)
    Writer(path, None).close()


LOSSES: dict[str, Callable[[Path], object]] = {
    "was removed or renamed": lambda path: path.unlink(),
    "was replaced by another file": lambda path: Path(shutil.copy(path, path.with_name("copy"))).replace(path),
    "was cut": lambda path: os.truncate(path, 10),
    "was added to by another program": lambda path: path.write_bytes(path.read_bytes() + b"\n"),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_writer_notices_what_others_do_to_its_file(tmp_path: Path, loss: str) -> None:
    path = written(tmp_path, HEAD)
    with closing(Writer(path, None)) as writer:
        writer.write(WORKER)
        assert writer.loss() is None
        LOSSES[loss](path)
        assert loss == writer.loss()


def test_a_writer_makes_no_file_over_another(tmp_path: Path) -> None:
    path = written(tmp_path, b"precious")
    with pytest.raises(FileError, match="exists; name another file"):
        Writer(path, HEADER)
    assert b"precious" == path.read_bytes()


@pytest.mark.parametrize(("path", "header"), [("none", None), ("none/none", HEADER), ("", None)])
def test_a_writer_that_cannot_open_its_file_says_so(tmp_path: Path, path: str, header: Header | None) -> None:
    with pytest.raises(FileError, match=r"No such file|Is a directory"):
        Writer(tmp_path / path, header)
    assert [] == list(tmp_path.iterdir())


@contextmanager
def files_of_at_most(size_bytes: int) -> Iterator[None]:
    """The kernel lets no file of this process grow larger: the part that fits is written, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_line_that_does_not_fit_is_taken_back(tmp_path: Path) -> None:
    path = written(tmp_path, HEAD + encode(WORKER))
    with closing(Writer(path, None)) as writer:
        with (
            files_of_at_most(path.stat().st_size + 100),
            pytest.raises(OutputError, match=r"File too large; it holds every case finished before this one"),
        ):
            writer.write(RECORD)
        assert HEAD + encode(WORKER) == path.read_bytes()
        writer.write(RECORD)  # once there is room again
    assert WHOLE == path.read_bytes()


def test_a_line_that_cannot_be_taken_back_is_told_with_the_command_that_does(tmp_path: Path) -> None:
    """As on a file that may only grow (chattr +a), on a disk that is full."""
    (tmp_path / "it's").mkdir()
    path = written(tmp_path / "it's", HEAD + encode(WORKER))
    code = f"""
import resource
from pathlib import Path
from primbench.errors import OutputError
from primbench.results.file import read
from primbench.results.writer import Writer
worker = read({str(path)!r}).workers[0]
writer = Writer({str(path)!r}, None)
resource.setrlimit(resource.RLIMIT_FSIZE, ({path.stat().st_size + 100},) * 2)
try:
    writer.write(worker)
except OutputError as error:
    print(error)
"""
    denied = [sys.executable, "-P", SECCOMP, "--deny", "ftruncate", "--", sys.executable, "-P", "-c", code]
    said = subprocess.run(denied, capture_output=True, text=True, check=True).stdout
    assert len(HEAD + encode(WORKER)) + 100 == path.stat().st_size
    reason, command = said.split("; to keep the whole lines before it: ")
    assert f"{path}: its last line is cut off, and cannot be taken back: Operation not permitted" == reason
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    assert HEAD + encode(WORKER) == (tmp_path / "whole.jsonl").read_bytes()


def test_a_header_that_does_not_fit_leaves_no_file(tmp_path: Path) -> None:
    with files_of_at_most(100), pytest.raises(OutputError, match="File too large; nothing was measured"):
        Writer(tmp_path / "new.jsonl", HEADER)
    assert [] == list(tmp_path.iterdir())


def test_an_interrupt_within_a_line_takes_it_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    really_write = os.write

    def write_a_part_and_interrupt(file: int, text: bytes) -> int:
        """A fake: the kernel splits a write to a file too rarely to wait for it."""
        really_write(file, text[:10])
        signal.raise_signal(signal.SIGINT)
        return 10

    path = written(tmp_path, HEAD)
    monkeypatch.setattr(os, "write", write_a_part_and_interrupt)
    with closing(Writer(path, None)) as writer, pytest.raises(KeyboardInterrupt):
        writer.write(RECORD)
    assert HEAD == path.read_bytes()
