"""Files: what is read and written is checked, nothing stays behind, and what a place does not allow is said so."""

from __future__ import annotations

import errno
import io
import mmap
import os
import pickle
import re
import resource
import runpy
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from primbench import Method, measure
from primbench.backends import open_backend
from primbench.errors import InvalidRequest, PrimbenchError, UnsupportedCase, VerificationError
from primbench.kernels.files import Files, _readers
from primbench.measurement import Measurement, Samples
from primbench.problem import Step, description_of
from primbench.registry import setup_of
from primbench.system.page_cache import COLD, held_share
from primbench.timing.files import PREFIX, DataFolder
from primbench.timing.verify import check_output

from ..processes import children

if TYPE_CHECKING:
    from click.testing import Result

pytestmark = pytest.mark.usefixtures("temporary")
QUICK = Method(min_time_s=0.001, max_time_s=0.005)
DENYING = Path(__file__).parents[1] / "seccomp.py"
IN_MEMORY = "/dev/shm"


def prepared(problem: Files) -> tuple[Step, Callable[[], float]]:
    """A step, and what checks it."""
    backend, rng = open_backend("numpy", "cpu"), np.random.default_rng(1)
    inputs = problem.inputs(rng)
    step = setup_of("files", "numpy")(backend, problem, *inputs)
    return step, lambda: check_output(backend, problem, step, problem.reference(rng, *inputs))


