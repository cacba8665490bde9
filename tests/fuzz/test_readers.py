"""Every reader of what others wrote, given what nobody should write: read, or refused in one line, in little time.

PRIMBENCH_FUZZ=N tries N times as many inputs. What once ended otherwise is in corpus.json, and among the examples.
"""

from __future__ import annotations

import functools
import json
import lzma
import os
import random
import shutil
import socket
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from primbench import suites, units
from primbench.baselines.against import parse as yardstick
from primbench.compare import pairs
from primbench.distributed.channel import Channel
from primbench.doctor import against
from primbench.doctor.place import Place, look, read
from primbench.doctor.table import examine
from primbench.environment.difference import difference
from primbench.errors import InvalidRequest, PrimbenchError
from primbench.report import comparison as compared
from primbench.report import doctor, export, table, text
from primbench.report import environment as places
from primbench.report.formats import known
from primbench.results import file as results_file
from primbench.results.file import Results
from primbench.spec.arm import arm_of, format_arm, parse_arm
from primbench.spec.case import Case
from primbench.spec.method import Method
from primbench.spec.placement import Placement
from primbench.system.files import parse_cpu_list, sysfs_address
from primbench.system.jsonlines import UNREADABLE
from primbench.workers import protocol

ROOT = Path(__file__).parents[2]
CORPUS = json.loads(Path(__file__).with_name("corpus.json").read_text())
TIMES = int(os.environ.get("PRIMBENCH_FUZZ", "1"))
LONGEST_MS = 20_000  # on a busy machine; what never ends is what it is for
REFERENCE = ROOT / "suites/reference/h200-allreduce-4-ranks-torch.jsonl"
STUDY = ROOT / "suites/reference/studies/h200-ablation-docker-launch-cupy.jsonl.xz"


