"""A reader that is a process: a share and then calls in on stdin, answers out on stdout. It ends with its stdin."""

from __future__ import annotations

import contextlib
import pickle
import sys
from typing import TYPE_CHECKING

from primbench.kernels.files._reader import Reader, open_share
from primbench.kernels.files._readers import answer_of

if TYPE_CHECKING:
    from primbench.kernels.files._readers import Answer


def main() -> None:
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    share = pickle.load(source)
    with contextlib.ExitStack() as opened, contextlib.suppress(EOFError):
        opening: Reader | Exception
        try:
            opening = open_share(share, opened)
        except Exception as error:  # the answer to every call
            opening = error
        while True:
            sums = pickle.load(source)
            answer: Answer = opening if isinstance(opening, Exception) else answer_of(opening, sums=sums)
            pickle.dump(answer, sink)
            sink.flush()


if __name__ == "__main__":
    main()