def made_in(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{PREFIX}*/*"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"what": "delete"}, "what='delete': one of read, small, shards, mmap, write"),
        ({"what": "mmap", "access": "direct"}, "what='mmap' access='direct': only read, small, shards, write"),
        ({"what": "small", "access": "io_uring"}, "what='small' access='io_uring': only read, shards"),
        ({"bytes": 5000, "access": "direct"}, "bytes=5000: a multiple of 4096"),
        ({"block_bytes": 100, "access": "direct"}, "block_bytes=100: a multiple of 4096"),
        ({"what": "write", "page_cache": "cold"}, "page_cache='cold': nothing is read that could be cold"),
        ({"readers": 3}, "readers=3: there are 1 blocks to be shared"),
        ({"bytes": 2**40, "block_bytes": 1}, "1099511627776 blocks, 4194304 are the most"),
        ({"what": "small", "bytes": 2**31}, "block_bytes=2147483648: at most 1073741824"),
        ({"path": "a\0b"}, "a name that can be shown"),
        ({"path": os.fsdecode(b"/tmp/\xff")}, "a name that can be shown"),
    ],
)
def test_nonsense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        Files(**{"bytes": 65_536, **options})


def test_what_is_left_open_follows_from_what_is_done(monkeypatch: pytest.MonkeyPatch, temporary: Path) -> None:
    small, read = Files(5000, what="small"), Files(5000)
    assert (100, 5000, 500_000) == (small.files, small.block_bytes, small.bytes_moved())
    assert (1, 5000, "TMPDIR") == (read.files, read.block_bytes, read.path)
    monkeypatch.chdir(temporary)
    assert str(temporary / "here") == Files(1, path="here").path


@pytest.mark.parametrize("what", ["read", "small", "shards", "mmap", "write"])
def test_what_is_read_or_written_is_checked_and_says_where(what: str, temporary: Path) -> None:
    problem = Files(20_000, 4096, what=what, readers=2)
    found = measure(problem, "numpy", "cpu", method=QUICK)
    assert (True, problem.files * 20_000) == (found.verified, found.bytes_moved)
    assert found.algorithm is not None
    assert " on /" in found.algorithm
    assert problem.figures(found)["file_s"] == pytest.approx(found.batch_s.median_s / problem.files)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "options",
    [{"what": "read"}, {"what": "mmap"}, {"what": "small", "files": 3}, {"access": "io_uring"}, {"reader": "process"}],
)
def test_another_byte_is_found(options: dict[str, Any], temporary: Path) -> None:
    try:
        step, check = prepared(Files(20_480, 4096, **options))
    except UnsupportedCase as reason:  # no io_uring in this place
        pytest.skip(str(reason))
    assert 0.0 == check()
    changed = made_in(temporary)[-1]
    with open(changed, "r+b") as file:
        file.seek(8192)
        byte = file.read(1)[0]
        file.seek(8192)
        file.write(bytes([byte ^ 1]))
    with pytest.raises(VerificationError, match="wrong result: 1 of"):
        check()
    os.truncate(changed, 8000)
    with pytest.raises((PrimbenchError, VerificationError)):
        check()
    del step, check


def test_what_is_not_written_again_is_found(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step, check = prepared(Files(20_000, 4096, what="write"))
    assert 0.0 == check()
    monkeypatch.setattr(os, "pwritev", lambda file, parts, offset: len(parts[0]))
    with pytest.raises(PrimbenchError, match="a file ends at 0 bytes that is to have 4096"):
        check()
    del step, check


def test_cold_files_are_not_in_the_page_cache(temporary: Path) -> None:
    try:
        step, check = prepared(Files(2**20, 2**16, page_cache="cold"))
    except UnsupportedCase as reason:  # TMPDIR in memory
        pytest.skip(str(reason))
    before, (path,) = description_of(step).before, [str(each) for each in made_in(temporary)]
    assert before is not None
    assert 0.0 == check()
    assert 1.0 == held_share([path])
    before()
    assert held_share([path]) <= COLD
    del step, check


def test_a_tmpfs_has_nothing_cold_and_direct_only_if_the_kernel_says_so() -> None:
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:  # other processes' files are in /dev/shm itself
        with pytest.raises(
            UnsupportedCase, match=r"100.0% of the files stay in the page cache of tmpfs on /dev/shm: ask"
        ):
            measure(Files(8192, page_cache="cold", path=folder), "numpy", "cpu", method=QUICK)
        try:
            found = str(measure(Files(8192, access="direct", path=folder), "numpy", "cpu", method=QUICK).verified)
        except UnsupportedCase as reason:
            found = str(reason)
        assert re.match("True$|tmpfs on /dev/shm has no access=direct to 8192 bytes at a time: EINVAL", found)
        assert not list(Path(folder).iterdir())


def test_a_file_system_that_maps_no_files_is_said_so(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mapped = mmap.mmap

    def memory_alone(file: int, *arguments: Any, **options: Any) -> object:
        """As 9p has it without a cache, and FUSE where it reads directly."""
        if file >= 0:
            raise OSError(errno.ENODEV, "No such device")
        return mapped(file, *arguments, **options)

    monkeypatch.setattr(mmap, "mmap", memory_alone)
    with pytest.raises(UnsupportedCase, match=r" on /.* maps no files: ENODEV; ask for what=read"):
        prepared(Files(4096, what="mmap"))
    with pytest.raises(
        UnsupportedCase, match=r"keeps in memory cannot be seen: No such device: ask for page_cache=warm"
    ):
        prepared(Files(4096, page_cache="cold"))
    assert prepared(Files(4096))[1]() == 0.0


def test_folders_that_cannot_be_written_to_are_named(temporary: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(temporary)
    words = {
        str(tmp_path / "nowhere"): "No such file or directory",
        str(tmp_path / "file"): "Not a directory",
        str(tmp_path / "fifo"): "Not a directory",
        "/proc": "No such file or directory",
        str(tmp_path / ("long" * 100)): "File name too long",
    }
    for path, why in words.items():
        with pytest.raises(PrimbenchError, match=f"files in {path}: {why}: in every arm it takes a folder"):
            prepared(Files(4096, path=path))
    assert measure(Files(4096, path=str(tmp_path / "link")), "numpy", "cpu", method=QUICK).verified


def test_a_folder_that_is_not_there_fails_in_one_line(invoke: Callable[..., Result]) -> None:
    found = invoke("files", "--bytes", "4KiB", "--path", "/nowhere", "--dry-run")
    assert 1 == found.exit_code
    assert "failed: files in /nowhere: No such file or directory: in every arm it takes a folder" in found.stdout


@pytest.fixture
def limited() -> Iterator[Callable[[int, int], None]]:
    """Sets soft limits of this process until the end of the test."""
    before: dict[int, tuple[int, int]] = {}

    def limit(which: int, soft: int) -> None:
        before[which] = resource.getrlimit(which)
        resource.setrlimit(which, (soft, before[which][1]))

    yield limit
    for which, limits in before.items():
        resource.setrlimit(which, limits)


def test_what_does_not_fit_is_refused(temporary: Path, limited: Callable[[int, int], None]) -> None:
    with pytest.raises(UnsupportedCase, match=r"needs [\d.]+ TiB of .* free: smaller or fewer files"):
        prepared(Files(2**44, 2**24))
    limited(resource.RLIMIT_FSIZE, 100_000)
    with pytest.raises(PrimbenchError, match="File too large: RLIMIT_FSIZE, or the file system, allows no file so"):
        prepared(Files(100_001))
    assert prepared(Files(100_000))[1]() == 0.0


def test_many_files_need_few_descriptors_unless_they_are_open_together(
    temporary: Path, limited: Callable[[int, int], None]
) -> None:
    limited(resource.RLIMIT_NOFILE, len(os.listdir("/proc/self/fd")) + 15)
    assert prepared(Files(100, what="small", files=50))[1]() == 0.0
    with pytest.raises(PrimbenchError, match="Too many open files: RLIMIT_NOFILE allows no more"):
        prepared(Files(100, what="shards", files=50))


def test_what_was_left_behind_goes_and_what_is_in_use_stays(temporary: Path) -> None:
    left, other = temporary / f"{PREFIX}left", temporary / "primbench-files"
    left.mkdir()
    (left / "0").touch()
    other.mkdir()
    one = DataFolder(str(temporary))
    two = DataFolder(str(temporary))
    assert sorted([one.path, two.path, str(other)]) == sorted(map(str, temporary.iterdir()))
    one.remove()
    two.remove()
    other.rmdir()


def until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_nothing_is_left_after_an_interrupt(temporary: Path) -> None:
    asked = "files --bytes 64KiB --what small --reader process --readers 2 --min-time 60s --max-time 60s"
    running = subprocess.Popen(
        [sys.executable, "-m", "primbench", *asked.split()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    until(lambda: made_in(temporary))
    running.send_signal(signal.SIGINT)
    assert 130 == running.wait(60)
    until(lambda: not list(temporary.iterdir()))


def test_a_filter_that_refuses_io_uring_is_named(temporary: Path) -> None:
    def refused() -> str:
        runpy.run_path(str(DENYING))["deny"](["io_uring_setup"])  # to this thread alone
        with pytest.raises(UnsupportedCase) as reason:
            prepared(Files(4096, access="io_uring"))
        return str(reason.value)

    with ThreadPoolExecutor(1) as thread:
        reason = thread.submit(refused).result()
    assert reason.startswith("io_uring_setup: EPERM; kernel.io_uring_disabled is ")
    assert "Seccomp is 2 (a filter): ask for access=buffered" in reason


def test_a_reader_that_is_killed_ends_the_call(temporary: Path) -> None:
    step, check = prepared(Files(65_536, 4096, readers=2, reader="process"))
    assert 0.0 == check()
    readers = children("primbench.kernels.files._process")
    readers[-1].kill()
    with pytest.raises(PrimbenchError, match="reader was killed by SIGKILL"):
        step()
    del step, check


@pytest.mark.parametrize("length", [0, 20])
def test_of_a_reader_that_ends_within_an_answer_it_is_told_what_it_died_of(length: int) -> None:
    said = io.BytesIO(pickle.dumps(list(range(99)))[:length])
    reader = _readers._Process.__new__(_readers._Process)
    reader._child = SimpleNamespace(process=SimpleNamespace(stdout=said), cause_of_death=lambda: "died")  # type: ignore[assignment]
    assert "died" == str(reader.answer())


def test_file_is_the_time_of_one() -> None:
    samples = Samples(samples_s=[4e-3], calls_per_sample=1, taken_by="host clock", stopped="count")
    assert {"file_s": 1e-3} == Files(100, what="small", files=4).figures(Measurement(batch_s=samples))
    assert {"file_s": None} == Files(100).figures(Measurement())