def inputs(count: int) -> settings:
    return settings(
        max_examples=count * TIMES,
        deadline=LONGEST_MS,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


def refused_in_a_line(read: Callable[[], object]) -> None:
    """Or not refused."""
    try:
        read()
        return
    except PrimbenchError as error:
        refusal = str(error)
    assert len(refusal.splitlines()) <= 1, refusal


# Texts.

numbers = (
    st.integers(-(10**25), 10**25).map(str) | st.floats().map(str) | st.sampled_from(["9" * 5000, "1e999", "٣", ""])
)
words = st.sampled_from(
    ["host", "docker", "podman:", "cpus=", "cpuset=", "memory=", "env.A=", "image=", "seccomp=", "name=", ",", "+", ":",
     "-", "=", "0-3", "KiB", "GB", "B", "%", "us", "ms", "h", ".", "cuda:", "auto", "\0", "\n", "\x1b[31m", "\ud800"]
)  # fmt: skip
texts = st.lists(words | numbers | st.text(max_size=8), max_size=8).map("".join)
TEXTS: dict[str, Callable[[str], object]] = {
    "duration": units.parse_duration,
    "fraction": units.parse_fraction,
    "size": units.parse_size,
    "counts": units.parse_counts,
    "sizes": lambda text: units.parse_counts(text, "B"),
    "CPU list": parse_cpu_list,
    "PCI address": sysfs_address,
    "arm": lambda text: format_arm(parse_arm(text)),
}


@pytest.mark.parametrize("kind", TEXTS)
@inputs(150)
@given(text=texts)
@example(text="1" * 5000)
@example(text="nan")
@example(text="\x1e:")
@example(text="1:99999999999999999999:2")
def test_texts(kind: str, text: str) -> None:
    refused_in_a_line(partial(TEXTS[kind], text))


# TOML.

BIG = "0x" + "f" * 5000
scalars = st.one_of(
    numbers, words.map(json.dumps), st.text(max_size=5).map(json.dumps),
    st.sampled_from([BIG, f"-{'9' * 400}", "nan", "-inf", "1e308", "true", "1979-05-27", "07:32:00", "{}", "[[1]]"]),
)  # fmt: skip
values = scalars | st.lists(scalars, max_size=3).map(lambda all_: f"[{', '.join(all_)}]")
keys = st.sampled_from(
    ["m", "n", "k", "dtype", "set", "device", "id", "bytes", "runtime", "cpus", "cpuset", "memory", "env", "name",
     "image", "threads", "no-new-privileges", "title", "pairs", "seed", "arms", "sizes"]
)  # fmt: skip
lines = st.tuples(keys, values).map(" = ".join)
heads = st.sampled_from(
    ["[[gemm]]", "[[memcpy]]", "[[arm]]", "[study]", "[defaults.gemm]", "[[nothing]]", "[arm.env]", ""]
)
documents = st.lists(heads | lines, max_size=10).map("\n".join)


@inputs(400)
@given(text=documents)
@example(text=f"[[gemm]]\nm = 1\nn = 1\nk = 1\n[[arm]]\ncpus = {BIG}")
@example(text=f"[[gemm]]\nm = {BIG}\nn = 1\nk = 1")
@example(text=f"pairs = {BIG}\n[[gemm]]\nm = 1\nn = 1\nk = 1")
@example(text="[[gemm]]\nm = 1\nn = 1\nk = 1\n[[arm]]\ncpus = nan\n[[arm]]\nmemory = inf")
def test_suites_and_studies(text: str, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text, errors="surrogatepass")
    refused_in_a_line(lambda: suites.read(path))
    refused_in_a_line(lambda: [parse_arm(a) if isinstance(a, str) else arm_of(a) for a in suites.study(path).arms])


# Results files.

OF_A_TYPE: dict[type, list[Any]] = {
    bool: [True, False],
    int: [0, -1, 1, 2, 256, 2**63 - 1, 2**63, -(2**63), 2**64, 10**20, 10**25],
    float: [0, 0.0, -1.0, 5e-324, 1e-300, 1e-9, 1e9, 1e18, 1e30, 1e308, -1e308, 10**30],
    str: ["", "x", "nan", "inf", "\x1b[31m", "a\nb", "9" * 30, "cpu", "cuda:0", "cuda:" + "9" * 20, "gemm", "memcpy",
          "float32", "|", "=1+1", "-1", "9" * 19 + "-0", "torch", "ok", "failed"],
    list: [[]],
    dict: [{}],
    type(None): [0, 1, 1.0, "x", [], {}, 1e308, 10**19],
}  # fmt: skip
ANY = [each for all_ in OF_A_TYPE.values() for each in all_]


def study_lines() -> list[Any]:
    """Of a real one, two pairs of two arms."""
    with lzma.open(STUDY) as packed:
        read = [json.loads(line) for line in packed]
    arms = read[0]["study"]["arms"][:2]
    names = {arm["name"] for arm in arms}
    cases = read[0]["study"]["cases"][:2]
    read[0]["study"] |= {"arms": arms, "cases": cases, "pairs": 2}
    asked = [json.dumps(case["parameters"]) for case in cases]

    def is_kept(line: dict[str, Any]) -> bool:
        if line["kind"] != "record":
            return False
        case = line["case"]
        return case["arm"] in names and case["process"] < 2 and json.dumps(case["parameters"]) in asked

    records = [line for line in read if is_kept(line)]
    for line in records:
        for samples in (line["measurement"] or {}).values():
            if isinstance(samples, dict) and "samples_s" in samples:
                del samples["samples_s"][8:], samples["loops_s"][2:]
    used = {line["worker"] for line in records}
    return [read[0], *(line for line in read if line["kind"] == "worker" and line["worker"] in used), *records]


@functools.cache
def originals() -> list[list[bytes]]:
    kept = [msgspec.json.encode(line) for line in study_lines()]
    return [kept, REFERENCE.read_bytes().splitlines()[:6]]


def places_in(value: Any, *above: Any) -> Iterator[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value[:4]) if isinstance(value, list) else ()
    for key, each in inside:
        yield (*above, key)
        yield from places_in(each, *above, key)


def spoil(line: bytes, dice: random.Random) -> bytes:
    if dice.random() < 0.1:
        at = dice.randrange(len(line))
        return line[:at] + dice.randbytes(dice.randrange(4)) + line[at + dice.randrange(4) :]
    try:
        document = json.loads(line)
    except ValueError:  # it was cut already
        return line
    found = list(places_in(document))
    depth = dice.randint(1, max(map(len, found)))
    *above, last = dice.choice([place for place in found if len(place) == depth])
    holder = document
    for key in above:
        holder = holder[key]
    if dice.random() < 0.15:
        del holder[last]
    else:
        holder[last] = dice.choice(ANY if dice.random() < 0.1 else OF_A_TYPE[type(holder[last])])
    return json.dumps(document).encode()


def spoilt(seed: int) -> bytes:
    dice = random.Random(seed)
    lines = list(dice.choice(originals()))
    for _ in range(dice.choice([1, 1, 1, 2, 4])):
        number = dice.randrange(len(lines))
        lines[number] = spoil(lines[number], dice)
    return b"".join(line + b"\n" for line in lines)


def use(results: Results) -> None:
    """As `show`, `compare` and their exports do."""
    shown = [text.of_table(block) for block in table.tables(results.latest(), results.workers)]
    assert shown or not results.records
    for each in known().values():
        each.write(export.document(results, "us"))
    found = pairs.compare(results)
    text.write(compared.document(found))
    for each in known().values():
        each.write(compared.document(found))


def read_and_use(path: Path) -> None:
    refused_in_a_line(lambda: use(results_file.read(path)))
    refused_in_a_line(lambda: yardstick(str(path)))
    refused_in_a_line(lambda: pairs.compare_runs([results_file.read(path)], [results_file.read(path)], ("a", "b")))


@inputs(250)
@given(seed=st.integers(0, 2**64))
def test_results_files(seed: int, tmp_path: Path) -> None:
    path, content = tmp_path / "spoilt.jsonl", spoilt(seed)
    path.write_bytes(content)
    read_and_use(path)


@pytest.mark.parametrize("name", CORPUS)
def test_results_files_that_once_ended_in_a_traceback(name: str, tmp_path: Path) -> None:
    """What the corpus says is put into every record of the study."""
    lines = study_lines()
    for line in [line for line in lines if line["kind"] == "record"]:
        for place, value in CORPUS[name].items():
            *above, last = place.split(".")
            functools.reduce(dict.__getitem__, above, line)[last] = value
    path = tmp_path / "spoilt.jsonl"
    path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    read_and_use(path)


@inputs(100)
@given(at=st.floats(0, 1), put=st.binary(max_size=8), length=st.integers(0, 8))
def test_compressed_files(at: float, put: bytes, length: int, tmp_path: Path) -> None:
    path, packed = tmp_path / "spoilt.jsonl.xz", lzma.compress(b"\n".join(originals()[1][:2]) + b"\n", preset=0)
    place = int(at * len(packed))
    path.write_bytes(packed[:place] + put + packed[place + length :])
    refused_in_a_line(lambda: results_file.read(path))


# Places.


@functools.cache
def here() -> Place:
    return look()


@inputs(100)
@given(seed=st.integers(0, 2**64))
def test_places(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    document = msgspec.json.encode({"place": here()} if dice.random() < 0.5 else here().environment)
    path = tmp_path / "place.json"
    path.write_bytes(spoil(document, dice))

    def look() -> None:
        there = read(str(path))
        findings = [*examine(there), *against.compare(here(), there, "there")]
        told = doctor.document(there, findings, fix=True)
        known()["json"].write(told)
        found = difference(here().environment, there.environment)
        for each in (told, places.difference_document(found, "here", "there"), places.document(there.environment, {})):
            text.write(each)

    refused_in_a_line(look)


TREES = sorted(path.stem for path in (ROOT / "tests/trees").glob("*.json"))


@inputs(60)
@given(seed=st.integers(0, 2**64), name=st.sampled_from(TREES))
def test_files_of_the_kernel(
    seed: int, name: str, tmp_path: Path, tree: Callable[[str], Path], corrupt: Callable[[Path, int], str]
) -> None:
    shutil.rmtree(tmp_path / name, ignore_errors=True)
    root = tree(name)
    corrupt(root, seed)
    seen = look(root)
    text.write(doctor.document(seen, examine(seen), fix=True))


# What processes say to each other.

START = msgspec.json.encode(protocol.Start(backend="numpy", device="cpu"))
CASE = Case(
    primitive="gemm", parameters={"m": 1}, backend="numpy", device="cpu", method=Method(), placement=Placement()
)
TASK = protocol.encode(protocol.Task(case=CASE, in_turn=True, cpu=3))
GO = protocol.encode(protocol.Go(all_done=True))
TURN_OVER = protocol.encode(protocol.TurnOver(done=False))
OUTCOME = protocol.encode(protocol.Outcome(status="failed", reason="why"))


@inputs(300)
@given(seed=st.integers(0, 2**64))
def test_messages(seed: int) -> None:
    dice = random.Random(seed)
    for message, decode in (
        (START, protocol.decode_start), (TASK, protocol.decode_word), (GO, protocol.decode_word),
        (TURN_OVER, protocol.decode_answer), (OUTCOME, protocol.decode_answer),
    ):  # fmt: skip
        try:
            decode(spoil(message, dice))
        except (*UNREADABLE, InvalidRequest):
            continue


@inputs(100)
@given(said=st.binary(max_size=200))
def test_channels(said: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(said)
        theirs.shutdown(socket.SHUT_WR)
        try:
            Channel(ours).receive(protocol.Start)
        except (EOFError, *UNREADABLE, InvalidRequest):
            return
