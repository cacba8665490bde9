from __future__ import annotations

import functools
import gc
import itertools
import json
import os
import random
import re
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from inspect import signature
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from click.testing import CliRunner, Result

from primbench.cli import main
from primbench.distributed.channel import Channel
from primbench.distributed.group import Group
from primbench.doctor import place
from primbench.doctor.place import Place
from primbench.errors import PrimbenchError
from primbench.gpu.nvidia import nvml
from primbench.system.cgroups import cgroup_folders

# How long an example takes is of what else the machine does.
hypothesis.settings.register_profile("untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("untimed")

STREAMS_APART: Any = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}  # click 8.1
ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))  # for bench/ alone, last: what else lies there is installed, which comes first
# CI sets this: a test that is skipped for want of what CI installs somewhere is a failure. With "core", where no
# framework is installed, one marked "wheel" is none: CI runs it with the wheel, too.
SKIP_NOTHING_INSTALLABLE = os.environ.get("PRIMBENCH_TESTS_SKIP_NOTHING_INSTALLABLE")
# Words by which a reason says that no package would help; those that a package would help must do without.
NOT_INSTALLABLE = re.compile(r"GPU|cupy|CUDA|/dev/nvidia|root|architecture|in no registry", re.IGNORECASE)


def failed_if_skipped(node: pytest.Item | pytest.Collector, report: pytest.TestReport | pytest.CollectReport) -> None:
    if not SKIP_NOTHING_INSTALLABLE or not report.skipped or not isinstance(report.longrepr, tuple):
        return
    reason, _, _ = report.longrepr[2].partition(": pip install")  # how to have a framework speaks of GPUs, too
    runs_elsewhere = SKIP_NOTHING_INSTALLABLE == "core" and node.get_closest_marker("wheel")
    if not runs_elsewhere and not NOT_INSTALLABLE.search(reason):
        report.outcome = "failed"
        report.longrepr = f"{node.nodeid}: skipped where nothing that CI installs somewhere may be missing: {reason}"


# What takes minutes, and what asks for root's rights or downloads a kernel, is run by name alone.
BY_NAME = [ROOT / "tests" / name for name in ("containers", "faults", "fuzz", "shipped", "slurm", "vm")]


def left_out(config: pytest.Config) -> list[Path]:
    """The folders of BY_NAME that lie in what was asked for, and in which nothing was."""
    asked = [(config.invocation_params.dir / argument.split("::")[0]).resolve() for argument in config.args]
    return [
        folder
        for folder in BY_NAME
        if any(folder.is_relative_to(path) for path in asked) and not any(path.is_relative_to(folder) for path in asked)
    ]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if collection_path in left_out(config) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests of verdicts, unless -m speaks of them or a test is named: those beside them take the CPUs."""
    if "quiet" in config.getoption("markexpr") or any("::" in argument for argument in config.args):
        return
    config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("quiet")])
    items[:] = [item for item in items if not item.get_closest_marker("quiet")]


def pytest_sessionstart(session: pytest.Session) -> None:
    gc.disable()  # while tests are collected, which makes hundreds of thousands of objects and next to no garbage
    os.environ["PRIMBENCH_CONFIG"] = os.devnull  # the defaults of whoever runs the tests are not asked
    # What is started inherits ignored signals: of a shell's background job Ctrl-C, under nohup the end of a terminal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    folders = " ".join(
        os.path.relpath(folder, session.config.invocation_params.dir) for folder in left_out(session.config)
    )
    if folders and (terminal := session.config.pluginmanager.get_plugin("terminalreporter")):
        left = "verdicts (pytest -m quiet), containers, machines, Slurm, faults, fuzzing and what is shipped"
        terminal.write_line(f"{left} are left to CI, and run when asked for: pytest {folders}")


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    failed_if_skipped(item, report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    failed_if_skipped(collector, report)
    return report


@pytest.fixture(scope="module", autouse=True)
def only_what_is_made_here_is_collected() -> None:
    """Whoever measures collects garbage first, for which all modules and tests would be gone through, 0.1 to 0.5 s."""
    gc.collect()
    gc.freeze()


TREES = sorted(path.stem for path in (ROOT / "tests/trees").glob("*.json"))


@functools.cache
def files_of(name: str) -> dict[str, str]:
    files: dict[str, str] = json.loads((ROOT / f"tests/trees/{name}.json").read_text())["files"]
    return files


def write_tree(root: Path, name: str) -> Path:
    files = files_of(name)
    for folder in {os.path.dirname(path) for path in files}:
        os.makedirs(root / folder, exist_ok=True)
    for path, text in files.items():
        (root / path).write_text(text)
    return root


@pytest.fixture
def tree(tmp_path: Path) -> Callable[[str], Path]:
    """``tree(name)``: the root of /proc, /sys and so on of another machine: tests/trees/NAME.json, written out."""
    return lambda name: write_tree(tmp_path / name, name)


def _folder_instead(path: Path, dice: random.Random) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Callable[[Path, random.Random], object]] = {
    "absent": lambda path, dice: path.unlink(),
    "empty": lambda path, dice: path.write_bytes(b""),
    "garbage": lambda path, dice: path.write_bytes(dice.randbytes(dice.randint(1, 80))),
    "words": lambda path, dice: path.write_text(dice.choice(["-1", "x", "0x1", "9" * 30, ":", "0-", "N/A", "٣", "\0"])),
    "truncated": lambda path, dice: path.write_bytes(path.read_bytes()[: dice.randrange(path.stat().st_size or 1)]),
    "a folder": _folder_instead,
}


@pytest.fixture(scope="session")
def corrupt() -> Callable[[Path, int], str]:
    """``corrupt(root, seed)`` damages one to three of the files under a root, and returns which and how."""

    def damage(root: Path, seed: int) -> str:
        dice = random.Random(seed)
        files = sorted(path for path in root.rglob("*") if path.is_file())
        done = []
        for path in dice.sample(files, dice.randint(1, 3)):
            name = dice.choice(sorted(DAMAGES))
            DAMAGES[name](path, dice)
            done.append(f"{path.relative_to(root)}: {name}")
        return ", ".join(done)

    return damage


@contextmanager
def without_nvml() -> Iterator[None]:
    """As where pynvml is not installed: NVML would speak of this machine and not of a tree's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pynvml", None)
        nvml.library.cache_clear()
        yield
    nvml.library.cache_clear()


