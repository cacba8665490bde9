"""What slows a case by itself, as programs and the kernel go by it, and what slows none: what `hidden_causes.py` hides.

Each cause has the ratio that a study found, with its 95 % interval. `python -m bench.hidden_settings` takes them anew:
fresh processes of the fast place and of all that are hidden in it take turns, so that a case with ten of them takes
some minutes. Needs a C compiler; root and runc for some.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench.hidden_programs import DEEP, furnish

PRIMBENCH = (sys.executable, "-P", "-m", "primbench")
ON = ("--backend", "numpy", "--device", "cpu")
LASTING = ("--min-time", "50ms", "--max-time", "100ms")
"""As long as `primbench why` samples."""


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
PYTHON = Case("startup --what interpreter", "AT_START", 20_000_000)
DISPATCH = Case("launch --call dispatch")
PRODUCT = Case("gemm -m 128 -n 128 -k 128")
COPY = Case("memcpy --bytes 1MiB --direction h2h")
SOFTMAX = Case("softmax --rows 256 --classes 1024")
ALONE = "host:threads=1"
FAST = {PRODUCT: ALONE, COPY: ALONE, SOFTMAX: ALONE}
"""Places with threads of which none waits for another one; of all other cases the host as it is."""


class Natural(NamedTuple):
    """A cause that programs go by. setting: FOLDER stands for the script's. by: what it acts through; two of one kind
    do not add up. took: how many times as long the case takes with it, and the interval of that. fast: the fast place.
    """

    case: Case
    setting: str
    by: str
    took: tuple[float, float, float]
    fast: str = "host"


class Joint(NamedTuple):
    """Two settings of which neither acts alone (together), or each does as much as both (either). took: with both."""

    kind: str
    case: Case
    settings: tuple[str, str]
    took: tuple[float, float, float]
    fast: str = "host"


class Harmless(NamedTuple):
    """but_for: cases that go by it. is_recorded: whether a record has it, and a process can be started with it."""

    setting: str
    but_for: tuple[Case, ...] = ()
    is_recorded: bool = False


OLD_CPU = "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX2,-AVX_Usable,-ERMS,-FSRM"
NO_MOVSB = "glibc.cpu.x86_rep_movsb_threshold=100000000"
NATURAL = (
    Natural(GETPPID, "env.PYTHONPATH=FOLDER/hooked", "its wrapper", (1.152, 1.134, 1.170)),
    Natural(GETPPID, "env.PYTHONMALLOC=debug", "the allocator", (1.157, 1.133, 1.182)),
    Natural(GETPPID, "env.PYTHONMALLOC=malloc", "the allocator", (1.056, 1.041, 1.071)),
    Natural(GETPPID, "env.PYTHONTRACEMALLOC=1", "the allocator", (5.128, 4.806, 5.472)),
    Natural(GETPPID, "env.PYTHONDEVMODE=1", "the allocator", (1.185, 1.154, 1.216)),
    Natural(GETPPID, "env.LD_BIND_NOT=1", "the loader", (8.87, 8.30, 9.47)),
    Natural(GETPPID, "env.LD_AUDIT=FOLDER/traced.so", "the loader", (14.0, 11.5, 17.1)),
    Natural(
        GETPPID, "env.LD_PROFILE=libc.so.6", "the loader", (1.794, 1.708, 1.883), "host:env.LD_PROFILE_OUTPUT=FOLDER"
    ),
    Natural(GETPPID, "seccomp=podman", "its filter", (1.089, 1.075, 1.103), "runc"),
    Natural(GETPPID, "seccomp=docker", "its filter", (1.097, 1.080, 1.115), "runc"),
    Natural(GETPPID, "preload=FOLDER/slower.so", "its library", (1.492, 1.462, 1.523)),
    Natural(SMALL, "root=overlay", "its files", (1.178, 1.122, 1.236), "runc"),
    Natural(SOFTMAX, "env.NPY_DISABLE_CPU_FEATURES=X86_V4", "its code", (1.407, 1.282, 1.544), ALONE),
    Natural(SOFTMAX, "env.NPY_DISABLE_CPU_FEATURES=X86_V3 X86_V4", "its code", (2.435, 1.977, 2.999), ALONE),
    Natural(COPY, f"env.GLIBC_TUNABLES={OLD_CPU}", "its code", (1.099, 1.073, 1.127), ALONE),
    Natural(COPY, f"env.GLIBC_TUNABLES={NO_MOVSB}", "its code", (1.081, 1.054, 1.109), ALONE),
    Natural(SMALL, f"env.TMPDIR=FOLDER/{DEEP}", "its folder", (3.301, 3.001, 3.631)),
    Natural(SMALL, "env.TMPDIR=FOLDER/link29", "its folder", (3.219, 2.885, 3.591)),
    Natural(SMALL, "env.TMPDIR=FOLDER/link12", "its folder", (1.881, 1.779, 1.989)),
    Natural(SMALL, "env.TMPDIR=FOLDER/link5", "its folder", (1.442, 1.314, 1.582)),
    Natural(SMALL, "env.TMPDIR=FOLDER/eight/b/c/d/e/f/g/h", "its folder", (1.141, 1.123, 1.159)),
    Natural(SMALL, "fuse-overlay=FOLDER/shown", "its files", (13.9, 9.3, 20.7), "host:env.TMPDIR=FOLDER/shown"),
    Natural(SMALL, "env.PYTHONMALLOC=debug", "the allocator", (1.217, 1.172, 1.265)),
    Natural(SMALL, "env.PYTHONDEVMODE=1", "the allocator", (1.244, 1.143, 1.353)),
    Natural(START, "env.LD_LIBRARY_PATH=FOLDER/none", "its libraries", (1.059, 1.036, 1.082)),
    Natural(START, "first.PATH=FOLDER/front", "its program", (1.978, 1.945, 2.011)),
    Natural(START, "env.LD_AUDIT=FOLDER/audit.so", "the loader", (1.096, 1.075, 1.118)),
    Natural(DISPATCH, "env.PYTHONMALLOC=debug", "the allocator", (1.075, 1.058, 1.092)),
    Natural(DISPATCH, "env.PYTHONTRACEMALLOC=1", "the allocator", (4.483, 3.441, 5.842)),
    Natural(DISPATCH, "env.LD_BIND_NOT=1", "the loader", (10.9, 10.4, 11.4)),
    Natural(PRODUCT, "env.OPENBLAS_CORETYPE=Nehalem", "its code", (5.591, 5.501, 5.683), ALONE),
    Natural(PRODUCT, "env.OPENBLAS_CORETYPE=Sandybridge", "its code", (2.295, 2.279, 2.311), ALONE),
    Natural(PRODUCT, "env.OPENBLAS_CORETYPE=Haswell", "its code", (1.620, 1.600, 1.640), ALONE),
)
RECORDED = (
    "PYTHONMALLOC",
    "PYTHONDEVMODE",
    "LD_BIND_NOT",
    "OPENBLAS_CORETYPE",
    "GLIBC_TUNABLES",
    "MALLOC_MMAP_THRESHOLD_",
)
RECORDABLE = [each for each in NATURAL if each.setting.startswith(tuple(f"env.{name}=" for name in RECORDED))]
"""Those that a record has, with their values."""
JOINT = (
    Joint(
        "together",
        PYTHON,
        ("env.PYTHONPYCACHEPREFIX=FOLDER/kept", "env.PYTHONDONTWRITEBYTECODE=1"),
        (1.252, 1.046, 1.498),
    ),
    Joint("either", SMALL, ("env.PYTHONMALLOC=debug", "env.PYTHONDEVMODE=1"), (1.208, 1.171, 1.245)),
    Joint("together", GETPPID, ("env.LD_PRELOAD=slower.so", "env.LD_LIBRARY_PATH=FOLDER"), (1.498, 1.471, 1.526)),
)
HARMLESS = (
    Harmless("policy=batch", (START,), is_recorded=True),  # by 7.8 % [6.3, 9.3], beside other work
    *(
        Harmless(each, is_recorded=True)
        for each in (
            "umask=0077", "umask=0027", "nofile=4096", "nofile=16384", "rlimit-core=1MiB", "rlimit-msgqueue=100KiB",
            "rlimit-sigpending=2000", "rlimit-memlock=1MiB", "rlimit-nproc=4000",
            "rlimit-fsize=64GiB", "rlimit-cpu=36000", "timer-slack=60us", "timer-slack=5us",
        )
    ),
    *(
        Harmless(each, (START,), is_recorded=True)  # which each variable that is set slows
        for each in (
            "env.NCCL_DEBUG=INFO", "env.CUDA_CACHE_DISABLE=1", "env.MKL_NUM_THREADS=1", "env.KMP_BLOCKTIME=0",
            "env.TORCH_LOGS=none", "env.MALLOC_ARENA_MAX=2", "env.NUMEXPR_MAX_THREADS=2", "env.PYTHONASYNCIODEBUG=1",
            "env.GLIBC_TUNABLES=glibc.malloc.arena_max=2", "env.GLIBC_TUNABLES=glibc.elision.enable=0",
            "env.CUDA_DEVICE_MAX_CONNECTIONS=1", "env.PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        )
    ),
    *(
        Harmless(each, (START,))
        for each in (
            "env.LANG=C.UTF-8", "env.TZ=Asia/Tokyo", "env.TF_CPP_MIN_LOG_LEVEL=2", "env.HF_HUB_OFFLINE=1",
            "env.PYTHONIOENCODING=utf8", "env.PYTHONHASHSEED=0", "last.PATH=/opt/tools/bin", "last.PATH=/opt/a:/opt/b",
        )
    ),
    *(
        Harmless(each, (START, PYTHON))  # in which programs look for what they import and load
        for each in (
            "env.PYTHONPATH=/opt/site", "env.PYTHONPATH=/srv/python", "env.LD_LIBRARY_PATH=/opt/lib",
            "env.LD_LIBRARY_PATH=/srv/lib64", "env.PYTHONFAULTHANDLER=1",
        )
    ),
    Harmless("mdwe=yes"), Harmless("thp=no"), Harmless("pids=4000"), Harmless("memory=12GiB"),
    Harmless("rlimit-stack=64MiB"),
)  # fmt: skip
"""Settings that none of the other cases goes by."""
OF_CONTAINERS = [
    "cap-drop=NET_RAW", "cap-drop=SYS_ADMIN", "cap-drop=MKNOD", "network=none", "ipc=private", "shm=64MiB",
    "no-new-privileges=yes", "tmpfs=/scratch",
]  # fmt: skip
"""More of them, of containers alone."""


def groups() -> Iterator[tuple[Case, str, list[tuple[str, tuple[float, float, float]]]]]:
    """Each case in a fast place, with what is hidden there."""
    held: dict[tuple[Case, str], list[tuple[str, tuple[float, float, float]]]] = {}
    for each in NATURAL:
        held.setdefault((each.case, each.fast), []).append((each.setting, each.took))
    for joint in JOINT:
        held.setdefault((joint.case, joint.fast), []).append((",".join(joint.settings), joint.took))
    yield from ((case, fast, settings) for (case, fast), settings in held.items())


def measured(case: Case, fast: str, settings: list[str], pairs: int, folder: Path) -> list[dict[str, Any] | None]:
    """What a study says of each; None where it has no ratio."""
    fast, joint = fast.replace("FOLDER", str(folder)), "," if ":" in fast else ":"
    arms = [f"{fast}{joint}name=fast"]
    arms += [f"{fast}{joint}{each.replace('FOLDER', str(folder))},name=s{i}" for i, each in enumerate(settings)]
    words = [*PRIMBENCH, "study", *(word for arm in arms for word in ("--arm", arm)), "--primitive", case.words]
    words += [*ON, *LASTING, "--pairs", str(pairs), "--fail-on", "never", "-q", "--json", "-"]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, dict[str, Any] | None] = {}
    for arm in json.loads(done.stdout)["arms"]:
        estimates = [each for judged in arm["cases"] for each in judged["estimates"]]
        found |= dict.fromkeys([arm["name"]], next((each for each in estimates if each["primary"]), None))
    return [found.get(f"s{i}") for i in range(len(settings))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--cases", default="", metavar="WORD", help="those with this word alone")
    given = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # which a place is to have by itself
    print("| case | fast | setting | held | now |\n| --- | --- | --- | --- | --- |")
    for case, fast, held in groups():
        if given.cases not in case.words:
            continue
        with tempfile.TemporaryDirectory(prefix="hidden-", dir="/var/tmp") as name:
            furnish(Path(name))
            found = measured(case, fast, [setting for setting, _ in held], given.pairs, Path(name))
        for (setting, took), now in zip(held, found, strict=True):
            told = "{:.3f} [{:.3f}, {:.3f}]".format(now["ratio"], *now["interval"]) if now and now["interval"] else "-"
            print(f"| {case.words} | {fast} | {setting} | {took[0]} [{took[1]}, {took[2]}] | {told} |", flush=True)


if __name__ == "__main__":
    main()
