"""Ranks of a job that wait for each other: which one they wait for, since when, and what holds that one back.

Ranks that exchange something at each step take as long as the last of them, and who is early sleeps until it comes. So
that rank is late which sleeps less than the others do in the same seconds. That is seen in two ways, of which one is
enough: in looks at all its threads, a few a second, whatever they do; and by how long the kernel counted that its
busiest thread ran or waited for a CPU, which scatters ten times less. Of ranks whose threads spin while they wait, as
they do for a GPU, nothing is told.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from primbench import stats
from primbench.distributed.world import launched
from primbench.doctor.cause import Hindrance
from primbench.doctor.table import causes
from primbench.errors import InvalidRequest
from primbench.quantities import Amount, Seconds, Whole
from primbench.system.processes import environ_of
from primbench.watching.causes import LEAST_SHARE, hindrances
from primbench.watching.members import JobMembers
from primbench.watching.stretch import joined
from primbench.watching.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from primbench.doctor.job import Stretch

FEWEST = 5
"""Seconds in which all ranks are to be seen, before one is told to be late."""
LEAST = 0.1
"""Of the time, by which a rank has to sleep less than the others."""
LEVEL = 0.05
"""Of jobs in which none is late, those of which one is told to be, at most: one-sided t tests, Bonferroni over ranks
and both ways to see it.
"""
PATIENCE_S = 3.0


class LateRank(msgspec.Struct, frozen=True, kw_only=True):
    """A rank for which the others wait."""

    rank: Whole
    pid: Whole
    since_s: Seconds
    """From when on it was late to the end, since watching began."""
    awake_fraction: Amount
    """Of the time, in which some thread of it ran, waited for a CPU or was blocked: by looks at all of them, or its
    busiest one by the kernel's count, whichever told.
    """
    others_fraction: Amount
    """The same of the other ranks, their median."""
    hindrances: list[Hindrance]
    """What held it back more than the other ranks, the likeliest first; [] where nothing did."""


class Lateness(NamedTuple):
    """Which rank is late for certain, and how that was seen."""

    p: float
    """How often a job in which none is late would look so, of this rank in this way alone."""
    rank: int
    since: int
    """From which of its stretches on."""
    awake: Callable[[Stretch], float]
    """The fraction of a stretch in which it did not sleep, in the way that told."""


class RankWatches:
    """Watches of the ranks that a job has on this machine, each in a thread, which end as the job does."""

    def __init__(self, root: Path, pids: Sequence[int], lasting_s: float) -> None:
        self._root, self._pids = root, pids
        self._until_s = time.monotonic() + lasting_s
        self._watches: dict[int, tuple[Watch, list[Stretch]]] = {}
        self._threads: list[threading.Thread] = []

    def look(self) -> None:
        """Begin with the ranks that there are, once there are several."""
        left_s = self._until_s - time.monotonic()
        if self._watches or left_s <= 0:
            return
        members = JobMembers(self._root, self._pids, None)
        members.find(self._pids[0])
        found = ranks_of(self._root, members.started_by)
        if len(found) < 2:
            return
        for rank, pid in sorted(found.items()):
            with contextlib.suppress(InvalidRequest, OSError):
                self._watches[rank] = Watch([pid], left_s, self._root, counts_calls=False), []
        self._threads = [threading.Thread(target=_follow, args=each, daemon=True) for each in self._watches.values()]
        for each in self._threads:
            each.start()

    def late(self) -> LateRank | None:
        """The rank that was, if one was for certain."""
        for each in self._threads:
            each.join(PATIENCE_S)
        seen = {rank: list(stretches) for rank, (_, stretches) in self._watches.items()}
        found = latest(seen)
        if found is None:
            return None
        _, rank, since, awake = found
        watch, _ = self._watches[rank]
        own = joined(seen[rank][since:])
        others = {other: joined(each[since:]) for other, each in seen.items() if other != rank and each[since:]}
        return LateRank(
            rank=rank,
            pid=watch.job.pid,
            since_s=seen[rank][since].time_s - seen[rank][since].duration_s,
            awake_fraction=awake(own),
            others_fraction=stats.quantile([awake(each) for each in others.values()], 0.5),
            hindrances=beyond(
                hindrances(own, watch.job),
                [hindrances(whole, self._watches[other][0].job) for other, whole in others.items()],
            ),
        )


def beyond(own: Sequence[Hindrance], others: Sequence[Sequence[Hindrance]]) -> list[Hindrance]:
    """What holds a rank back by LEAST_SHARE more than the others: what all of them suffer from makes none late.

    others: what is told of each, compared by the median of its shares. First comes what costs it most beyond them.
    """
    shares = [{each.cause: each.share for each in told} for told in others]
    more = {each.cause: each.share - stats.quantile([of.get(each.cause, 0.0) for of in shares], 0.5) for each in own}
    found = [each for each in own if more[each.cause] >= LEAST_SHARE]
    return sorted(found, key=lambda each: (causes()[each.cause].order_in_job, -more[each.cause]))


def _follow(watch: Watch, stretches: list[Stretch]) -> None:
    with contextlib.suppress(InvalidRequest, OSError):
        for each in watch:
            stretches.append(each)


def ranks_of(root: Path, started_by: Mapping[int, int | None]) -> dict[int, int]:
    """Rank -> its process, of those that a launcher gave a number: the first of each, which has started the others."""
    numbers: dict[int, int] = {}
    for pid in started_by:
        with contextlib.suppress(OSError, InvalidRequest):
            found = launched(environ_of(root, pid))
            if found is not None:
                numbers[pid] = found.rank
    return {rank: pid for pid, rank in numbers.items() if numbers.get(started_by[pid] or 0) != rank}


def latest(seen: Mapping[int, Sequence[Stretch]]) -> Lateness | None:
    """None where no rank is late for certain. seen: rank -> its stretches, of the same seconds."""
    count = min(map(len, seen.values()), default=0)
    if count < FEWEST or len(seen) < 2:
        return None
    same = {rank: stretches[:count] for rank, stretches in seen.items()}
    found = min((_latest(same, each) for each in (_awake, _busy)), key=lambda each: each.p)
    return found if found.p <= LEVEL / (2 * len(seen)) else None


def _latest(seen: Mapping[int, Sequence[Stretch]], awake: Callable[[Stretch], float]) -> Lateness:
    """The rank that sleeps least, certain or not."""
    seconds = {rank: [awake(each) for each in stretches] for rank, stretches in seen.items()}
    ahead = {rank: _ahead(rank, seconds) for rank in seen}
    rank = max(ahead, key=lambda each: math.fsum(ahead[each]))
    count = len(ahead[rank])
    mean = math.fsum(ahead[rank]) / count
    error = math.sqrt(math.fsum((each - mean) ** 2 for each in ahead[rank]) / (count - 1) / count)
    p = stats.LogRatio(mean, error, count - 1).p_above(math.exp(LEAST))
    return Lateness(1.0 if p is None else p, rank, _since(ahead[rank]), awake)


def _ahead(rank: int, awake: Mapping[int, Sequence[float]]) -> list[float]:
    """How much less than the others a rank sleeps, second by second."""
    return [
        own - stats.quantile([awake[other][number] for other in awake if other != rank], 0.5)
        for number, own in enumerate(awake[rank])
    ]


def _since(ahead: Sequence[float]) -> int:
    """From where on the sum of what it is ahead by beyond LEAST is largest, so that a single second counts little."""
    best, total, since = -math.inf, 0.0, 0
    for number in reversed(range(len(ahead))):
        total += ahead[number] - LEAST
        if total >= best:
            best, since = total, number
    return since


def _awake(stretch: Stretch) -> float:
    return 1 - stretch.asleep / stretch.looks if stretch.looks else 0.0


def _busy(stretch: Stretch) -> float:
    """Of the time, in which its busiest thread ran or waited for a CPU, or one was blocked."""
    wanted_s = stretch.busiest.wanted_s if stretch.busiest else 0.0
    return wanted_s / stretch.duration_s + stretch.blocked_fraction
