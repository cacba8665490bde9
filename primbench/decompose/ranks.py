"""What the ranks of a job tell each other of the steps that each has captured, by the store of their process group."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import TYPE_CHECKING

from primbench import stats

if TYPE_CHECKING:
    from collections.abc import Sequence

COME_S = 20.0  # within which the others have captured their steps, too
_KEY = "primbench/exposed_s"


def of_ranks(exposed_s: Sequence[float]) -> list[float]:
    """Of each rank the median; [] where there is one, or one does not tell. exposed_s: of this one's steps."""
    distributed = sys.modules.get("torch.distributed")
    if not exposed_s or distributed is None or not distributed.is_initialized():
        return []
    store, ranks = distributed.distributed_c10d._get_default_store(), distributed.get_world_size()  # noqa: SLF001
    try:
        store.set(f"{_KEY}/{distributed.get_rank()}", str(stats.quantile(exposed_s, 0.5)))
        keys = [f"{_KEY}/{rank}" for rank in range(ranks)]
        store.wait(keys, timedelta(seconds=COME_S))
        return [float(store.get(key)) for key in keys]
    except RuntimeError:  # of a job that is ending
        return []
