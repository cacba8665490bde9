"""What there is to know of a primitive or a metric stands in one place, and a new one needs no other edit."""

from __future__ import annotations

import ast
import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import get_args

import pytest

from primbench.problem import Work
from primbench.registry import primitives
from primbench.results.metrics import METRICS

ROOT = Path(__file__).parents[2]
WORDS = {*get_args(Work), "files", "optimizer", "time"}  # kinds of work, fields, rules, columns
ASKING_FOR_ONE = {"build", "problem_class", "setup_of", "backends_of", "choose", "kernel"}


def names_in(tree: ast.AST, known: set[str]) -> Iterator[str]:
    """Where a string is a primitive's name. One that is also another word is, where a primitive is asked for."""
    nodes, alone, among_others = [*ast.walk(tree)], known - WORDS, known & WORDS
    attributes = {id(word) for call in calls(nodes, {"hasattr", "getattr"}) for word in call.args}
    for node in nodes:
        if isinstance(node, ast.Constant) and node.value in alone and id(node) not in attributes:
            yield f"line {node.lineno}: {node.value!r}"
        elif isinstance(node, ast.Compare) and called(node.left).endswith("primitive"):
            yield from (f"line {word.lineno}: {word.value!r}" for word in words_in(node, among_others))
    for call in calls(nodes, ASKING_FOR_ONE):
        yield from (f"line {word.lineno}: {word.value!r}" for word in words_in(call, among_others))


def calls(nodes: Iterable[ast.AST], names: set[str]) -> Iterator[ast.Call]:
    return (node for node in nodes if isinstance(node, ast.Call) and called(node.func) in names)


def called(function: ast.expr) -> str:
    """The last word of its name; none of what is itself the outcome of a call."""
    return getattr(function, "attr", "") or getattr(function, "id", "")


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes())


def words_in(node: ast.AST, words: set[str]) -> Iterator[ast.Constant]:
    return (each for each in ast.walk(node) if isinstance(each, ast.Constant) and each.value in words)


@pytest.mark.parametrize(
    "text",
    [
        'if case.primitive == "gemm": pass',
        'MARGINS = {"memcpy": 0.02}',
        'build("launch", {})',
        'a.primitive in ("launch",)',
    ],
)
def test_a_name_is_found(text: str) -> None:
    assert 1 == len(list(names_in(ast.parse(text), {"gemm", "memcpy", "launch"})))


def test_no_file_outside_kernels_and_suites_names_a_primitive() -> None:
    known, package = set(primitives()), ROOT / "primbench"
    wrong = {
        str(path.relative_to(ROOT)): found
        for path in sorted(package.rglob("*.py"))
        if path.relative_to(package).parts[0] not in ("kernels", "suites")
        and (found := list(names_in(parsed(path), known)))
    }
    assert {} == wrong


def test_primitives_prefer_metrics_that_there_are() -> None:
    assert set(METRICS) >= {name for cls in primitives().values() for name in cls.preferred}


def test_no_file_but_those_that_time_names_a_metric() -> None:
    package = ROOT / "primbench"
    naming = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        for word in words_in(parsed(path), set(METRICS))
        if path.relative_to(package).parts[0] not in ("kernels", "suites", "timing")
    }
    assert {"measurement/__init__.py", "results/metrics.py"} == naming


TAKING_APART = {"partition", "rpartition", "split", "startswith", "removeprefix"}
OF_OTHERS = {
    "kernels/program/_run.py",
    "kernels/memcpy/operators.py",
}  # a user's program, a call that torch was asked for


