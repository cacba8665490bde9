"""How long a thread has waited for a CPU at a moment: both are of the same one."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
import time

import pytest

from primbench.timing.queued import queued_s, with_queued_s

pytestmark = pytest.mark.skipif(math.isnan(queued_s()), reason="this kernel does not count how long threads wait")


def test_a_moment_is_read_again_where_its_thread_waited_for_a_cpu_meanwhile() -> None:
    cpu, moments, found = min(os.sched_getaffinity(0)), list[float](), list[tuple[float, float, float]]()

    def read() -> float:
        before_s = queued_s()
        moments.append(time.perf_counter())
        while len(moments) == 1 and queued_s() == before_s:
            pass
        return moments[-1]

    def bound() -> None:
        os.sched_setaffinity(0, {cpu})
        before_s = queued_s()
        found.append((before_s, *with_queued_s(read)))

    with subprocess.Popen(
        [sys.executable, "-c", f"import os\nos.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass"]
    ) as busy:
        thread = threading.Thread(target=bound)
        thread.start()
        thread.join()
        busy.kill()
    ((before_s, moment, waited_s),) = found
    assert len(moments) > 1
    assert moment == moments[-1]
    assert waited_s > before_s
