"""Primitives and kernels from outside: a file that is named, and a package that is installed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from primbench import registry
from primbench.errors import FileError
from primbench.problem import PROBLEMS
from primbench.registry import sources
from primbench.results import file as results_file

HALVE = '''
from dataclasses import dataclass

from primbench.problem import Problem, Reference, kernel, size
from primbench.random import random_array


@dataclass(frozen=True)
class Halve(Problem, name="halve"):
    """y[n] = x[n] / 2."""

    n: int = size("elements")

    def bytes_moved(self):
        return 8 * self.n

    def inputs(self, rng):
        return (random_array(rng, (self.n,), "float32"),)

    def reference(self, rng, x):
        return Reference(..., x.astype("float64") / 2, abs(x.astype("float64")))

    def tolerance(self):
        return 1e-6


@kernel("halve", "numpy")
def halve(backend, problem, x):
    import numpy as np

    y = backend.empty((problem.n,), "float32")
    return lambda: np.multiply(x, 0.5, out=y)
'''
QUICK = ("--min-time", "1ms", "--max-time", "10ms")


def primbench(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "primbench", *map(str, arguments)],
        capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **variables},
    )  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "halve.py"
    path.write_text(HALVE)
    return path


def test_a_file_is_measured_in_a_worker_checked_and_recorded(file: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    found = primbench("--kernels", file, "halve", "-n", "100", *QUICK, "-q", "-o", output)
    assert (0, "") == (found.returncode, found.stderr)
    header, _, record = map(json.loads, output.read_text().splitlines())
    assert ["--kernels", str(file), "halve"] == header["command"][1:4]
    assert {str(file): hashlib.sha256(HALVE.encode()).hexdigest()} == header["kernels"]
    assert ("ok", True) == (record["status"], record["measurement"]["verified"])
    shown, known = primbench("show", output), primbench("--kernels", file, "show", output)
    assert (0, known.stdout) == (shown.returncode, shown.stdout), "the file alone says as much"
    compared = primbench("compare", output, output, "--fail-on", "never")
    assert "halve n=100" in compared.stdout
    hint = "halve: no primitive here, so without columns and margins of its own: primbench --kernels "
    assert ["", *[f"{hint}{file} has them\n"] * 2] == [known.stderr, shown.stderr, compared.stderr]


def test_a_file_that_has_changed_does_not_go_on_with_what_it_measured_before(file: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    measured = ("--kernels", file, "halve", "-n", "100", *QUICK, "-q")
    primbench(*measured, "-o", output)
    before = output.read_bytes()
    assert 0 == primbench(*measured, "--resume", output).returncode
    file.write_text(HALVE.replace("0.5", "1 / 2"))
    found = primbench(*measured, "--resume", output)
    assert (2, 1) == (found.returncode, found.stderr.count("\n"))
    assert f"--resume {output}: --kernels {file} has changed since it was begun" in found.stderr
    assert before == output.read_bytes()


def test_what_a_results_file_names_is_one_line_that_a_shell_may_be_given(file: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    primbench("--kernels", file, "halve", "-n", "100", *QUICK, "-q", "-o", output)
    header, *lines = output.read_text().replace('"primitive":"halve"', r'"primitive":"half\nno \u001b[1m"').splitlines()
    output.write_text("\n".join([header.replace(str(file), "a; reboot"), *lines, ""]))
    (hint,) = primbench("show", output).stderr.splitlines()
    assert hint.startswith(r"half\x0ano \x1b[1m: no primitive here")
    assert hint.endswith("primbench --kernels 'a; reboot' has them")


def test_a_file_is_in_list_help_and_completion(file: Path) -> None:
    listed = primbench("--kernels", file, "list", "primitives").stdout
    assert re.search(r"halve +y\[n\] = x\[n\] / 2\. On numpy\.", listed)
    for arguments in (("--kernels", file, "--help"), ("--help", "--kernels", file)):
        assert ", halve," in " ".join(primbench(*arguments).stdout.split())
    asked = {"_PRIMBENCH_COMPLETE": "bash_complete", "COMP_WORDS": f"primbench --kernels {file} ha", "COMP_CWORD": "3"}
    assert "plain,halve\n" == primbench(**asked).stdout


@pytest.mark.parametrize("named", [("--kernels", "FILE"), ("--kernels=FILE",)])
def test_a_file_may_be_named_behind_the_command(file: Path, named: tuple[str, ...]) -> None:
    words = [word.replace("FILE", str(file)) for word in named]
    found = primbench("halve", *words, "-n", "100", *QUICK, "-q")
    assert (0, "") == (found.returncode, found.stderr)
    assert primbench("halve", *words, "--help").stdout.startswith("Usage: primbench halve")
    assert primbench("capture", "none.py", "-o", "x.toml", "--", *words).stderr.startswith("Error: none.py: no such")


def test_a_study_of_ones_own_primitive(file: Path, tmp_path: Path) -> None:
    output = tmp_path / "study.jsonl"
    where = ("study", "--kernels", file, "--arm", "host", "--self", "--pairs", "1", "--fail-on", "never")
    done = primbench(*where, "--primitive", "halve -n 100,200", "--primitive", "chase", *QUICK, "-q", "-o", output)
    assert (0, "") == (done.returncode, done.stderr)
    cases = [record.case for record in results_file.read(output).records if record.case.primitive == "halve"]
    assert {100, 200} == {case.parameters["n"] for case in cases}
    for words in (("halve",), (*where, "--primitive", "halve")):
        told = primbench("--kernels", file, *words)
        assert 2 == told.returncode
        assert told.stderr.endswith("has no sizes of halve: give them behind it, as halve -n N\n")
    assert "-n' / '--n': 'x'" in primbench(*where, "--primitive", "halve -n x").stderr


def test_an_installed_package_is_found_by_its_entry_point(tmp_path: Path) -> None:
    install(tmp_path, HALVE)
    found = primbench("halve", "-n", "100", *QUICK, "-q", PYTHONPATH=str(tmp_path))
    assert (0, "") == (found.returncode, found.stderr)
    assert "ok" == found.stdout.splitlines()[2].split()[-1]


def install(folder: Path, text: str) -> None:
    """A package that brings kernels, on a path where installed ones are looked for."""
    (folder / "halving.py").write_text(text)
    information = folder / "halving-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: halving\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[primbench.kernels]\nhalve = halving\n")


LEFT_OUT = "left out: primbench.kernels of the installed package halving, halving: cannot be imported: "


def test_an_installed_package_that_defines_what_there_is_already_is_left_out_with_a_line(tmp_path: Path) -> None:
    install(tmp_path, HALVE.replace('name="halve"', 'name="gemm"'))
    found = primbench("list", "primitives", PYTHONPATH=str(tmp_path))
    assert (0, 1, True) == (found.returncode, found.stderr.count("\n"), found.stderr.startswith(LEFT_OUT))


def test_an_installed_package_that_is_broken_is_left_out_with_a_line(tmp_path: Path) -> None:
    install(tmp_path, HALVE + "import nowhere")
    gemm = ["gemm", "-m", "8", "-n", "8", "-k", "8", "--backend", "numpy", "-q", *QUICK]
    for each in (["list", "primitives"], gemm, ["--help"]):
        found = primbench(*each, PYTHONPATH=str(tmp_path))
        assert (0, 1) == (found.returncode, found.stderr.count("\n")), each
        assert found.stderr.startswith(LEFT_OUT)
        assert "halve" not in found.stdout
    asked = primbench("halve", "-n", "100", PYTHONPATH=str(tmp_path))
    assert (2, True, True) == (asked.returncode, asked.stderr.startswith(LEFT_OUT), "'halve'" in asked.stderr)
    version = primbench("--version", PYTHONPATH=str(tmp_path))
    assert (0, "") == (version.returncode, version.stderr)


DOUBLE_GEMM = 'from primbench import kernel\n@kernel("gemm", "numpy")\ndef gemm(backend, problem, *inputs): ...\n'
NO_BATCH = 'from primbench.problem.network import Network\nclass Own(Network, name="own"): ...\n'
NO_METHODS = NO_BATCH.replace("...", "batch_size, module, predict, optimiser = 1, *[print] * 3")
DOUBLE_MODEL = NO_METHODS.replace('"own"', '"mnist_cnn"').replace("* 3", "* 3; inputs = loss = flop = print")
NOT_WHOLE = HALVE.replace("def bytes_moved", "def bytes")
WRONG = [
    (None, "No such file or directory"),
    ("", "defines no primitive"),
    ("import nowhere", "cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
    ("def", "cannot be imported: SyntaxError"),
    ("raise SystemExit(0)", "cannot be imported: SystemExit"),
    (HALVE.replace('name="halve"', 'name="gemm"'), "primitive 'gemm' is defined in "),
    (DOUBLE_GEMM, "gemm on numpy is registered in "),
    (NO_BATCH, "model 'own': its class has no line such as batch_size = 64"),
    (NO_METHODS, "model 'own': its class has no inputs(), loss(), flop()"),
    (
        HALVE.replace('"halve", "numpy"', '"halv", "numpy"'),
        "kernel for 'halv': did you mean halve? no prim",
    ),
    (NOT_WHOLE, "Halve has no bytes_moved(), which every primitive has"),
    (DOUBLE_MODEL, "model 'mnist_cnn' is defined in primbench.suites.models.mnist and "),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_a_file_that_is_of_no_use_is_refused_in_a_line(text: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    if text is not None:
        path.write_text(text)
    found = primbench("--kernels", path, "list", "backends")
    assert (2, "") == (found.returncode, found.stdout)
    assert 1 == found.stderr.count("\n")
    assert found.stderr.startswith(f"Error: --kernels {path}: ")
    assert message in found.stderr


def test_what_a_file_prints_does_not_stand_in_an_export(file: Path) -> None:
    file.write_text(f"print('hello')\n{file.read_text()}")
    found = primbench("--kernels", file, "list", "backends")
    assert (0, "hello\n") == (found.returncode, found.stderr)
    assert "hello" not in found.stdout


def test_a_worker_takes_no_other_file_for_the_one_that_was_named(file: Path) -> None:
    with pytest.raises(FileError, match="is another one here"):
        registry.add_file(str(file), "0" * 64)


def test_what_is_shown_of_a_folder_unimported_is_what_its_class_says() -> None:
    said = {name: (PROBLEMS[name].__doc__ or "").splitlines()[0] for name in registry.primitives()}
    assert said == {name: folder.summary for name, folder in sources.folders().items()}


def test_a_file_is_not_found_from_a_folder_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(FileError, match=r"^--kernels own.py: the folder that this was started in is not there"):
        registry.add_file("own.py")


def test_a_kernel_for_no_backend_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(HALVE.replace('"numpy"', '"nunpy"'))
    found = primbench("--kernels", path, "list", "backends")
    known = "did you mean numpy? backends are cupy, numba, numpy, torch"
    message = f"Error: --kernels: a kernel of halve for 'nunpy': {known}\n"
    assert (2, "", message) == (found.returncode, found.stdout, found.stderr)


def test_a_primitive_cannot_be_called_as_a_command_is(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(HALVE.replace('"halve"', '"compare"'))
    found = primbench("--kernels", path, "list", "backends")
    message = "Error: --kernels: a primitive cannot be called compare, which is a command of primbench\n"
    assert (2, "", message) == (found.returncode, found.stdout, found.stderr)


def test_a_pipe_is_no_file_of_kernels_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "own.py")
    with pytest.raises(FileError, match=r"--kernels .*/own\.py: no regular file"):
        registry.add_file(str(tmp_path / "own.py"))


TOY = """
from primbench import kernel
@kernel("softmax", "numpy", name="toy")
def toy(backend, problem, x):
    import numpy as np
    def step():
        powers = np.exp(x)
        return powers / powers.sum(axis=1, keepdims=True)
    return step
"""


def test_an_installed_package_adds_a_kernel_by_name(tmp_path: Path) -> None:
    install(tmp_path, TOY)
    sizes = ("softmax", "--rows", "8", "--classes", "8", "--backend", "numpy", "--kernel", "all")
    found = primbench(*sizes, *QUICK, "-q", PYTHONPATH=str(tmp_path))
    assert (0, "") == (found.returncode, found.stderr)
    assert [["-", "ok"], ["toy", "ok"]] == [
        [each for each in row.split() if each in ("-", "toy", "ok")] for row in found.stdout.splitlines()[2:4]
    ]
