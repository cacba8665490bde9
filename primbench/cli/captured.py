"""What a suite says of the step that it was captured from, and how its cases are measured alike."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench.cli.echo import say
from primbench.doctor.cause import listed
from primbench.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from primbench.cli.options import How, Where
    from primbench.spec.captured import Captured
    from primbench.spec.case import Case


def threads_of(captured: Iterable[Captured | None], where: Where | None = None) -> int | None:
    """``--threads``, else with how many the steps were captured, which is said; None leaves it to the libraries.

    where: None where places say that themselves. Raises InvalidRequest where steps had different ones.
    """
    counts = {each.threads for each in captured if each is not None and each.threads is not None}
    asked = where.threads if where is not None else None
    if asked is not None or not counts:
        return asked
    if len(counts) > 1:
        several = listed(sorted(counts))
        raise InvalidRequest(f"steps captured with {several} threads: name --threads, or measure one after the other")
    (threads,) = counts
    words = f"{threads} thread{'s' * (threads != 1)}"
    option = "--threads" if where is not None else "an arm's threads="
    if reason := _why_not(threads, where):
        say(f"captured with {words}, {reason}: libraries choose how many, or {option} says it", err=True)
        return None
    say(f"with {words} of CPU libraries, as it was captured, unless {option} says otherwise", err=True)
    return threads


def as_in_step(cases: Iterable[Case], how: How) -> list[Case]:
    """Parts of a step with what the step touches between their uses, by which their cache is hot or cold.

    As they are where ``--cache`` says which.
    """
    if how.cache is not None:
        return list(cases)
    return [
        replace(case, method=replace(case.method, reuse_bytes=_reuse_bytes(case.labels["reuse_bytes"])))
        if "reuse_bytes" in case.labels
        else case
        for case in cases
    ]


def _reuse_bytes(label: str) -> int | tuple[int, ...]:
    found = json.loads(label)
    return tuple(found) if isinstance(found, list) else int(found)


def _why_not(threads: int, where: Where | None) -> str | None:
    """Threads that have no CPU of their own wait for each other, which says nothing of the step."""
    chosen = () if where is None else (where.cpus, where.numa_node, where.cpu_node, where.cpu_kind)
    if any(each is not None for each in chosen):
        return "and placed on other CPUs now"
    available = len(os.sched_getaffinity(0))
    return f"more than the {available} CPUs here" if threads > available else None
