"""The most memory that this process held since a moment, by the marks that the kernel and torch's allocator keep."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench.system.files import attempt, labelled_bytes

if TYPE_CHECKING:
    from primbench.backends import Backend

_RESET_PEAK = "5"  # proc_pid_clear_refs(5): of the resident set size


class Marks(NamedTuple):
    """Marks that were set back."""

    backend: Backend
    root: Path
    missing: dict[str, str]
    """Why one of them was not, so that it would tell of earlier cases, too."""


def start(backend: Backend, root: Path = Path("/")) -> Marks:
    """Set the marks back to what is held now. Never raises."""
    missing: dict[str, str] = {}
    attempt(missing, "host_peak_bytes", lambda: (root / "proc/self/clear_refs").write_text(_RESET_PEAK))
    torch = attempt(missing, "gpu_allocated_peak_bytes", lambda: _torch(backend))
    if torch is not None:
        torch.reset_peak_memory_stats(str(backend.device))
    return Marks(backend, root, missing)


def since(marks: Marks, missing: dict[str, str]) -> dict[str, int | None]:
    """The fields of OverTime, in bytes; None for those that are not known, with the reason in ``missing``."""
    missing |= marks.missing
    fields = {
        "host_peak_bytes": lambda: labelled_bytes(marks.root / "proc/self/status", "VmHWM"),
        "gpu_allocated_peak_bytes": lambda: int(_torch(marks.backend).max_memory_allocated(str(marks.backend.device))),
    }
    return {name: None if name in marks.missing else attempt(missing, name, read) for name, read in fields.items()}


def _torch(backend: Backend) -> Any:
    """What keeps the mark of torch's allocator. Raises LookupError where another one serves this backend."""
    if not backend.device.is_gpu:
        raise LookupError("the case ran on the CPU")
    if backend.name != "torch":
        raise LookupError(f"only torch's allocator keeps such a mark, and {backend.name} has its own")
    import torch

    return torch.cuda
