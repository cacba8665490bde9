"""The memory of ranks: what a rank 0 hands over is opened, and nothing else that it may name."""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from primbench.distributed.group import Group
from primbench.errors import UnsupportedCase
from primbench.kernels.allreduce._shared import _open_file, open_made, share

LENGTH_BYTES = 2 * mmap.PAGESIZE
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def memory(name: str = "primbench", length_bytes: int = LENGTH_BYTES, seals: int = SEALS) -> int:
    file = os.memfd_create(name, os.MFD_ALLOW_SEALING)
    os.truncate(file, length_bytes)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)
    return file


def test_memory_of_rank_0_is_the_same_memory_elsewhere() -> None:
    made = _open_file(Group(), LENGTH_BYTES)
    opened = open_made(os.getpid(), made, LENGTH_BYTES)
    os.pwrite(made, b"sum", 0)
    assert b"sum" == os.pread(opened, 3, 0)
    for file in (made, opened):
        os.close(file)


def test_memory_stays_as_long_as_all_ranks_have_mapped_it() -> None:
    shared = share(Group(), 100)
    assert [100] == [part.size for part in shared.buffers]
    shared.summed[:] = 7
    assert np.all(shared.summed == 7)


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: memory(name="another"),
        lambda folder: memory(length_bytes=mmap.PAGESIZE),
        lambda folder: memory(seals=fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL),
        lambda folder: os.pipe()[1],
        lambda folder: os.open(folder / "precious", os.O_RDONLY),
        lambda folder: os.open(folder, os.O_RDONLY),
        lambda folder: os.open("/dev/zero", os.O_RDONLY),
    ],
    ids=["another name", "another length", "may shrink", "a pipe", "a file", "a folder", "a device"],
)
def test_what_no_rank_made_is_not_opened(tmp_path: Path, make: Callable[[Path], int]) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"p" * LENGTH_BYTES)
    descriptor = make(tmp_path)
    with pytest.raises(UnsupportedCase, match="is no memory that a rank has made"):
        open_made(os.getpid(), descriptor, LENGTH_BYTES)
    assert b"p" * LENGTH_BYTES == precious.read_bytes()
    os.close(descriptor)


def test_a_path_in_place_of_numbers_is_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"p" * LENGTH_BYTES)
    for process, number in ((f"../{precious}", 0), (os.getpid(), f"../../..{precious}"), (None, None)):
        with pytest.raises(UnsupportedCase, match="are not two numbers"):
            open_made(process, number, LENGTH_BYTES)


def test_memory_that_is_gone_says_where_it_was_looked_for() -> None:
    with pytest.raises(UnsupportedCase, match=r"/proc/\d+/fd/-1: No such file or directory"):
        open_made(os.getpid(), -1, LENGTH_BYTES)