@pytest.fixture
def no_nvml() -> Iterator[None]:
    with without_nvml():
        yield


@pytest.fixture(scope="session")
def damaged(corrupt: Callable[[Path, int], str]) -> list[tuple[str, Place]]:
    """What is seen of every tree damaged in two ways, and which: looked at once for all tests that read it."""
    found = []
    in_memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # thousands of files, which take a disk a minute
    with tempfile.TemporaryDirectory(dir=in_memory) as folder, without_nvml():
        for seed in range(2 * len(TREES)):
            name = TREES[seed % len(TREES)]
            root = write_tree(Path(folder, "root"), name)
            damage = corrupt(root, seed)
            found.append((f"{name}, {damage}", place.look(root)))
            shutil.rmtree(root)
    return found


@pytest.fixture(scope="session")
def faulty_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH: a copy of the package that has the primitive ``faulty``, too."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "primbench", folder / "primbench")
    shutil.copy(ROOT / "tests/primbench/fixtures/faulty.py", folder / "primbench/kernels/faulty.py")
    return folder


@pytest.fixture(scope="session")
def on_every_rank() -> Callable[..., list[Any]]:
    """``on_every_rank(size, code)``: what ``code(group)`` returns on each rank, or raises there.

    Ranks are threads: each has its own end of a socket, and knows of the others by it alone.
    """

    def run(size: int, code: Callable[[Group], Any]) -> list[Any]:
        def outcome(group: Group) -> Any:
            try:
                return code(group)
            except Exception as error:
                for end in ends[group.rank]:  # nobody is to wait for this rank
                    end.shutdown(socket.SHUT_WR)
                return error

        with ExitStack() as closing, ThreadPoolExecutor(size) as pool:
            pairs = [socket.socketpair() for _ in range(size - 1)]
            for end in itertools.chain(*pairs):
                closing.enter_context(end)
            ends = [[ours for ours, _ in pairs], *([theirs] for _, theirs in pairs)]
            zero = Group(0, size, [Channel(ours) for ours, _ in pairs])
            others = [Group(rank, size, [Channel(theirs)]) for rank, (_, theirs) in enumerate(pairs, 1)]
            return list(pool.map(outcome, [zero, *others]))

    return run


@pytest.fixture(scope="session")
def invoke() -> Callable[..., Result]:
    """The command line in this process. An exception that the command line does not handle is raised."""

    def run(*arguments: Any) -> Result:
        return CliRunner(**STREAMS_APART).invoke(
            main, [str(a) for a in arguments], prog_name="primbench", catch_exceptions=False
        )

    return run


@pytest.fixture(scope="session")
def refusal(invoke: Callable[..., Result]) -> Callable[..., str]:
    """The one error line of a command that exits with 2 and says nothing else."""

    def of(*arguments: Any) -> str:
        result = invoke(*arguments)
        assert (2, "") == (result.exit_code, result.stdout), result.output
        (error,) = result.stderr.splitlines()
        assert error.startswith("Error: "), result.stderr
        return error.removeprefix("Error: ")

    return of


@pytest.fixture(scope="session")
def measured(invoke: Callable[..., Result], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """A small results file, and what the command that made it printed: two cases ok, one skipped."""
    path = tmp_path_factory.mktemp("measured") / "results.jsonl"
    dtypes = ("--dtype", "float32", "--dtype", "float64", "--dtype", "bfloat16")
    times = ("--min-time", "5ms", "--max-time", "20ms")
    return path, invoke(
        "gemm", "-m", 16, "-n", 24, "-k", 8, *dtypes, *times, "--backend", "numpy", "--label", "where=here", "-o", path
    )


@pytest.fixture
def group() -> Iterator[Callable[[str, dict[str, str]], Path]]:
    """``group(controller, settings)``: a control group below this process's own, removed at the end."""
    made: list[Path] = []

    def make(controller: str, settings: dict[str, str]) -> Path:
        try:
            folder = cgroup_folders(controller)[0] / f"primbench-test-{os.getpid()}"
            folder.mkdir()
            made.append(folder)
            for name, value in settings.items():
                (folder / name).write_text(value)
        except (OSError, ValueError, PrimbenchError) as error:
            pytest.skip(f"needs root's leave to make a control group with {controller}: {error}")
        return folder

    yield make
    for folder in made:
        folder.rmdir()
