"""Places whose differences are drawn by a seed, of which some slow a case down for real and others do nothing.

What slows a case is one of the settings of `bench/hidden_settings.py`, or keeps it busy for as long as a factor takes,
by variables that it reads: a library that is loaded before all others or audits them, a program that stands in front of
another one in PATH, code that a Python runs at its start.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from bench.hidden_programs import FILTERED, Busy, Terms, compiled, furnish, keep_busy
from bench.hidden_settings import (
    FAST,
    GETPPID,
    HARMLESS,
    JOINT,
    NATURAL,
    OF_CONTAINERS,
    PYTHON,
    RECORDABLE,
    SMALL,
    START,
    Case,
    Natural,
)
from primbench.spec.variables import LISTS


class Carrier(NamedTuple):
    """What can keep a case busy. setting: by which a place has it; FOLDER stands for the script's. file: its own."""

    case: Case
    setting: str
    file: str = "site.so"


CARRIERS = (
    Carrier(GETPPID, "preload=FOLDER/site.so"),
    Carrier(GETPPID, "env.LD_PRELOAD=FOLDER/site.so"),
    Carrier(SMALL, "preload=FOLDER/site.so"),
    Carrier(SMALL, "env.LD_PRELOAD=FOLDER/site.so"),
    Carrier(START, "preload=FOLDER/site.so"),
    Carrier(START, "env.LD_AUDIT=FOLDER/site.so"),
    Carrier(START, "first.PATH=FOLDER/bin", "bin/true"),
    Carrier(PYTHON, "preload=FOLDER/site.so"),
    Carrier(PYTHON, "env.PYTHONPATH=FOLDER/site", "site/sitecustomize.py"),
)
NAMES = (
    "APP_MODE", "JOB_NAME", "SITE_POLICY", "RUN_ID", "USER_GROUP", "CI_STAGE", "BUILD_TYPE", "LOG_FORMAT",
    "METRICS_PORT", "QUEUE", "REGION", "ZONE", "TIER", "OWNER", "TEAM", "PROJECT", "COLOUR", "EDITOR", "PAGER",
    "DISPLAY_NAME", "SEASON", "TRACE_LEVEL", "AUDIT_MODE", "CACHE_POLICY", "RETRY", "FEATURE_A", "FEATURE_B",
    "STORE_URL", "HEALTH", "PROXY_MODE", "PROFILE_NAME", "SANDBOX", "AGENT_ID", "NODE_POOL", "SPOT", "LEASE",
    "BATCH_SIZE", "SHARD", "REPLICA",
)  # fmt: skip
"""Of variables that nothing goes by but what is told of them."""
LEAST_BESIDE = 1.03
"""What the lesser of two natural causes makes beside the other at least: less drowns in that one's scatter."""
FACTORS = (1.05, 1.07, 1.1, 1.15, 1.2, 1.3, 1.5, 2.0, 3.0)
KINDS = (
    "single", "null", "pair", "single", "null", "single", "pair", "null", "elsewhere", "single", "null", "together",
    "single", "null", "pair", "single", "null", "outside", "single", "null", "pair", "single", "null", "either",
)  # fmt: skip
"""Of a seed by its place in turns of 24, so that a part of a run is a fair sample."""


@dataclass
class Drawn:
    """One trial.

    case: what is asked about. fast, slow: arms in words. causes: settings of the slow one that slow the case, in
    words. least: the ratio that the weakest of them shows where it shows least, 1 where there is none. carrier: what
    is busy, where something is; terms: by which variables; always: the factor that it has by itself. is_recorded:
    whether the slow place is asked about from a file; is_filtered: whether that was recorded behind a filter.
    """

    kind: str
    seed: int
    case: Case
    fast: str
    slow: str
    causes: list[str] = field(default_factory=list)
    least: float = 1.0
    carrier: Carrier | None = None
    terms: Terms = field(default_factory=dict)
    always: float = 1.0
    is_recorded: bool = False
    is_filtered: bool = False


