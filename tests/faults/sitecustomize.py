"""In workers of a run with HALF_LINE=N in its environment: half of the Nth line is said, then the process is gone."""

import os
import sys

if "HALF_LINE" in os.environ and "primbench.workers.worker" in sys.orig_argv:
    import threading

    from primbench.workers import protocol

    said = 0
    encode = protocol.encode

    class Half(bytes):
        def __add__(self, end: object) -> bytes:
            threading.Timer(0.01, os._exit, (1,)).start()
            return bytes(self[: len(self) // 2])

    def encode_or_die(message: object) -> bytes:
        global said
        said += 1
        text = encode(message)
        return Half(text) if said == int(os.environ["HALF_LINE"]) else text

    protocol.encode = encode_or_die  # type: ignore[assignment]