def taken_apart(tree: ast.AST) -> Iterator[str]:
    """Where the words of a device are put together, or read for what they say."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=read, comparators=[ast.Constant(value="cpu" | "cuda")]):
                is_found = is_device(read)
            case ast.Call(func=ast.Attribute(value=read, attr=attr)):
                is_found = attr in TAKING_APART and is_device(read)
            case ast.JoinedStr(values=[ast.Constant(value=str(words)), *_]):
                is_found = words.endswith("cuda:")
            case _:
                is_found = False
        if is_found:
            yield f"line {getattr(node, 'lineno', 0)}: {ast.unparse(node)}"


def is_device(node: ast.expr) -> bool:
    return called(node) in ("device", "place")


@pytest.mark.parametrize(
    "text", ['case.device == "cpu"', 'device.partition(":")[0]', 'device.startswith("cuda")', 'f"cuda:{number}"']
)
def test_a_device_taken_apart_is_found(text: str) -> None:
    assert 1 == len(list(taken_apart(ast.parse(text))))


def test_words_of_a_device_are_read_in_one_place() -> None:
    paths = [path for folder in ("primbench", "kernels", "suites") for path in sorted((ROOT / folder).rglob("*.py"))]
    wrong = {
        name: found
        for path in paths
        if (name := str(path.relative_to(ROOT))) not in {"primbench/devices.py", *OF_OTHERS}
        and (found := list(taken_apart(parsed(path))))
    }
    assert {} == wrong


NEW = '_ALL = (\n    Metric("settle_s", "settling", "until nothing moves", "both", preference=0, explains="launch"),\n'
MEASURED = """
import json, sys
from msgspec.structs import replace
from primbench.environment import fingerprint
from primbench.compare.pairs import compare
from primbench.kernels.gemm import Gemm
from primbench.measurement import Measurement, Samples
from primbench.report import comparison, export, table, text
from primbench.report.formats import known
from primbench.results.file import Results
from primbench.results.record import Header, Record
from primbench.spec.arm import Arm
from primbench.spec.case import Case
from primbench.spec.study import Study

case = Case(primitive="gemm", parameters=Gemm(2, 2, 2).parameters(), backend="numpy", device="cpu")

def record(arm, process):
    time_s = (1e-3 if arm == "host" else 2e-3) * (1 + 1e-4 * process)
    found = Samples(samples_s=[time_s] * 7, calls_per_sample=1, taken_by="host clock", stopped="count")
    measurement = Measurement(others={"settle_s": found})
    ran = replace(case, arm=arm, process=process)
    return Record(case=ran, status="ok", measurement=measurement, started_utc="", duration_s=1.0)

records = [record(arm, process) for process in range(5) for arm in ("host", "other")]
study = Study(arms=[Arm(name="host"), Arm(name="other")], cases=[case], pairs=5, seed=0)
here = fingerprint.collect(gpus=False)
head = Header(schema_version=1, command=[], started_utc="", labels={}, environment=here, study=study)
held = Results(header=head, workers=[], records=records)
found = compare(held)
json.dump({
    "columns": table.tables(records)[0].headings,
    "export": known()["csv"].write(export.document(held)).splitlines()[0].split(","),
    "metrics": [each.metric for each in found.estimates], "verdict": found.cases[0].verdict,
    "decided_by": found.cases[0].decided_by, "parts": found.cases[0].explanation.parts,
    "text": text.write(comparison.document(found)),
}, sys.stdout)
"""


def test_a_new_metric_is_one_entry(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "primbench", tmp_path / "primbench", ignore=shutil.ignore_patterns("*.xz"))
    table = tmp_path / "primbench/results/metrics.py"
    table.write_text(table.read_text().replace("_ALL = (\n", NEW))
    made = subprocess.run(
        [sys.executable, "-P", "-c", MEASURED],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert 0 == made.returncode, made.stderr
    found = json.loads(made.stdout)
    assert "settling" in found["columns"]
    assert {"settle_s", "settle_p99_s", "settle_samples"} <= set(found["export"])
    assert (["settle_s"], "slower", "settle_s") == (found["metrics"], found["verdict"], found["decided_by"])
    assert ["everything on the CPU", "launch"] == found["parts"]
    assert " settling " in found["text"]
