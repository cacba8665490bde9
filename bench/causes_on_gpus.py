"""Whether `primbench why` finds, on a GPU, a known cause among ten settings that do nothing.

    python -m bench.causes_on_gpus [NAME ...] [--budget S] [--keep FOLDER] [--list]

Each cause is asked about by the command itself, in a process of its own. A line each: what was hidden, what was named,
the effect, the wall time. Needs a GPU with torch; `cublas` takes another cuBLAS than torch's if the machine has one,
and `far-cpus` a second NUMA node, else both are left out, said so. About a minute each.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from primbench.numa.scan import memory_nodes
from primbench.system.files import format_cpu_list

WHY = (sys.executable, "-P", "-m", "primbench", "why")
ON_GPU = ("--device", "cuda:0", "--backend", "torch")
ON_CPU = ("--device", "cpu", "--backend")
HARMLESS = (
    "env.APP_MODE=on", "env.REGION=1", "env.TZ=Asia/Tokyo", "env.HF_HUB_OFFLINE=1", "env.NUMEXPR_MAX_THREADS=2",
    "env.TF_CPP_MIN_LOG_LEVEL=2", "umask=0027", "nofile=16384", "rlimit-core=1MiB", "last.PATH=/opt/tools/bin",
)  # fmt: skip
SEARCHED = ("/usr/local", "/opt", "/usr/lib")
"""Where a cuBLAS that is none of torch's may be."""


class Hidden(NamedTuple):
    """case: of `--primitive`. setting: of the slow place, None where this machine cannot have it, and why. fast: the
    arm without it. on: the device and backend of the case.
    """

    name: str
    case: str
    setting: str | None
    why_not: str = ""
    fast: str = "host"
    on: tuple[str, ...] = ON_GPU


def hidden() -> Iterator[Hidden]:
    yield Hidden("launch-blocking", "launch --call dispatch", "env.CUDA_LAUNCH_BLOCKING=1")
    yield Hidden("tf32", "gemm -m 4096 -n 4096 -k 4096 --math-mode tf32", "env.NVIDIA_TF32_OVERRIDE=0")
    eager = "env.CUDA_MODULE_LOADING=EAGER"
    yield Hidden("eager-modules", "startup --what cublas", eager, on=(*ON_CPU, "numpy"))
    yield Hidden("cublas", "gemm -m 2048 -n 2048 -k 2048 --dtype float16", *_other_cublas())
    yield Hidden("far-cpus", "launch --call dispatch", *_far_cpus())
    yield Hidden("loader-threads", "loader --items 512 --batch 64", "env.OMP_NUM_THREADS=64",
                 fast="host:env.OMP_NUM_THREADS=1", on=(*ON_CPU, "torch"))  # fmt: skip


def _other_cublas() -> tuple[str | None, str]:
    """In front of torch's, with the library of light products that belongs to it."""
    torch = find_spec("torch")
    mine = Path(torch.origin).parent.parent if torch and torch.origin else Path("/nowhere")
    for folder in SEARCHED:
        for found in sorted(Path(folder).rglob("libcublas.so.*")):
            if not found.is_symlink() and not found.is_relative_to(mine):
                return f"first.LD_LIBRARY_PATH={found.parent}", ""
    return None, f"no cuBLAS in {' '.join(SEARCHED)}"


def _far_cpus() -> tuple[str | None, str]:
    nodes = [node for node in memory_nodes() if node.cpus]
    if len(nodes) < 2:
        return None, "one NUMA node"
    return f"cpuset={format_cpu_list(nodes[-1].cpus)}", ""


def ask(one: Hidden, setting: str, budget_s: float, folder: Path) -> str:
    slow = f"host:{','.join([*HARMLESS[:5], setting, *HARMLESS[5:]])}"
    words = [one.fast, slow, "--primitive", one.case, *one.on, "--time-budget", f"{budget_s:g}s", "--json", "-", "-q"]
    begun = time.monotonic()
    kept = folder / f"{one.name}.jsonl"
    done = subprocess.run([*WHY, *words, "-o", str(kept)], capture_output=True, text=True, check=False)
    took = f"{time.monotonic() - begun:.0f} s"
    if not done.stdout.startswith("{"):
        return f"no answer, {took}: {done.stderr.strip()[-400:]}"
    answer = json.loads(done.stdout)
    told = answer["conclusion"]
    named = sorted({answer["ingredients"][each] for proof in told["proofs"] for each in proof["differences"]})
    verdict = "right" if named == [setting] else "false name" if {*named} - {setting} else told["outcome"]
    return f"{verdict}, {took}, {told['pairs']} pairs of {told['places']} places: {answer['headline']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="all without")
    parser.add_argument("--budget", type=float, default=290.0, metavar="S", help="of each; default: %(default)g")
    parser.add_argument("--keep", type=Path, default=Path("causes-on-gpus"), metavar="FOLDER")
    parser.add_argument("--list", action="store_true", help="names and settings, and measure nothing")
    given = parser.parse_args()
    known = {each.name: each for each in hidden()}
    if unknown := {*given.names} - {*known}:
        parser.error(f"{' '.join(sorted(unknown))}: of {' '.join(known)}")
    given.keep.mkdir(parents=True, exist_ok=True)
    for name in given.names or known:
        one = known[name]
        if one.setting is None or given.list:
            print(f"{name}: {one.setting or f'left out: {one.why_not}'}", flush=True)
        else:
            print(f"{name} ({one.setting}): {ask(one, one.setting, given.budget, given.keep)}", flush=True)


if __name__ == "__main__":
    main()
