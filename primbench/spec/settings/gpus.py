"""Settings of GPUs: what share of one a worker has. MIG has been tried on no GPU yet."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from primbench.errors import InvalidRequest
from primbench.spec.setting import Setting
from primbench.spec.settings.variables import is_said

if TYPE_CHECKING:
    from primbench.spec.setting import SeenByWorker, Surroundings

VISIBLE = "CUDA_VISIBLE_DEVICES"
_PERCENTAGE = re.compile(r"(100|[1-9][0-9]?)%?")
_INSTANCE = re.compile(r"MIG-[0-9A-Za-z/-]+")


def _percentage(text: str) -> int:
    """Raises InvalidRequest."""
    found = _PERCENTAGE.fullmatch(text)
    if found is None:
        raise InvalidRequest(f"{text!r}: a percentage of the GPU's multiprocessors from 1% to 100%")
    return int(found[1])


def _not_otherwise(share: int, arm: Any) -> str | None:
    said = next((name for name in arm.variables if name.startswith("CUDA_MPS_")), None)
    return f"mps with env.{said}: the arm's own service sets it; leave one out" if said else None


def _without_service(asked: int, found: Any, seen: SeenByWorker) -> str | None:
    return None if found else "no service that it can reach"


def _instance(text: str) -> str:
    """Raises InvalidRequest."""
    if not _INSTANCE.fullmatch(text):
        raise InvalidRequest(f"{text!r}: the UUID of an instance, as `nvidia-smi -L` lists them: MIG-...")
    return text


def _visible_otherwise(instance: str, arm: Any) -> str | None:
    return (
        f"mig with another setting of {VISIBLE}: both say which GPU; leave one out" if is_said(VISIBLE, arm) else None
    )


def _make_visible(found: Surroundings, instance: str) -> None:
    found.values[VISIBLE] = instance


def _another_gpu(asked: str, gpus: list[Any], seen: SeenByWorker) -> str | None:
    return None if any(each.uuid == asked for each in gpus) else "no such instance"


ROWS = (
    Setting(
        "mps", "mps_share", int | None,
        "The share of a GPU's multiprocessors, by a multi-process service of its own (MPS).", "50%",
        parse=_percentage, write=lambda share: f"{share}%", check=_not_otherwise, seen_to=("mps",),
        shows=(("devices", "mps_control"),), unlike=_without_service,
        mend="see what nvidia-cuda-mps-control says by itself", moves=("kernel", "copy", "launch"), of_gpu=True,
    ),
    Setting(
        "mig", "mig_instance", str | None, "The instance of a GPU that alone is seen (MIG).",
        "MIG-41b36a6e-5a1d-5f4b-9e6f-0c7a4c4f2b8e", parse=_instance, check=_visible_otherwise,
        surroundings=_make_visible, fact=("devices", "gpus"), unlike=_another_gpu,
        mend="`nvidia-smi -L` lists the instances that there are", moves=("kernel", "copy", "launch"),
        of_this_machine=True, of_gpu=True,
    ),
)  # fmt: skip
