"""How a case is measured."""

from __future__ import annotations

from typing import Literal

import msgspec

from primbench.errors import InvalidRequest
from primbench.quantities import Whole
from primbench.spec.defaults import DEFAULT_MAX_NOISE, DEFAULT_MAX_TIME_S, DEFAULT_MIN_TIME_S


class Method(msgspec.Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """How to measure."""

    cache: Literal["hot", "cold"] = "hot"
    """Whether the last-level cache has the inputs: "hot" repeats on one set of them; "cold" rotates among sets that
    exceed twice the cache.
    """
    reuse_bytes: Whole | tuple[Whole, ...] | None = None
    """Bytes, of a call in a step: how much the step touches from one use of what the call is given to the next; several
    are of each input. On a GPU so many copies of inputs go round that as much lies between two uses; on a CPU they are
    made cold, where they can be, if the last-level cache is smaller. None is as ``cache`` says.
    """
    max_noise: float = DEFAULT_MAX_NOISE
    """Stop when the half-width of the 95 % interval of the median, over the median, is below this."""
    min_time_s: float = DEFAULT_MIN_TIME_S
    """Least time spent sampling the main metric."""
    max_time_s: float = DEFAULT_MAX_TIME_S
    """Most time spent sampling the main metric."""
    seed: int = 0
    """Of the random inputs."""
    check: bool = True
    """Whether to compare the output with the float64 reference before timing."""
    dry_run: bool = False
    """Whether to set up, check once and time nothing."""
    tails: bool = True
    """Whether to sample metrics beside the main one for long enough to tell of rare slow calls, where a problem has
    these.
    """
    over_time: bool = False
    """Whether to have a process beside the case sample what it uses meanwhile, for ``Measurement.over_time``."""
    unit: Literal["sample", "process"] = "sample"
    """What intervals are over. Of samples each metric has six or more, so that their median has an interval; where they
    are over processes, calls that outlast max_time_s are not made six times.
    """

    def __post_init__(self) -> None:
        for name in ("max_noise", "min_time_s", "max_time_s"):
            if not isinstance(value := getattr(self, name), int | float):
                raise InvalidRequest(f"{name}={value!r}: a number")
        if not 0 < self.max_noise < 1:
            raise InvalidRequest(f"max_noise={self.max_noise}: a fraction between 0 and 1")
        if not 0 <= self.min_time_s <= self.max_time_s or self.max_time_s == 0:
            raise InvalidRequest(
                f"min_time_s={self.min_time_s}, max_time_s={self.max_time_s}: "
                "need 0 <= min_time_s <= max_time_s and max_time_s > 0"
            )
        if self.seed < 0:
            raise InvalidRequest(f"seed={self.seed}: a whole number of at least 0")
