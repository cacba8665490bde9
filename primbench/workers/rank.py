"""A further rank of a collective: `python -P -m primbench.workers.rank DESCRIPTOR LOCAL_RANK`.

The descriptor is a socket whose other end is rank 0; the local rank says which GPU of this host it takes. It does what
rank 0 does, case by case, and reports nothing: what the ranks agree on, rank 0 tells the main process. An error ends
it, and its last words are the reason that the main process gives.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import traceback
from contextlib import suppress
from typing import NoReturn

from msgspec.structs import replace

from primbench.distributed.channel import Channel
from primbench.distributed.group import Group, Refused
from primbench.errors import BackendUnavailable, VerificationError
from primbench.system.refused_calls import refused_calls_named
from primbench.timing.case import measure_on
from primbench.timing.raised import one_line
from primbench.workers.meeting import come_together
from primbench.workers.protocol import Enlist, Prepare, Task
from primbench.workers.worker import begin, die_with_parent, own_streams, prepared, turns_of


def main() -> None:
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the main process's to handle; it ends this process
    channel = Channel(socket.socket(fileno=int(sys.argv[1])))
    kept_open = own_streams()  # the main process sees their end when this process ends
    try:
        serve(channel, int(sys.argv[2]))
    except EOFError:  # rank 0 has ended, and nobody asks
        pass
    except Exception as error:
        traceback.print_exc()  # seen with --verbose
        print(one_line(error), file=sys.stderr, flush=True)
        os._exit(1)
    del kept_open
    os._exit(0)


def serve(channel: Channel, local_rank: int) -> NoReturn:
    """Be one rank: come together with the others, then run each case that arrives. Raises EOFError at the end."""
    enlisted = channel.receive(Enlist)
    start = enlisted.start
    group = Group(enlisted.rank, enlisted.size, [channel], start.address, joined=start.network is not None)
    try:
        start = replace(start, device=come_together(group, start, local_rank))
        with group.refusing_together(), refused_calls_named(BackendUnavailable):
            backend, _ = begin(start)
        group.agree()
    except Refused:  # rank 0 reports it for every case
        channel.receive(Task)
    while True:
        word = channel.receive(Task, Prepare)
        if isinstance(word, Prepare):
            prepared(word, backend.device, group)
            continue
        assert isinstance(word, Task)
        with suppress(Refused, VerificationError):  # all ranks know of these
            turns = turns_of(word, group, None)
            case = word.case
            measure_on(backend, case.problem(), case.method, group, turns=turns, kernel=case.kernel)
        gc.collect()
        backend.release()


if __name__ == "__main__":
    main()
