"""The machine itself: no container, and limits by a control group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.runtimes import mps
from primbench.runtimes.invocation import Invocation, python, variables
from primbench.runtimes.mps import service
from primbench.runtimes.runtime import RefusalWords, Runtime

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from primbench.spec.arm import Arm


def found() -> tuple[str | None, str]:
    """No reason against using it, and the kernel's version: the machine itself is always there."""
    import platform

    return None, platform.release()


def launch(arm: Arm, folder: Path, command: Sequence[str], *, gpus: bool) -> Invocation:
    shared = service(arm, folder)
    return Invocation(
        before=[mps.command("start")] * bool(shared),
        worker=[*command],
        after=[mps.command("quit")] * bool(shared),
        environment=variables(arm, folder) | shared,
    )


RUNTIME = Runtime(
    rank=0,
    mechanisms=frozenset(
        {"group", "groups", "mps", "process", "python", "surroundings", "mounts", "overlays", "binds", "files", "ranks"}
    ),
    found=found,
    launch=launch,
    gpus="see nvidia-smi",
    refusals=(
        RefusalWords(
            r"No module named '(?!primbench)",
            lambda arm: f"`{python(arm)} -m pip install primbench` brings what it needs",
        ),
    ),
)
