"""What libraries, threads and CPUs do to a study in real containers: what it is called, and its first cause.

The images differ in one file each, compiled here, or in one variable.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from primbench.compare.comparison import ArmComparison
from primbench.compare.pairs import compare
from primbench.results import file as results_file
from primbench.system.files import format_cpu_list

from .built import PRIMBENCH, compile_modules, copy_package, copy_primbench, make_user_land
from .conftest import Engine
from .traces import in_words
from .verdicts import first_cause, settled

pytestmark = pytest.mark.quiet

NEEDED = ("numpy", "ml_dtypes", "msgspec", "threadpoolctl", "packaging", "click")
QUICK = ("--backend", "numpy", "--device", "cpu", "--min-time", "5ms")
PRODUCT = "gemm = [{ m = 1024, n = 1024, k = 1024 }]\n"  # long enough for Linux to give each thread a CPU
LESSER_PRODUCT = "gemm = [{ m = 192, n = 192, k = 192 }]\n"  # which a slow BLAS does in some milliseconds
SMALL_PRODUCT = "gemm = [{ m = 16, n = 16, k = 16 }]\n"  # NumPy allocates what it returns

SLOW_GEMM = """
#include <stdint.h>
void scipy_cblas_sgemm64_(int order, int ta, int tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                          int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      float sum = 0;
      for (int64_t l = 0; l < k; l++)
        sum += (ta == 111 ? a[i * lda + l] : a[l * lda + i]) * (tb == 111 ? b[l * ldb + j] : b[j * ldb + l]);
      c[i * ldc + j] = alpha * sum + (beta == 0 ? 0 : beta * c[i * ldc + j]);
    }
}
"""
SLOW_MALLOC = """
#include <stddef.h>
extern void *__libc_malloc(size_t);
void *malloc(size_t size) {
  for (volatile int turn = 0; turn < 50000; turn++);
  return __libc_malloc(size);
}
"""


@pytest.fixture(scope="module")
def plain(work: Path) -> Path:
    """The root file system of an image with primbench and NumPy."""
    tree = work / "plain"
    packages = make_user_land(tree)
    for name in NEEDED:
        copy_package(name, packages, without={"tests"})
    copy_primbench(packages)
    compile_modules(packages)
    return tree


def clone(tree: Path, copy: Path) -> None:
    """Of files that nobody writes to."""
    shutil.copytree(tree, copy, symlinks=True, copy_function=os.link)


def compile_library(source: str, path: Path, *options: str | Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["gcc", "-O1", "-shared", "-fPIC", "-o", path, "-x", "c", "-", *options]
    subprocess.run(command, input=source, text=True, check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="module")
def with_other_blas(plain: Path, work: Path) -> Path:
    """NumPy is linked to /usr/lib/libblas.so.3, which hands on to the wheel's own all but products of float32.

    libffi is another file, too, which does the same.
    """
    tree = work / "other-blas"
    clone(plain, tree)
    (wheels,) = tree.glob("usr/local/lib/python*/site-packages/numpy.libs/libscipy_openblas64_-*.so")
    renamed = wheels.name.replace("scipy", "wheel")
    (tree / "usr/lib" / renamed).write_bytes(wheels.read_bytes().replace(wheels.name.encode(), renamed.encode()))
    options = ("-Wl,--no-as-needed", f"-L{tree}/usr/lib", f"-l:{renamed}", "-Wl,-rpath,/usr/lib:$ORIGIN")
    compile_library(SLOW_GEMM, tree / "usr/lib/libblas.so.3", "-Wl,--allow-shlib-undefined", *options)
    for needed in wheels.parent.glob("lib*gfortran*"), wheels.parent.glob("lib*quadmath*"):
        for each in needed:
            os.link(each, tree / "usr/lib" / each.name)
    wheels.unlink()
    wheels.symlink_to("/usr/lib/libblas.so.3")
    for other in (each for each in tree.glob("usr/lib/**/libffi.so.*") if not each.is_symlink()):
        same = other.read_bytes()
        other.unlink()
        other.write_bytes(same + b"longer")
    return tree


@pytest.fixture(scope="module")
def with_slow_malloc(plain: Path, work: Path) -> Path:
    tree = work / "slow-malloc"
    clone(plain, tree)
    compile_library(SLOW_MALLOC, tree / "usr/local/lib/libpatient.so.1")
    (tree / "etc/ld.so.preload").write_text("/usr/local/lib/libpatient.so.1\n")
    return tree


def study(folder: Path, suite: str, *arms: str, max_time: str = "50ms") -> ArmComparison:
    """The second arm against the first.

    max_time: of two threads that Linux has begun on one CPU beside other work, one is moved after 0.1 s or more.
    """
    (folder / "suite.toml").write_text(suite)
    path = folder / "results.jsonl"
    done = settled(path, arms, folder / "suite.toml", *QUICK, "--max-time", max_time, fail_on="never")
    assert (0, "") == (done.returncode, done.stderr)
    (arm,) = compare(results_file.read(path)).arms
    return arm


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a test's own files are: in its tmp_path is only what primbench left."""
    return tmp_path_factory.mktemp("study")


