"""Places whose differences are drawn by a seed, of which some slow a case down for real and others do nothing.

Most causes are a library, made by the C compiler, that is loaded before all others: it keeps one function of the C
library busy for as long as a factor takes, where the variables that it reads are set. Others are what the programs
that are measured go by themselves.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from primbench.errors import BackendUnavailable

LIBRARY = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

long turns_of_hidden;
static int has(const char *name, const char *value) {
    const char *found = getenv(name);
    return found && !strcmp(found, value);
}
static void be_busy(void) { for (long i = 0; i < turns_of_hidden; i++) __asm__ volatile("" ::: "memory"); }
__attribute__((constructor)) static void begin(void) {
    turns_of_hidden = FIRST;
TERMS
#ifdef AT_START
    be_busy();
#endif
}
#ifdef IN_GETPPID
pid_t getppid(void) { be_busy(); return syscall(SYS_getppid); }
#endif
#ifdef IN_READ
ssize_t read(int file, void *to, size_t count) {
    static ssize_t (*next)(int, void *, size_t);
    if (!next) next = dlsym(RTLD_NEXT, "read");
    be_busy();
    return next(file, to, count);
}
#endif
"""
"""FIRST: turns of its loop in any case. TERMS: what is added to them, by variables."""

Terms = dict[frozenset[str], float]
"""What each set of variables of the library adds to the time, as a share, where all of it is set."""


class Case(NamedTuple):
    """words: of `--primitive`. hook: what of the library makes it longer; None where nothing does. turns: of its loop
    in each call of that, by which it is found out how long one takes.
    """

    words: str
    hook: str | None = None
    turns: int = 0


GETPPID = Case("launch --call getppid", "IN_GETPPID", 5000)
SMALL = Case("files --bytes 4KiB --what small", "IN_READ", 20_000)
START = Case("launch --call process_start", "AT_START", 5_000_000)
HOOKED = (GETPPID, SMALL, START)
DISPATCH = Case("launch --call dispatch")
PRODUCT = Case("gemm -m 128 -n 128 -k 128")
PYTHON = Case("startup --what interpreter")


class Natural(NamedTuple):
    """A cause that programs go by. setting: FOLDER stands for the script's. factor: what trials showed on two CPUs, or,
    of those that none drew, a guess.
    """

    case: Case
    setting: str
    factor: float
    fast: str = "host"


