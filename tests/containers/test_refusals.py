"""Studies with arms that cannot be had, or not be compared: each is one line, and the others go on."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from primbench.results import file as results_file
from primbench.results.file import Results

from .built import PYTHON, linked, put
from .traces import in_words

OCI = ["docker", "podman"]
RUNTIMES = [*OCI, "apptainer", "charliecloud", "runc"]
# In turns each arm that cannot be had is tried twice, and all others start anew after it: one runtime of those that
# refuse before they start, and one of those in which the worker dies.
IN_TURNS = ["podman", "apptainer"]
OTHER_NUMPY = "2.4.5" if sys.version_info < (3, 14) else "2.3.5"
SUITE = 'launch = [{ call = "getppid" }]\n'
QUICK = ("--backend", "numpy", "--device", "cpu", "--min-time", "1ms", "--max-time", "10ms", "--fail-on", "never")
# Of Python's own library all that it needs to begin.
NOT_COPIED = shutil.ignore_patterns(
    "site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "ensurepip", "lib-dynload", "config-*",
    "__pycache__", "*.a",
)  # fmt: skip

NO_IMAGE = {
    "docker": r"docker create: .*No such image: .*: `docker images` lists .*, `docker pull` fetches one, ",
    "podman": r"podman create: .*image not known: `podman images` lists .*, `podman pull` fetches one, ",
    "apptainer": r"worker died of .*could not open image .*: name a file or a folder in full, ",
    "charliecloud": r"worker died of .*can't stat: .*: name a folder in full, or what `ch-image list` lists; ",
    "runc": r"image=/nowhere/absent: runc starts a folder, named in full, or host$",
}
NO_CPU = {
    "docker": r"docker create: .*Requested CPUs are not available - requested 900, available: 0",
    "podman": r"podman create: .*requested CPUs are not available - requested 900, available: 0",
    "apptainer": r"worker died of .*cpuset\.cpus: .*: there are CPUs .* and memory nodes .* here$",
    "runc": r"worker died of .*cpuset\.cpus: .*: there are CPUs .* and memory nodes .* here$",
}
NO_MEMORY = r"worker .*: 16 MiB of memory may be too little for Python and its libraries: give more$"


def study(folder: Path, *arguments: Any) -> tuple[subprocess.CompletedProcess[str], Results]:
    """Of one call of the system. folder: for its files."""
    suite, path = folder / "suite.toml", folder / "results.jsonl"
    suite.write_text(SUITE)
    words = ["study", suite, *QUICK, "-o", path, *arguments]
    command = [sys.executable, "-P", "-m", "primbench", *map(str, words)]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=240, check=False)
    assert path.exists(), done.stderr
    return done, results_file.read(path)


def options(arms: Sequence[str]) -> list[str]:
    return [word for arm in arms for word in ("--arm", arm)]


def statuses(found: Results) -> dict[str, set[str]]:
    asked = found.header.study
    assert asked is not None
    return {arm.name: {each.status for each in found.records if each.case.arm == arm.name} for arm in asked.arms}


@pytest.fixture(scope="session")
def bare_python(work: Path) -> Path:
    """The root file system of an image with Python and nothing else."""
    tree, prefix = work / "bare-python", Path(sys.base_prefix)
    for name in ("proc", "sys", "dev", "run", "tmp", "root", "home", "mnt", "etc", "var/tmp", "usr/local/bin"):
        (tree / name).mkdir(parents=True)
    for name in ("passwd", "group", "hosts", "resolv.conf"):  # Charliecloud binds the host's over some
        (tree / "etc" / name).touch()
    shutil.copytree(prefix / "lib" / PYTHON, tree / "usr/local/lib" / PYTHON, ignore=NOT_COPIED)
    shutil.copy2(prefix / "bin" / PYTHON, tree / "usr/local/bin")
    (tree / "usr/local/bin/python3").symlink_to(PYTHON)
    for library in linked([prefix / "bin" / PYTHON]):
        put(tree, library)
    return tree


@pytest.fixture
def images(runtime: str, request: pytest.FixtureRequest, bare_python: Path, skeleton: Path) -> Mapping[str, str]:
    """What is wrong with an image -> its name for an arm."""
    if runtime not in OCI:
        return {"absent": "/nowhere/absent", "without Python": str(skeleton), "without primbench": str(bare_python)}
    engine = request.getfixturevalue(runtime)
    name = "localhost/primbench-tests-bare-python"
    archive = bare_python.with_suffix(".tar")
    if not archive.exists():
        with tarfile.open(archive, "w") as tar:
            tar.add(bare_python, arcname=".")
    command, environment = [runtime, "import", str(archive), name], {**os.environ, **engine.environment}
    subprocess.run(command, env=environment, capture_output=True, check=True, timeout=120)
    return {"absent": "localhost/absent:1", "without Python": engine.image[0], "without primbench": name}


@pytest.mark.parametrize("runtime", RUNTIMES, indirect=True)
def test_an_arm_that_cannot_be_had_is_one_line_that_says_how_to_mend(
    runtime: str, images: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory, traces: Callable[[], list[str]]
) -> None:
    lacks = "image {} has no {}: build one with `primbench image`$"
    limited = runtime in NO_CPU
    expected = {
        "absent": (f"image={images['absent']}", NO_IMAGE[runtime]),
        "no Python": (f"image={images['without Python']}", lacks.format(images["without Python"], "python3")),
        "no primbench": (
            f"image={images['without primbench']}",
            lacks.format(images["without primbench"], "primbench"),
        ),
        "dies": ("env.PYTHONHOME=/nowhere", r"worker died of exit status 1: Fatal Python error: .*: --verbose shows"),
        **({"no CPU": ("cpuset=900", NO_CPU[runtime]), "no memory": ("memory=16MiB", NO_MEMORY)} if limited else {}),
    }
    wrong = [in_words(runtime, setting, f"name={name}") for name, (setting, _) in expected.items()]
    arms = ["host", *wrong, in_words(runtime, "name=goes on")]
    pairing = () if runtime in IN_TURNS else ("--pairing", "one-after-the-other")
    done, found = study(tmp_path_factory.mktemp("study"), "--pairs", 1, *pairing, *options(arms))
    assert 0 == done.returncode, done.stderr
    assert "goes on against host" in done.stdout
    assert {"host": {"ok"}, "goes on": {"ok"}} | {name: {"skipped"} for name in expected} == statuses(found)
    told = dict(line.split(" runs nothing with numpy on cpu: ") for line in done.stderr.splitlines())
    assert expected.keys() == told.keys()
    for name, (_, sentence) in expected.items():
        assert re.match(sentence, told[name]), told[name]


@pytest.mark.parametrize("runtime", ["podman"], indirect=True)
def test_a_filter_that_denies_binding_is_one_line_with_the_call_and_the_way_out(
    runtime: str, tmp_path_factory: pytest.TempPathFactory, traces: Callable[[], list[str]]
) -> None:
    folder = tmp_path_factory.mktemp("study")
    path, cpu = folder / "profile.json", min(os.sched_getaffinity(0))
    rule = {"names": ["sched_setaffinity"], "action": "SCMP_ACT_ERRNO"}
    path.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}))
    arms = ["host", in_words(runtime, f"seccomp={path}", f"bind-cpus={cpu}", "name=denied")]
    done, _ = study(folder, "--pairs", 1, *options(arms))
    told = (
        f"denied runs nothing with numpy on cpu: bind-cpus={cpu}: sched_setaffinity is refused with EPERM (Operation "
        "not permitted): a seccomp filter stands before this process: allow the call in its profile, or use "
        "seccomp=unconfined"
    )
    nothing = (
        "Nothing was measured: no other arm runs anything here, so that there is nothing to compare with, and 1 more "
    )
    nothing += "reason"
    assert [told, nothing] == done.stderr.splitlines()


@pytest.mark.parametrize("runtime", ["docker"], indirect=True)
def test_a_refused_memory_policy_is_told_of_its_arm_alone(
    runtime: str, tmp_path_factory: pytest.TempPathFactory, traces: Callable[[], list[str]]
) -> None:
    arms = ["host", in_words(runtime, "numa-node=0", "name=on node 0")]
    done, _ = study(tmp_path_factory.mktemp("study"), "--pairs", 1, *options(arms))
    assert (0, "") == (done.returncode, done.stderr)
    told = "\non node 0 was not placed as asked: memory is where it was first touched: set_mempolicy: "
    assert 1 == done.stdout.count(told)
    assert "host was not placed as asked" not in done.stdout


@pytest.mark.parametrize("runtime", ["host"], indirect=True)
def test_an_arm_of_the_host_that_is_killed_for_want_of_memory_leaves_nothing(
    runtime: str, tmp_path_factory: pytest.TempPathFactory, traces: Callable[[], list[str]]
) -> None:
    arms = ["host", in_words(runtime, "memory=5MiB", "name=little"), in_words(runtime, "name=goes on")]
    done, found = study(tmp_path_factory.mktemp("study"), "--pairs", 1, *options(arms))
    assert 0 == done.returncode, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.endswith(": 5 MiB of memory may be too little for Python and its libraries: give more")
    assert {"host": {"ok"}, "little": {"skipped"}, "goes on": {"ok"}} == statuses(found)


@pytest.fixture(scope="module")
def other_numpy(work: Path) -> Path:
    """A folder for PYTHONPATH with another NumPy than is installed here."""
    folder = work / "other-numpy"
    pip = [sys.executable, "-P", "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
    command = [*pip, "--target", str(folder), f"numpy=={OTHER_NUMPY}"]
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert 0 == done.returncode, done.stderr
    return folder


@pytest.mark.parametrize("runtime", ["host"], indirect=True)
def test_an_arm_with_another_build_of_the_framework_is_one_line_and_is_run_where_that_is_asked(
    runtime: str, other_numpy: Path, tmp_path_factory: pytest.TempPathFactory, traces: Callable[[], list[str]]
) -> None:
    import numpy as np

    arms = options(["host", in_words(runtime, f"env.PYTHONPATH={other_numpy}", "name=other"), "host:name=same"])
    done, found = study(tmp_path_factory.mktemp("study"), "--pairs", 2, *arms)
    assert 0 == done.returncode, done.stderr
    (line,) = done.stderr.splitlines()
    here = f"other runs nothing with numpy on cpu: numpy {OTHER_NUMPY}, and {np.__version__} in host: "
    assert line.startswith(here)
    assert line.endswith("or measure it all the same by `primbench study --other-builds`")
    assert {"host": {"ok"}, "other": {"skipped"}, "same": {"ok"}} == statuses(found)
    assert "same against host" in done.stdout
    assert {OTHER_NUMPY} == {each.versions["numpy"] for each in found.workers if each.arm and each.arm.name == "other"}

    done, found = study(tmp_path_factory.mktemp("study"), "--pairs", 1, "--other-builds", *arms)
    assert (0, "") == (done.returncode, done.stderr)
    assert {"host": {"ok"}, "other": {"ok"}, "same": {"ok"}} == statuses(found)
    assert "a difference is a stack effect" in done.stdout
