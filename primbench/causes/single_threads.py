"""Threads of a process that are scheduled apart from its first one, and workers that it forked."""

from __future__ import annotations

from primbench.causes import OF_FILES, ON_CPU
from primbench.doctor.cause import Cause
from primbench.watching.on_cpus import left_on_few

RANK = 4

CAUSES = (
    Cause("thread-cpus", slows=(*ON_CPU, "copy", "collective", *OF_FILES),
          explains_away=("thread-cpus", "threads", "cpu-contention", "launches"), in_job=left_on_few),
)  # fmt: skip
