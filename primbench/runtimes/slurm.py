"""A node of a Slurm allocation, by srun: a step of its own that shares what the job has with all other steps."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from primbench.errors import InvalidRequest
from primbench.runtimes import afar, enroot, host
from primbench.runtimes.invocation import Invocation, answer, answers, client
from primbench.runtimes.runtime import RefusalWords, Runtime, met_by
from primbench.system.processes import folder_of, parent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.spec.arm import Arm

REACHES = frozenset({"slurm"})
REACHED_BY = met_by(REACHES)
OPTIONS = (
    "--overlap",  # else it waits until the job's own step has ended
    "--nodes=1",
    "--ntasks=1",
    "--cpu-bind=none",  # all CPUs that the job has there, as on any other machine
    "--mpi=none",
)
PASSED_ON = "--export=PATH,HOME,USER,LANG"  # not all that is here: the parcel has what is meant
# Of pyxis. What the image has of its own is its Python, and the home of this user is no part of it.
OF_IMAGE = ("--no-container-entrypoint", "--no-container-mount-home", "--container-writable")

ROOT = Path("/")
_JOB = re.compile(r"[0-9]+(\.([0-9]+|batch|interactive))?")
_STEP, _TASK = 2, 3  # columns of `scontrol listpids`; of a process that is no task's first "-"


def found() -> tuple[str | None, str]:
    """Why it cannot be used, or None, and the version of the client here."""
    reason, version = client("srun", "--version")
    return reason or _no_job(), version


def _no_job() -> str | None:
    if "SLURM_JOB_ID" in os.environ:
        return None
    return "there is no allocation: begin by `salloc --nodes=2`, or in a job"


def launch(arm: Arm, folder: Path, command: Sequence[str], *, gpus: bool) -> Invocation:
    """There the arm is a host, or a container of its; with an image alone it is in that, which pyxis starts."""
    if reason := _no_job():
        raise InvalidRequest(f"{reason}", arm=arm.name)
    order = afar.order_there(arm, REACHED_BY, command, gpus=gpus)
    return Invocation(worker=[*step(arm), *afar.first_command(arm)], first=afar.parcel(order))


def processes_here(job: str) -> list[int]:
    """Numbers of the processes that a job, such as "4711", or a step of one, "4711.0", has on this node.

    Its script comes first, or the task of the lowest number. Raises InvalidRequest.
    """
    if not _JOB.fullmatch(job):
        raise InvalidRequest(f"slurm:{job}: the number of a job, or of a step, as slurm:4711 and slurm:4711.0")
    reason, lines = answers(["scontrol", "listpids", job])
    if reason is not None:
        raise InvalidRequest(f"slurm:{job}: {reason.rstrip('.')}: be on a node that it runs on, as `squeue` shows them")
    tasks = [words for words in map(str.split, lines[1:]) if words[0].isdecimal()]
    tasks.sort(key=lambda words: (words[_TASK] == "-", words[_STEP] != "batch", int(words[0])))
    if not tasks:
        raise InvalidRequest(f"slurm:{job}: no process of it is on this node")
    return [int(words[0]) for words in tasks]


def is_of(job: str, pid: int) -> bool:
    """Whether a process is a task or the script of that job or step: its daemon for a step has started it."""
    of_steps = f"slurmstepd: [{job}{']' if '.' in job else '.'}".encode()
    with contextlib.suppress(OSError):
        by = parent(ROOT, pid)
        return (folder_of(ROOT, by) / "cmdline").read_bytes().startswith(of_steps)
    return False


def goes_on(job: str) -> bool:
    """Whether more steps of a job may begin; of one step, more of it does not."""
    reason, line = answer(["squeue", "--noheader", "--format=%t", "--jobs", job.partition(".")[0]])
    return "." not in job and reason is None and line in ("R", "S")


def step(arm: Arm) -> list[str]:
    """The client, but for the command."""
    has_image = arm.image is not None and arm.runtime_there is None
    if not has_image:
        return ["srun", *OPTIONS, PASSED_ON, f"--nodelist={arm.node}"]
    passed_on = ",".join([PASSED_ON, *(f"{name}={value}" for name, value in enroot.NO_LOGIN.items())])
    image = [f"--container-image={arm.image}", *OF_IMAGE]
    return ["srun", *OPTIONS, passed_on, f"--nodelist={arm.node}", *image]


RUNTIME = Runtime(
    rank=81,
    mechanisms=host.RUNTIME.mechanisms - {"ranks"},
    found=found,
    launch=launch,
    refusals=(
        RefusalWords(
            r"[Rr]equested node configuration is not available|Invalid node name",
            lambda arm: f"{arm.node} is none of this job's: `scontrol show hostnames` lists those that are",
        ),
        RefusalWords(
            r"Invalid job id|[Ee]xpired or invalid job|Job/step already completing",
            lambda arm: "the allocation has ended: begin in one that lasts as long as the study, --time=HOURS:00:00",
        ),
        RefusalWords(
            r"unrecognized option '--(no-)?container|Try \"srun --help\"",
            lambda arm: (
                f"srun starts images only by pyxis, which is not here: slurm:{arm.node},runtime=podman has its own"
            ),
        ),
        RefusalWords(
            r"pyxis: .*(URL \S+ returned|curl: )",
            lambda arm: (
                f"image={arm.image} was asked of a registry, as REGISTRY#NAME:TAG; a file on {arm.node} begins with /"
            ),
        ),
        RefusalWords(
            r"pyxis: .*(No such file or directory: /|Invalid image format|corruption)",
            lambda arm: (
                f"image={arm.image} is to be a squashfs file on {arm.node}: `unsquashfs -s FILE` there reads one"
            ),
        ),
        enroot.NO_SHELL,
        RefusalWords(
            r"execve\(\): \S+: No such file",
            lambda arm: (
                f"there is no {afar.python(arm)}{f' in image {arm.image}' if arm.image else ''}: "
                "name one by python=, as python=/opt/venv/bin/python"
            ),
        ),
        *afar.REFUSALS,
    ),
    gpus="ask for GPUs of the node where the job is begun, as by --gpus-per-node=1",
    reaches=REACHES,
)
