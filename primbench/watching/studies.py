"""Studies that prove a cause: commands of primbench with the settings of a job filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.spec.settings import FIELDS, PLACEMENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.watching.job import Job


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


def of_quota(job: Job) -> str | None:
    """Without the quota, and with it."""
    quota = job.limits.cpu_quota
    if quota is None:
        return None
    return _study(
        _arm(_own_cpus(job)),
        _arm(_own_cpus(job), f"cpus={FIELDS['cpus'].write(quota)}"),
        "--primitive launch --primitive gemm",
    )


def of_neighbours(job: Job) -> str:
    """Alone, and beside another process."""
    return _study("shared", _arm(_own_cpus(job)))


def of_threads(cpus: Sequence[int], threads: int) -> str:
    """As many threads as there are CPUs, and as many as the job has."""
    own = _bound(cpus)
    return _study(_arm(own, f"threads={len(cpus)}"), _arm(own, f"threads={threads}"), "--primitive gemm")


def of_disk(job: Job) -> str:
    """Files on the disk, and in memory."""
    return _study(_arm(_own_cpus(job)), _arm(_own_cpus(job), "tmpfs=/tmp"), "--primitive files")


def of_memory(job: Job) -> str | None:
    """Without the limit, and with it."""
    limit = job.limits.memory_limit_bytes
    if limit is None:
        return None
    with_limit = _arm(_own_cpus(job), f"memory={FIELDS['memory'].write(limit)}")
    return _study(_arm(_own_cpus(job)), with_limit, "--primitive files --primitive memcpy")


def of_launches(job: Job) -> str:
    """On the job's CPUs, and on those of the GPU's node."""
    return _study(_arm(_own_cpus(job)), _arm("numa-node=auto"), "--primitive launch")


def of_copies(job: Job) -> str:
    """On the job's CPUs, and on those of the GPU's node."""
    return _study(_arm(_own_cpus(job)), _arm("numa-node=auto"), "--primitive memcpy")