@pytest.mark.parametrize("runtime", ["runc"], indirect=True)
def test_another_blas_makes_a_stack_effect_and_is_named(
    runtime: str,
    plain: Path,
    with_other_blas: Path,
    folder: Path,
    traces: Callable[[], list[str]],
    ahead_of_others: None,
) -> None:
    trees = (plain, with_other_blas)  # of one thread each: two of OpenBLAS that share a CPU take turns of 4 ms
    arms = [in_words(runtime, f"image={tree}", "threads=1", f"name={tree.name}") for tree in trees]
    arm = study(folder, LESSER_PRODUCT, *arms)
    assert "stack effect" == arm.effect
    told = first_cause(arm.cases[0])
    assert re.match(r"another BLAS: NumPy's gemm is /\S+/numpy.libs/libscipy_openblas64_-", told)
    assert " in plain and /usr/lib/libblas.so.3, build id " in told


@pytest.mark.parametrize("runtime", ["runc"], indirect=True)
def test_why_names_the_library_that_an_image_has_otherwise_by_its_file(
    runtime: str, plain: Path, with_other_blas: Path, folder: Path, traces: Callable[[], list[str]],
    ahead_of_others: None,
) -> None:  # fmt: skip
    """In both directions: it slows the one image, and without it the other is as fast."""
    arms = [in_words(runtime, f"image={tree}", "threads=1", f"name={tree.name}") for tree in (plain, with_other_blas)]
    case = ("--primitive", "gemm -m 192 -n 192 -k 192", *QUICK, "--max-time", "50ms")
    command = [*PRIMBENCH, "why", *arms, *case, "--json", str(folder / "why.json"), "-q"]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=480, check=False)
    assert (1, "") == (done.returncode, done.stderr), done.stdout
    found = json.loads((folder / "why.json").read_text())
    (proof,) = found["conclusion"]["proofs"]
    (named,) = (found["ingredients"][number] for number in proof["differences"])
    assert re.match(
        rf"libraries=/\S+/numpy.libs/libscipy_openblas64_-.*@{with_other_blas}/usr/lib/libblas.so.3:", named
    )
    assert proof["harms"]["low"] > 2
    assert proof["heals"]["low"] > 2
    assert any("libffi" in each for each in found["ingredients"])
    assert f"image={with_other_blas}" in found["ingredients"]


@pytest.mark.parametrize("runtime", ["apptainer"], indirect=True)
def test_a_slow_malloc_makes_a_stack_effect_and_is_named(
    runtime: str,
    plain: Path,
    with_slow_malloc: Path,
    folder: Path,
    traces: Callable[[], list[str]],
    ahead_of_others: None,
) -> None:
    arms = [in_words(runtime, f"image={tree}", f"name={tree.name}") for tree in (plain, with_slow_malloc)]
    arm = study(folder, SMALL_PRODUCT, *arms)
    assert "stack effect" == arm.effect
    told = first_cause(arm.cases[0])
    assert "/etc/ld.so.preload is none in plain and libpatient.so.1, build id " in told
    assert "malloc is the C library in plain and /usr/local/lib/libpatient.so.1, build id " in told


@pytest.fixture
def with_one_thread(podman: Engine, plain: Path) -> Iterator[str]:
    """Podman's image of the same files, whose makers set a variable."""
    name = "localhost/one-thread"
    change = ("--change", "ENV OMP_NUM_THREADS=1")
    environment = {**os.environ, **podman.environment}
    with subprocess.Popen(["tar", "--create", "--directory", plain, "."], stdout=subprocess.PIPE) as packed:
        command = ["podman", "import", *change, "-", name]
        subprocess.run(command, stdin=packed.stdout, env=environment, check=True, capture_output=True, timeout=120)
    yield name
    subprocess.run(["podman", "rmi", name], env=environment, check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize("runtime", ["podman"], indirect=True)
def test_threads_that_an_image_sets_are_named(
    runtime: str, with_one_thread: str, folder: Path, traces: Callable[[], list[str]], ahead_of_others: None
) -> None:
    arms = [in_words(runtime, f"image={with_one_thread}", *more) for more in (
        (f"env.OMP_NUM_THREADS={os.cpu_count()}", "name=all"), ("name=one",)
    )]  # fmt: skip
    arm = study(folder, PRODUCT, *arms, max_time="200ms")
    assert "container effect" == arm.effect
    told = f"fewer threads in one: threads.openblas is {os.cpu_count()} in all and 1 in one"
    assert first_cause(arm.cases[0]).startswith(told)


@pytest.mark.parametrize("runtime", ["docker"], indirect=True)
def test_a_cpuset_of_one_cpu_is_named(
    runtime: str, folder: Path, traces: Callable[[], list[str]], ahead_of_others: None
) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    arms = [in_words(runtime, "name=all"), in_words(runtime, f"cpuset={cpus[0]}", "name=one")]
    arm = study(folder, PRODUCT, *arms, max_time="200ms")
    assert "container effect" == arm.effect
    told = f"fewer CPUs in one: cpus_allowed is {format_cpu_list(cpus)} in all and {cpus[0]} in one"
    assert told == first_cause(arm.cases[0])
