"""How often `primbench history` calls a point of an unchanged series a change, and how soon it finds a step of 5 %.

Made times, through the rule itself; seeded. Two minutes; `tests/primbench/history/test_changepoints.py` asserts it of
fewer. A series has 60 points: sessions with a scatter of their own, of one run or of one to three, each of which
scatters by a third of that; a straight drift of up to 3 % over the series and a wave of up to 1.5 %; and 3 % of points
that are 3 to 30 % longer.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from primbench.history.changepoints import changepoints, units_of

POINTS = 60
NEAR = 4
STEP = 1.05
Scattered = Literal["normal", "heavy"]


class World(NamedTuple):
    """How made series scatter. scatter: standard deviation of sessions, in logarithms. most_runs: of a session."""

    scatter: float = 0.01
    most_runs: int = 1
    tails: Scattered = "normal"


class Made(NamedTuple):
    """Point by point."""

    times_s: list[float]
    sessions: list[int]

    def found(self, points: int = POINTS) -> list[int]:
        """The first points after changes, of the first ones of the series alone."""
        times_s, sessions = self.times_s[:points], self.sessions[:points]
        return [each.first for each in changepoints(units_of(times_s, sessions, [""] * len(times_s)))]


def made(
    dice: np.random.Generator, world: World, points: int = POINTS, at: int | None = None, step: float = STEP
) -> Made:
    """at: the first point that is ``step`` times as long; None for none."""
    sessions = sessions_of(dice, world, points)
    count = sessions[-1] + 1
    of_session = dice.normal(size=count) if world.tails == "normal" else dice.standard_t(4, count)
    logs = world.scatter * (of_session[sessions] + dice.normal(scale=1 / 3, size=points))
    number = np.arange(points)
    logs += dice.uniform(-0.03, 0.03) * number / points
    logs += dice.uniform(0, 0.015) * np.sin(2 * math.pi * (number / dice.uniform(60, 240) + dice.uniform()))
    logs += np.where(dice.uniform(size=points) < 0.03, dice.uniform(0.03, 0.3, points), 0)
    if at is not None:
        logs[at:] += math.log(step)
    return Made([*map(float, 1e-3 * np.exp(logs))], [*map(int, sessions)])


def sessions_of(dice: np.random.Generator, world: World, points: int) -> Sequence[int]:
    found: list[int] = []
    while len(found) < points:
        found += [found[-1] + 1 if found else 0] * int(dice.integers(1, world.most_runs + 1))
    return found[:points]


def false_per_1000(dice: np.random.Generator, world: World, series: int, points: int = POINTS) -> float:
    """Changes that are told of 1,000 points of series without any."""
    told = sum(len(made(dice, world, points).found(points)) for _ in range(series))
    return 1000 * told / series / points


class Steps(NamedTuple):
    """Shares of steps up or down. near: found within four points of where it is. soon: found once four points, or
    eight, follow it.
    """

    near: float
    after_4: float
    after_8: float


def steps_found(dice: np.random.Generator, world: World, series: int, step: float = STEP) -> Steps:
    counts = [0, 0, 0]
    for _ in range(series):
        at = int(dice.integers(8, POINTS - 8))
        one = made(dice, world, at=at, step=step if dice.uniform() < 0.5 else 1 / step)
        for number, points in enumerate((POINTS, at + 4, at + 8)):
            counts[number] += any(abs(each - at) <= NEAR for each in one.found(points))
    return Steps(*(count / series for count in counts))


def rows(dice: np.random.Generator, series: int) -> Iterator[tuple[str, str]]:
    worlds = [World(scatter, runs, tails) for scatter in (0.01,) for runs in (1, 3) for tails in ("normal", "heavy")]
    for world in (*worlds, World(0.02), World(0.005)):
        runs = "one run a session" if world.most_runs == 1 else "one to three runs a session"
        false = false_per_1000(dice, world, series)
        steps = steps_found(dice, world, series)
        words = (
            f"{false:.2f} false changes in 1,000 points; a step of 5 % found within four points in {steps.near:.1%}, "
            f"with four points after it in {steps.after_4:.1%}, with eight in {steps.after_8:.1%}"
        )
        yield f"sessions scatter by {world.scatter:.1%}, {world.tails}, {runs}", words
    for points in (8, 12, 16, 24, 120, 1000):
        of_worlds = [false_per_1000(dice, world, max(1, series * POINTS // points // 10), points) for world in worlds]
        yield f"series of {points} points", f"{max(of_worlds):.2f} false changes in 1,000 points at most"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=2026)
    asked = parser.parse_args()
    for what, found in rows(np.random.default_rng(asked.seed), asked.series):
        print(f"| {what} | {found} |", flush=True)


if __name__ == "__main__":
    main()
