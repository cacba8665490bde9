"""The files of a problem, and the call that goes through them."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import weakref
from typing import TYPE_CHECKING, Any

from primbench.errors import UnsupportedCase
from primbench.kernels.files._content import stretch
from primbench.kernels.files._reader import Share
from primbench.kernels.files._readers import team_of
from primbench.kernels.files.problem import TMPDIR
from primbench.problem import Step, described
from primbench.system.files import attempt
from primbench.system.page_cache import COLD, held_share, write_back
from primbench.timing.files import DataFolder, cooling, said

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.kernels.files._readers import Team
    from primbench.kernels.files.problem import Files
    from primbench.problem import Array


def step_of(problem: Files, contents: Array) -> Step:
    """The files are there until the step is not. The step says by ``algorithm`` on which file system.

    Raises UnsupportedCase where that, the kernel or a filter lacks what is asked for, PrimbenchError where the folder
    cannot be written to.
    """
    with contextlib.ExitStack() as opened:
        folder = DataFolder("" if problem.path == TMPDIR else problem.path)
        opened.callback(folder.remove)
        with said(folder.path):
            folder.check_space(problem.files, problem.bytes_moved())
            paths = _make(problem, folder.path, contents.data.cast("B"))
            shares = _shares(problem, paths, contents)
            team = _ready(problem, folder, shares, opened)
            before = cooling(folder.where, paths) if problem.page_cache == "cold" else None
            where = folder.where if before else _where(problem, folder, paths)
        kept = opened.pop_all()
    output = Sums(problem, paths, shares)

    def step() -> Any:
        found = team(sums=output.wanted)
        if output.wanted:
            output.take(found)
        return output

    weakref.finalize(step, kept.close)
    return described(step, algorithm=where, host_buffers=[], before=before)


class Sums:
    """The output of a call: the sums of what it read, or of what is in the files that it wrote, where they are wanted.

    It has them of the call that follows poison() alone: to add up takes longer than to read.
    """

    def __init__(self, problem: Files, paths: Sequence[str], shares: Sequence[Share]) -> None:
        import numpy as np

        self._emptied = paths if problem.what == "write" else ()
        self._numbers = [[block.number for block in share.blocks] for share in shares]
        self._found = np.empty(sum(map(len, self._numbers)), np.int64)
        self.wanted = False

    def poison(self) -> None:
        from primbench.dtypes import poison_host

        poison_host(self._found)
        for path in self._emptied:
            os.truncate(path, 0)
        self.wanted = True

    def take(self, found: Sequence[Sequence[int]]) -> None:
        for numbers, sums in zip(self._numbers, found, strict=True):
            self._found[numbers] = sums
        self.wanted = False

    def get(self) -> Array:
        return self._found.copy()


def _make(problem: Files, folder: str, contents: memoryview) -> list[str]:
    """The paths of all files, written back to the disk."""
    paths = [os.path.join(folder, f"{file:07}") for file in range(problem.files)]
    for path in paths:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    for file, blocks in itertools.groupby(sorted(problem.blocks()), lambda block: block.file):
        with open(paths[file], "r+b", buffering=0) as opened:
            for block in blocks:
                _write(opened.fileno(), stretch(contents, block), block.offset)
    write_back(folder)
    return paths


def _write(file: int, part: memoryview, offset: int) -> None:
    """All of it: a file system takes less at a time where a limit is near."""
    while part:
        written = os.pwrite(file, part, offset)
        part, offset = part[written:], offset + written


def _shares(problem: Files, paths: Sequence[str], contents: Array) -> list[Share]:
    """Blocks in a row for each reader where they are read in a row, else dealt out like cards."""
    blocks, readers = problem.blocks(), problem.readers
    if problem.is_shuffled:
        parts = [blocks[reader::readers] for reader in range(readers)]
    else:
        ends = [len(blocks) * reader // readers for reader in range(readers + 1)]
        parts = [blocks[first:end] for first, end in itertools.pairwise(ends)]
    held = contents.tobytes() if problem.what == "write" else None
    return [Share(problem, paths, part, held) for part in parts]


def _ready(problem: Files, folder: DataFolder, shares: Sequence[Share], opened: contextlib.ExitStack) -> Team:
    """The readers after a first call. Raises UnsupportedCase where the file system has no such access."""
    try:
        team = team_of(shares, problem.reader, opened)
        team(sums=False)
    except OSError as error:
        if problem.is_mapped and error.errno == errno.ENODEV:
            raise UnsupportedCase(f"{folder.where} maps no files: ENODEV; ask for what=read, or another path") from None
        if problem.access == "buffered" or error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
            raise
        raise UnsupportedCase(
            f"{folder.where} has no access={problem.access} to {problem.block_bytes} bytes at a time: "
            f"{errno.errorcode[error.errno]}; ask for access=buffered, or another path"
        ) from None
    return team


def _where(problem: Files, folder: DataFolder, paths: Sequence[str]) -> str:
    """The file system, and about how much of the files the page cache has after a call, if that is not all."""
    share = attempt({}, "", lambda: held_share(paths)) if problem.access != "direct" else None
    if share is None or share > 1 - COLD:
        return folder.where
    return f"{folder.where}, about {share:.1f} of the files in the page cache"