NATURAL = (
    Natural(SMALL, "env.PYTHONMALLOC=debug", 1.2),
    Natural(SMALL, "env.TMPDIR=FOLDER/DEEP", 2.4),
    Natural(DISPATCH, "env.PYTHONMALLOC=debug", 1.3),
    Natural(PRODUCT, "env.OPENBLAS_CORETYPE=Nehalem", 5.3, "host:threads=1"),
    Natural(PYTHON, "env.PYTHONPATH=FOLDER/traced", 1.3),
    Natural(PYTHON, "env.PYTHONPROFILEIMPORTTIME=1", 1.05),
    Natural(GETPPID, "env.PYTHONPATH=FOLDER/hooked", 1.5),
    Natural(GETPPID, "seccomp=podman", 1.1, "runc"),
    Natural(GETPPID, "seccomp=docker", 1.3, "runc"),
)
NAMES = (
    "APP_MODE", "JOB_NAME", "SITE_POLICY", "RUN_ID", "USER_GROUP", "CI_STAGE", "BUILD_TYPE", "LOG_FORMAT",
    "METRICS_PORT", "QUEUE", "REGION", "ZONE", "TIER", "OWNER", "TEAM", "PROJECT", "COLOUR", "EDITOR", "PAGER",
    "DISPLAY_NAME", "SEASON", "TRACE_LEVEL", "AUDIT_MODE", "CACHE_POLICY", "RETRY", "FEATURE_A", "FEATURE_B",
    "STORE_URL", "HEALTH", "PROXY_MODE", "PROFILE_NAME", "SANDBOX", "AGENT_ID", "NODE_POOL", "SPOT", "LEASE",
    "BATCH_SIZE", "SHARD", "REPLICA",
)  # fmt: skip
"""Of variables that nothing goes by but the library, by those that it is told."""
OTHERS = (
    "umask=0077", "umask=0027", "nofile=4096", "nofile=16384", "rlimit-core=1MiB", "rlimit-msgqueue=100KiB",
    "rlimit-sigpending=2000", "rlimit-memlock=1MiB", "timer-slack=60us", "env.LANG=C.UTF-8", "env.TZ=Asia/Tokyo",
    "env.NCCL_DEBUG=INFO", "env.CUDA_CACHE_DISABLE=1", "env.MKL_NUM_THREADS=1", "env.KMP_BLOCKTIME=0",
    "env.TORCH_LOGS=none", "env.TF_CPP_MIN_LOG_LEVEL=2", "env.MALLOC_ARENA_MAX=2", "env.HF_HUB_OFFLINE=1",
    "env.PYTHONIOENCODING=utf8", "env.NUMEXPR_MAX_THREADS=2", "last.PATH=/opt/tools/bin", "last.PATH=/opt/a:/opt/b",
)  # fmt: skip
"""Settings that none of the cases goes by."""
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
    words. least: the ratio that the weakest of them shows where it shows least, 1 where there is none. terms: of the
    library, where there is one; always: the factor that it has by itself.
    """

    kind: str
    seed: int
    case: Case
    fast: str
    slow: str
    causes: list[str] = field(default_factory=list)
    least: float = 1.0
    terms: Terms = field(default_factory=dict)
    always: float = 1.0
    is_loaded: bool = False

    @property
    def is_elsewhere(self) -> bool:
        """Whether the slow place is asked about from a file that was recorded under its settings."""
        return self.kind == "elsewhere"


def draw(seed: int, folder: Path) -> Drawn:
    drawn = _drawn(seed, folder)
    if drawn.case is START:  # each variable that is there takes a program longer to start: they are, in both places
        drawn.fast = _with(drawn.fast, [f"{name}=no" for name in _variables(drawn.slow)])
    return drawn


def _variables(arm: str) -> list[str]:
    return [name for name in re.findall(r"env\.\w+", arm) if name.removeprefix("env.") in NAMES]


def _drawn(seed: int, folder: Path) -> Drawn:
    kind = KINDS[seed % len(KINDS)]
    dice = random.Random(f"hidden {seed}")
    library = f"preload={folder}/site.so"
    if kind in ("single", "elsewhere") and dice.random() < (0.35 if kind == "single" else 1.0):
        natural = dice.choice(NATURAL if kind == "single" else NATURAL[:1])
        setting = natural.setting.replace("FOLDER", str(folder)).replace("DEEP", "/".join("abcdefghij" * 12))
        settings = _shuffled(dice, [setting], natural.case)
        if kind == "elsewhere":  # what a process can be started with
            settings = [each for each in settings if each.startswith(("env.", "umask="))]
        slow = _with(natural.fast, settings)
        return Drawn(kind, seed, natural.case, natural.fast, slow, [setting], natural.factor)
    case = dice.choice(HOOKED)
    if kind == "null":
        case = dice.choice((GETPPID, SMALL, START, DISPATCH, PRODUCT, PYTHON))
        fast = "host:threads=1" if case is PRODUCT else "host"
        return Drawn(kind, seed, case, fast, _with(fast, _shuffled(dice, [], case)))
    if kind == "single" and dice.random() < 0.4:
        factor = dice.choice(FACTORS)
        slow = _with("host", _shuffled(dice, [library], case))
        return Drawn(kind, seed, case, "host", slow, [library], factor, always=factor, is_loaded=True)
    names = dice.sample(NAMES, 8)
    variables = [f"env.{name}={dice.choice(('on', '1', 'strict', 'yes'))}" for name in names]
    terms, acting, least = _terms(kind, dice, variables)
    fast = f"host:{library}"
    slow = _with(fast, _shuffled(dice, acting, case))
    causes = [] if kind == "outside" else acting
    return Drawn(kind, seed, case, fast, slow, causes, least, terms, is_loaded=True)


def _terms(kind: str, dice: random.Random, variables: list[str]) -> tuple[Terms, list[str], float]:
    """What the library adds by which variables, which of them act, and the least ratio that one of these shows."""
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


def _shuffled(dice: random.Random, causes: list[str], case: Case) -> list[str]:
    """With harmless settings, each key once."""
    taken = {each.partition("=")[0] for each in causes}
    others = [f"env.{name}={dice.choice(('on', 'off', '1', '0', 'strict'))}" for name in NAMES]
    count, chosen = dice.randint(5, 15), [*causes]
    pools = [dice.sample(others, len(others)), dice.sample(OTHERS, len(OTHERS))]
    while len(chosen) < len(causes) + count:
        setting = dice.choice(pools).pop()
        key, is_variable = setting.partition("=")[0], setting in OTHERS and setting.startswith(("env.", "last."))
        if key not in taken and not (is_variable and case is START):
            taken.add(key)
            chosen.append(setting)
    dice.shuffle(chosen)
    return chosen


def _with(arm: str, settings: list[str]) -> str:
    return f"{arm}{',' if ':' in arm else ':'}{','.join(settings)}" if settings else arm


class Busy(NamedTuple):
    """Of a case: how long a call takes with the library that does nothing, and a turn of its loop in a call."""

    call_s: float
    turn_s: float


def build(drawn: Drawn, folder: Path, busy: Busy | None) -> None:
    """All that the arms name. busy: of the case, where its library is to be busy."""
    for module, code in AT_START.items():
        (folder / module).mkdir(exist_ok=True)
        (folder / module / "sitecustomize.py").write_text(code)
    (folder / "/".join("abcdefghij" * 12)).mkdir(parents=True, exist_ok=True)
    if drawn.is_loaded and drawn.case.hook and busy:
        turns = busy.call_s / busy.turn_s
        conditions = {
            " && ".join(f'has("{name}", "{value}")' for name, value in sorted(map(_variable, each))): round(
                share * turns
            )
            for each, share in drawn.terms.items()
        }
        terms = "\n".join(f"    if ({each}) turns_of_hidden += {count};" for each, count in conditions.items())
        compile_library(folder / "site.so", drawn.case.hook, round((drawn.always - 1) * turns), terms)


def _variable(setting: str) -> tuple[str, str]:
    name, _, value = setting.removeprefix("env.").partition("=")
    return name, value


def compile_library(path: Path, hook: str, first: int, terms: str = "") -> None:
    """Raises BackendUnavailable without a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise BackendUnavailable("there is no C compiler: install one, such as gcc")
    source = path.with_suffix(".c")
    source.write_text(LIBRARY.replace("FIRST", str(first)).replace("TERMS", terms))
    made = [compiler, "-O1", f"-D{hook}", "-shared", "-fPIC", "-o", str(path), str(source), "-ldl"]
    subprocess.run(made, check=True)


AT_START = {  # folder -> what a Python runs at its start that has it in its search path
    "traced": "import time\nend = time.perf_counter() + 0.004\nwhile time.perf_counter() < end: pass\n",
    "hooked": "import os\nreal = os.getppid\nos.getppid = lambda: real()\n",
}
