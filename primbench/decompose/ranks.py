"""What the ranks of a job tell each other of the steps that each has captured, by the store of their process group."""

from __future__ import annotations

import sys
from datetime import timedelta

COME_S = 20.0  # within which the others have captured their steps, too
_KEY = "primbench/exposed_s"


def of_ranks(exposed_s: float) -> list[float]:
    """Of each rank; [] where there is one, or one does not tell. exposed_s: this one's."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_initialized():
        return []
    if distributed.get_world_size() < 2:
        return []
    store, ranks = distributed.distributed_c10d._get_default_store(), distributed.get_world_size()  # noqa: SLF001
    try:
        store.set(f"{_KEY}/{distributed.get_rank()}", str(exposed_s))
        keys = [f"{_KEY}/{rank}" for rank in range(ranks)]
        store.wait(keys, timedelta(seconds=COME_S))
        return [float(store.get(key)) for key in keys]
    except RuntimeError:  # of a job that is ending
        return []
