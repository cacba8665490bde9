"""What a cause can do to a job, and the study that proves it: a command with the job's own settings filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.spec.settings import FIELDS, PLACEMENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.doctor.job import Job


def _own_cpus(job: Job) -> str:
    """The CPUs that it is bound to, as an arm has them; "" where it may use all."""
    return "" if len(job.limits.cpus_allowed) == job.cpus_total else _bound(job.limits.cpus_allowed)


def _bound(cpus: Sequence[int]) -> str:
    return f"bind-cpus={PLACEMENT['bind-cpus'].write(cpus)}"


def _arm(*settings: str) -> str:
    given = [setting for setting in settings if setting]
    return f"--arm host:{','.join(given)}" if given else "--arm host"


def _study(*words: str) -> str:
    return " ".join(["primbench study", *words])


def times(share: float) -> str:
    """How much longer what is held back for this share of the time takes."""
    return f"up to {1 / max(1 - share, 0.01):.1f} times as long"


def _with(job: Job, setting: str | None, primitives: str) -> str | None:
    """Without a setting, and with it; None of a job that has none."""
    arms = _arm(_own_cpus(job)), _arm(_own_cpus(job), setting or "")
    return _study(*arms, *(f"--primitive {each}" for each in primitives.split())) if setting else None


def of_quota(job: Job) -> str | None:
    quota = job.limits.cpu_quota
    return _with(job, None if quota is None else f"cpus={FIELDS['cpus'].write(quota)}", "launch gemm")


def of_memory(job: Job) -> str | None:
    limit = job.limits.memory_limit_bytes
    return _with(job, None if limit is None else f"memory={FIELDS['memory'].write(limit)}", "files memcpy")


def of_disk(job: Job) -> str | None:
    """Files on the disk, and in memory."""
    return _with(job, "tmpfs=/tmp", "files")


def of_neighbours(job: Job) -> str:
    """Alone, and beside another process."""
    return _study("shared", _arm(_own_cpus(job)))


def of_threads(cpus: Sequence[int], threads: int) -> str:
    """As many threads as there are CPUs, and as many as the job has."""
    own = _bound(cpus)
    return _study(_arm(own, f"threads={len(cpus)}"), _arm(own, f"threads={threads}"), "--primitive gemm")


def of_node(job: Job, question: str) -> str:
    """On the job's CPUs, and on those of the GPU's node."""
    return _study(_arm(_own_cpus(job)), _arm("numa-node=auto"), question)