def draw(seed: int, folder: Path) -> Drawn:
    drawn = _Draw(seed, folder).drawn()
    if drawn.case is START:  # each byte of variables takes a program longer to start: there are as many in both places
        drawn.fast = with_settings(drawn.fast, [*_as_long(drawn.slow)])
    return drawn


def _as_long(arm: str) -> Iterator[str]:
    """Its variables that nothing but what is told of them goes by, with other values."""
    for name, value in re.findall(r"env\.(\w+)=(\w+)", arm):
        if name in NAMES:
            yield f"env.{name}={'x' * len(value)}"


class _Draw:
    """turn: how many turns of kinds came before; nth: how many seeds of its kind."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed, self.folder, self.dice = seed, folder, random.Random(f"hidden {seed}")
        self.kind, self.turn = KINDS[seed % len(KINDS)], seed // len(KINDS)
        self.nth = self.turn * KINDS.count(self.kind) + KINDS[: seed % len(KINDS)].count(self.kind)

    def drawn(self) -> Drawn:
        if self.kind == "null":
            case = self.dice.choice(sorted({each.case for each in NATURAL}))
            return self._of(case, FAST.get(case, "host"), [], 1.0)
        if self.kind == "single":
            return self._single()
        if self.kind == "elsewhere":
            return self._natural(_cycled(RECORDABLE, self.nth), is_recorded=True)
        if self.kind == "outside" and self.nth % 2:
            found = self._of(GETPPID, "host", [], 1.0, is_recorded=True)
            found.is_filtered = True
            return found
        if self.kind == "pair" and self.nth % 4 < 2:
            return self._two()
        joint = [each for each in JOINT if each.kind == self.kind]
        if joint and self.nth % 2:
            each = _cycled(joint, self.nth // 2)
            settings = [self._filled(setting) for setting in each.settings]
            return self._of(each.case, self._filled(each.fast), settings, each.took[0])
        return self._by_variables()

    def _single(self) -> Drawn:
        if self.nth % 6 != 5:  # of six in a row five
            return self._natural(_cycled(NATURAL, self.nth - self.nth // 6))
        carrier, factor = _cycled(CARRIERS, self.nth // 6), self.dice.choice(FACTORS)
        if self.nth // 6 % 2:
            return self._by_variables()
        setting = self._filled(carrier.setting)
        found = self._of(carrier.case, "host", [setting], factor)
        found.carrier, found.always = carrier, factor
        return found

    def _natural(self, of: Natural, *, is_recorded: bool = False) -> Drawn:
        return self._of(of.case, self._filled(of.fast), [self._filled(of.setting)], of.took[0], is_recorded=is_recorded)

    def _two(self) -> Drawn:
        """Of one case in one place, each by something else."""
        fit = [
            pair
            for pair in itertools.combinations(NATURAL, 2)
            if (pair[0].case, pair[0].fast) == (pair[1].case, pair[1].fast)
            and pair[0].by != pair[1].by
            and _beside(*pair) >= LEAST_BESIDE
        ]
        low, high = sorted(_cycled(fit, self.turn * 2 + self.nth % 2), key=lambda each: each.took[0])
        least = _beside(low, high)
        return self._of(low.case, self._filled(low.fast), [self._filled(each.setting) for each in (low, high)], least)

    def _by_variables(self) -> Drawn:
        carrier = _cycled(CARRIERS, self.nth)
        names = self.dice.sample(NAMES, 8)
        variables = [f"env.{name}={self.dice.choice(('on', '1', 'strict', 'yes'))}" for name in names]
        terms, acting, least = _terms(self.kind, self.dice, variables)
        found = self._of(carrier.case, with_settings("host", [self._filled(carrier.setting)]), acting, least)
        found.carrier, found.terms = carrier, terms
        if self.kind == "outside":
            found.causes = []
        return found

    def _of(self, case: Case, fast: str, causes: list[str], least: float, *, is_recorded: bool = False) -> Drawn:
        """With harmless settings."""
        settings = _shuffled(self.dice, causes, case, fast, is_recorded=is_recorded)
        return Drawn(
            self.kind, self.seed, case, fast, with_settings(fast, settings), causes, least, is_recorded=is_recorded
        )

    def _filled(self, setting: str) -> str:
        return setting.replace("FOLDER", str(self.folder))


def _beside(one: Natural, other: Natural) -> float:
    """The ratio that the lesser one shows beside the other, where times add up."""
    low, high = sorted((one.took[0], other.took[0]))
    return 1 + (low - 1) / high


def _cycled(held: Iterable[Any], number: int) -> Any:
    """Each once before one comes again, in an order that is drawn once."""
    order = [*held]
    random.Random(f"order of {len(order)}").shuffle(order)
    return order[number % len(order)]


def _terms(kind: str, dice: random.Random, variables: list[str]) -> tuple[Terms, list[str], float]:
    """What variables add, which of them act, and the least ratio that one of these shows."""
    a, b = (frozenset({each}) for each in variables[:2])
    excess = dice.choice(FACTORS) - 1
    if kind == "pair":
        other = dice.choice((0.05, 0.1, excess, excess / 2))
        low, high = sorted((max(excess, 0.05), max(other, 0.05)))
        return {a: low, b: high}, variables[:2], 1 + low / (1 + high)
    if kind == "together":
        return {a | b: excess}, variables[:2], 1 + excess
    if kind == "either":
        return {a: excess, b: excess, a | b: -excess}, variables[:2], 1 + excess
    if kind == "outside":  # what no part of the slow place does: it takes all of it
        return {frozenset(variables): excess}, variables, 1.0
    return {a: excess}, variables[:1], 1 + excess


def _shuffled(dice: random.Random, causes: list[str], case: Case, fast: str, *, is_recorded: bool) -> list[str]:
    """With harmless settings, each key once but for those that are lists."""
    taken = {_key(each) for each in [*causes, *fast.partition(":")[2].split(",")]}
    others = [f"env.{name}={dice.choice(('on', 'off', '1', '0', 'strict'))}" for name in NAMES]
    fit = [each.setting for each in HARMLESS if case not in each.but_for]
    if is_recorded:  # what a record has, of what a process can be started with
        others, fit = [], [each.setting for each in HARMLESS if case not in each.but_for and each.is_recorded]
    elif fast.startswith("runc"):
        fit += OF_CONTAINERS
    pools = [dice.sample(pool, len(pool)) for pool in (others, fit) if pool]
    count, chosen = dice.randint(5, 15), [*causes]
    while len(chosen) < len(causes) + count and any(pools):
        setting = dice.choice([pool for pool in pools if pool]).pop()
        if _key(setting) not in taken or (_is_list(setting) and _key(setting) in map(_key, chosen)):
            taken.add(_key(setting))
            chosen.append(setting)
    dice.shuffle(chosen)
    return [*_joined(chosen)]


def _key(setting: str) -> str:
    return setting.partition("=")[0]


def _is_list(setting: str) -> bool:
    return _key(setting).removeprefix("env.") in LISTS


def _joined(settings: list[str]) -> Iterator[str]:
    """One setting of all entries of a list."""
    for key in dict.fromkeys(map(_key, settings)):
        mine = [each.partition("=")[2] for each in settings if _key(each) == key]
        yield f"{key}={':'.join(mine)}"


def with_settings(arm: str, settings: list[str]) -> str:
    return f"{arm}{',' if ':' in arm else ':'}{','.join(settings)}" if settings else arm


def build(drawn: Drawn, folder: Path, busy: Busy | None) -> None:
    """All that the arms name. busy: of the case, where something is to be."""
    furnish(folder)
    for name in ("site", "bin"):
        (folder / name).mkdir(exist_ok=True)
    if drawn.is_filtered:
        (folder / "filtered.c").write_text(FILTERED)
        compiled(folder / "filtered", folder / "filtered.c")
    if drawn.carrier and drawn.case.hook and busy:
        keep_busy(folder / drawn.carrier.file, drawn.case.hook, busy, drawn.always - 1, drawn.terms)
