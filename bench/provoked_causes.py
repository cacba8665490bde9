"""What a study says of places that are slowed down for real: which of its cases moved, by how much, and why.

Each effect is an arm beside the host, and a few cases of which some are to move; of those named "late" what is done to
the arm's workers is done once they have told of their place, by root. "harmless" ones are to move nothing. Names of
effects may follow; --pairs is how many each study has. All take some half an hour on two CPUs that nothing else uses.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.provoking import (
    DISKS,
    MARK,
    NO_EXEC,
    a_busy_process,
    drop_late,
    entered,
    folders_in_memory,
    idle_late,
    late,
    limited_late,
    nice_late,
    pause_late,
    two_disks,
    watched_early,
    watched_late,
)
from primbench.compare.pairs import compare
from primbench.results import file as results_file

HOOK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

ssize_t read(int file, void *to, size_t count) {
    static ssize_t (*next)(int, void *, size_t);
    struct timespec wait = {0, 50000};
    if (!next) next = dlsym(RTLD_NEXT, "read");
    nanosleep(&wait, 0);
    return next(file, to, count);
}
"""
START = 'startup = [{ what = ["interpreter", "numpy"] }]'
LAUNCH = 'launch = [{ call = ["getppid", "process_start"] }]'
PRODUCT = "gemm = [{ m = 1024, n = 1024, k = 1024 }]"
SMALL = 'files = [{ bytes = 65536, files = 100, what = "small", path = "PATH" }]'
READ = 'files = [{ bytes = 268435456, what = "read", page_cache = ["warm", "cold"], path = "PATH" }]'
PAST_THE_CACHE = 'files = [{ bytes = 16777216, what = "read", access = "direct", path = "PATH" }]'
GETPPID = 'launch = [{ call = ["getppid"] }]'
GELU = 'elementwise = [{ op = "gelu", elements = 1048576 }]'
TINY = "gemm = [{ m = 64, n = 64, k = 64 }]"
MOST_SHOWN = 80  # of an arm
LONG = "gemm = [{ m = 3000, n = 3000, k = 3000 }]"
POOL = """
import os, threading, time

def change():
    first, own = os.getpid(), threading.get_native_id()
    while True:
        for each in {*map(int, os.listdir("/proc/self/task"))} - {first, own}:
            if "PROVOKED" in os.environ: DO
        time.sleep(0.05)

threading.Thread(target=change, daemon=True).start()
"""
AT_START = {  # folder -> what a Python runs at its start that has it in its search path
    "profiled": "import sys\nsys.setprofile(lambda *_: None)\n",
    "hidden": "import os\nif 'PROVOKED' in os.environ:\n import time, numpy\n real = numpy.matmul\n"
    " def slow(*given, **named):\n  time.sleep(2e-4)\n  return real(*given, **named)\n numpy.matmul = slow\n",
    "many": "import sys\nsys.path[:0] = ['/usr'] * 800\n",
    "older": "import os\nif 'PROVOKED' in os.environ:\n os.putenv('ONEDNN_MAX_CPU_ISA', 'SSE41')\n",
    "limits": "import os, resource\nif 'PROVOKED' in os.environ:\n"
    " of = (resource.RLIMIT_MSGQUEUE, resource.RLIMIT_RTPRIO, resource.RLIMIT_NICE, resource.RLIMIT_SIGPENDING)\n"
    " for each in (resource.RLIMIT_CORE, resource.RLIMIT_RSS, 10, *of): resource.setrlimit(each, (0, 0))\n"
    " resource.setrlimit(resource.RLIMIT_RTTIME, (10**6, 10**6))\n",
    "forks": "import os\nif 'PROVOKED' in os.environ:\n"
    " os.register_at_fork(after_in_child=lambda: os.sched_setaffinity(0, {0}))\n",
    "realtime": "import os, resource\nif 'PROVOKED' in os.environ:\n"
    " resource.setrlimit(resource.RLIMIT_RTTIME, (200_000, 200_000))\n",
    "bound": POOL.replace("DO", "os.sched_setaffinity(each, {0})"),
    "nice": POOL.replace("DO", "os.setpriority(os.PRIO_PROCESS, each, 19)"),
    "calls": """
import ctypes, os, struct

def filters(looked_at, count=4, length=4000):
    \"\"\"Of all calls but one the kernel knows that they pass, of that one an argument is divided over and over.\"\"\"
    steps = [(0x20, 0, 0, 0), (0x15, 0, 1, looked_at), (0x05, 0, 0, 1), (0x06, 0, 0, 0x7FFF0000), (0x20, 0, 0, 24)]
    steps += [(0x34, 0, 0, 3)] * length + [(0x06, 0, 0, 0x7FFF0000)]
    text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(text)))
    libc = ctypes.CDLL(None)
    libc.prctl(38, 1, 0, 0, 0)
    for _ in range(count): libc.prctl(22, 2, ctypes.byref(program))

filters(9 if "PROVOKED" in os.environ else 500)  # mmap, on x86-64
""",
}
ALLOCATED = "memcpy = [{ bytes = 268435456 }]"
COMPILED = 'model = [{ network = "compiled", mode = "inference" }]'
LOADED = 'loader = [{ items = 256, item_bytes = 150528, workers = 2, decode = "png" }]'
NETWORK = """
import numpy as np
import torch

from primbench.problem.network import Network


class Layer(torch.nn.Linear):
    def __init__(self):
        super().__init__(3, 2)
        self.compiled = torch.compile(lambda x: torch.nn.functional.gelu(x) + 1)

    def forward(self, x):
        return self.compiled(super().forward(x))


class Compiled(Network, name="compiled"):
    \"\"\"A layer that torch compiles.\"\"\"

    batch_size = 4
    original = "none: an example"

    def module(self):
        return Layer()

    def inputs(self, rng, batch_size):
        return rng.standard_normal((batch_size, 3), np.float32), rng.integers(0, 2, batch_size)

    def predict(self, module, x, y):
        return module(x)

    def loss(self, module, x, y):
        return torch.nn.functional.cross_entropy(module(x), y)

    def optimiser(self, parameters):
        return torch.optim.SGD(parameters, 0.1)

    def flop(self, batch_size):
        return 2 * 3 * 2 * batch_size
"""
PRODUCT16 = "gemm = [{ m = 256, n = 256, k = 256, dtype = 'bfloat16' }]"
ON_A_DISK = 'files = [{ bytes = 33554432, what = ["read", "mmap"], page_cache = "cold" }]'
KEPT = 'files = [{ bytes = 67108864, what = "read" }, { bytes = 67108864, what = "mmap" }]'
RING = 'files = [{ bytes = 4194304, what = "read", access = ["buffered", "io_uring"] }]'


@dataclass(frozen=True)
class Effect:
    """arm, against: FOLDER and PATH stand for folders of the script. options: of the command, before "study". beside:
    runs while the study does.
    """

    arm: str
    cases: tuple[str, ...]
    backend: str = "numpy"
    against: str = "host"
    options: tuple[str, ...] = ()
    beside: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext


EFFECTS = {
    "processes": Effect("host:pids=2", (START, LAUNCH, PRODUCT)),
    "open files": Effect("host:nofile=64", (START, 'files = [{ bytes = 4096, files = 200, what = "small", '
                                            'readers = 32, reader = "process", path = "PATH" }]')),
    "read hook": Effect("host:preload=FOLDER/hook.so", (START, LAUNCH, PRODUCT, SMALL)),
    "pinned threads": Effect("host:env.OMP_PROC_BIND=true,env.OMP_PLACES={0}", (LAUNCH, PRODUCT), backend="torch"),
    "one CPU": Effect("host:cpuset=0", (START, LAUNCH, PRODUCT)),
    "older kernels": Effect("host:env.OPENBLAS_CORETYPE=Nehalem", (START, LAUNCH, PRODUCT)),
    "no bytecode": Effect("host:env.PYTHONPYCACHEPREFIX=FOLDER/none,env.PYTHONDONTWRITEBYTECODE=1", (START, LAUNCH)),
    "io_uring": Effect("runc:seccomp=podman", (LAUNCH, RING)),
    "memory limit": Effect("host:memory=160MiB", (START, READ)),
    "read limit": Effect("host:read-rate=20MiB", (LAUNCH, PAST_THE_CACHE)),
    "fuse-overlayfs": Effect("host:fuse-overlay=PATH", (LAUNCH, SMALL)),
    "nice beside load": Effect("host:cpuset=0,nice=19", (LAUNCH, PRODUCT), against="host:cpuset=0",
                               beside=a_busy_process),
    "late niceness": Effect(f"host:cpuset=0,{MARK}", (GETPPID, PRODUCT), against="host:cpuset=0",
                            beside=entered(a_busy_process, late(nice_late))),
    "late CPUs": Effect(f"host:{MARK}", (GETPPID, PRODUCT), beside=limited_late("host:cpuset=0")),
    "late weight": Effect(f"host:cpuset=0,{MARK}", (GETPPID, PRODUCT), against="host:cpuset=0",
                          beside=entered(a_busy_process, limited_late("host:cpu-weight=20"))),
    "late memory limit": Effect(f"host:{MARK}", (READ,), beside=limited_late("host:memory=160MiB")),
    "late read limit": Effect(f"host:{MARK}", (GETPPID, PAST_THE_CACHE), beside=limited_late("host:read-rate=20MiB")),
    "late tracer": Effect(f"host:{MARK}", (GETPPID, SMALL),
                          beside=watched_late("strace", "-f", "-o", "/dev/null", "-p")),
    "late profiler": Effect(f"host:{MARK}", (LAUNCH, PRODUCT),
                            beside=watched_late("perf", "record", "-F", "20000", "-g", "-o", "/dev/null", "-p")),
    "traced calls": Effect(f"host:{MARK}", (GETPPID, PRODUCT),
                           beside=watched_early("strace", "-f", "-o", "/dev/null", "-p")),
    "watched calls": Effect(f"host:{MARK}", (GETPPID, PRODUCT),
                            beside=watched_early("perf", "trace", "-o", "/dev/null", "-p")),
    "late stops": Effect(f"host:{MARK}", (GETPPID, PRODUCT), beside=late(pause_late)),
    "profile hook": Effect("host:env.PYTHONPATH=FOLDER/profiled", (START, LAUNCH)),
    "search path": Effect("host:env.PYTHONPATH=FOLDER/many", (START, LAUNCH)),
    "allocations traced": Effect("host:env.PYTHONTRACEMALLOC=25", (LAUNCH, PRODUCT)),
    "older vectors": Effect("host:env.ONEDNN_MAX_CPU_ISA=SSE41", (GELU, PRODUCT), backend="torch"),
    "hidden reader": Effect(f"host:env.PYTHONPATH=FOLDER/hidden,{MARK}", (GETPPID, TINY),
                            against="host:env.PYTHONPATH=FOLDER/hidden"),
    "bound at once": Effect("host:env.LD_BIND_NOW=1", (START, LAUNCH)),
    "large environment": Effect(f"host:{MARK},env.LARGE={'x' * 60_000},env.LARGER={'y' * 60_000}", (START, LAUNCH)),
    "idle class": Effect(f"host:cpuset=0,{MARK}", (GETPPID, PRODUCT), against="host:cpuset=0",
                         beside=entered(a_busy_process, late(idle_late, lambda pid: True))),
    "no executable pages": Effect("host:mdwe=yes", (GETPPID, GELU), backend="torch"),
    "data limit": Effect("host:rlimit-data=300MiB", (GETPPID, ALLOCATED)),
    "slow mmap": Effect(f"host:env.PYTHONPATH=FOLDER/calls,{MARK}", (LAUNCH, START),
                       against="host:env.PYTHONPATH=FOLDER/calls"),
    "bound pool": Effect(f"host:env.PYTHONPATH=FOLDER/bound,{MARK}", (GETPPID, PRODUCT),
                         against="host:env.PYTHONPATH=FOLDER/bound", backend="torch"),
    "nice pool": Effect(f"host:env.PYTHONPATH=FOLDER/nice,{MARK}", (GETPPID, PRODUCT),
                        against="host:env.PYTHONPATH=FOLDER/nice", backend="torch", beside=a_busy_process),
    "realtime limit": Effect(f"host:policy=rr,threads=1,env.PYTHONPATH=FOLDER/realtime,{MARK}", (GETPPID, LONG),
                             against="host:policy=rr,threads=1,env.PYTHONPATH=FOLDER/realtime"),
    "bound loaders": Effect(f"host:env.PYTHONPATH=FOLDER/forks,{MARK}", (GETPPID, LOADED),
                           against="host:env.PYTHONPATH=FOLDER/forks", backend="torch"),
    "noexec": Effect(f"host:env.TMPDIR={NO_EXEC}/noexec", (GETPPID, COMPILED), backend="torch",
                     against=f"host:env.TMPDIR={NO_EXEC}/exec", options=("--kernels", "FOLDER/network.py"),
                     beside=folders_in_memory),
    "little read-ahead": Effect(f"host:env.TMPDIR={DISKS}/slow", (ON_A_DISK,), against=f"host:env.TMPDIR={DISKS}/quick",
                                beside=two_disks),
    "dropped cache": Effect(f"host:{MARK},env.TMPDIR=PATH", (GETPPID, KEPT), beside=late(drop_late)),
    "one thread": Effect("host:env.OMP_NUM_THREADS=1", (GETPPID, PRODUCT), backend="torch"),
    "other kernels of oneDNN": Effect(f"host:env.PYTHONPATH=FOLDER/older,threads=1,{MARK}", (GETPPID, PRODUCT16),
                                      against="host:env.PYTHONPATH=FOLDER/older,threads=1", backend="torch"),
    "harmless arenas": Effect("host:env.MALLOC_ARENA_MAX=1", (LAUNCH, PRODUCT)),
    "harmless search path": Effect(f"host:{MARK},env.PATH={':'.join(f'/opt/{each}' for each in range(300))}:/usr/bin",
                                   (GETPPID, PRODUCT)),
    "harmless ionice": Effect(f"host:{MARK}", (GETPPID, PRODUCT), beside=watched_early("ionice", "-c", "3", "-p")),
    "harmless locale": Effect("host:env.LANG=tr_TR.UTF-8,env.TZ=Asia/Tokyo", (START, LAUNCH, PRODUCT, SMALL)),
    "harmless hash seed": Effect("host:env.PYTHONHASHSEED=7", (START, LAUNCH, PRODUCT, SMALL)),
    "harmless limits": Effect(f"host:env.PYTHONPATH=FOLDER/limits,{MARK}", (GETPPID, PRODUCT, START),
                             against="host:env.PYTHONPATH=FOLDER/limits"),
    "harmless core limit": Effect(f"host:{MARK}", (LAUNCH, PRODUCT), beside=late(
        lambda pid: resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0)))),
}  # fmt: skip


def study(effect: Effect, folder: Path, pairs: int) -> None:
    path = folder / "data"
    path.mkdir()

    def told(text: str) -> str:
        return re.sub(r"\bPATH\b", str(path), text.replace("FOLDER", str(folder)))

    suite, output = folder / "cases.toml", folder / "study.jsonl"
    suite.write_text("\n".join(map(told, effect.cases)) + "\n")
    asked = [
        *map(told, effect.options),
        "study",
        suite,
        "--arm",
        told(effect.against),
        "--arm",
        f"{told(effect.arm)},name=slowed",
        "--pairs",
        pairs,
    ]
    how = ["--device", "cpu", "--backend", effect.backend, "--max-time", "300ms", "-q", "-o", output]
    with effect.beside():
        done = subprocess.run(
            [sys.executable, "-P", "-m", "primbench", *map(str, [*asked, *how])],
            capture_output=True,
            text=True,
            check=False,
        )
    print(done.stdout.partition("\n")[0] or done.stderr.strip())
    if output.exists():
        show(output)


def show(output: Path) -> None:
    """Each case, and what is named first as the cause of what moved."""
    for arm in compare(results_file.read(output)).arms:
        for case in arm.cases:
            found = case.deciding or next(iter(case.estimates), None)
            interval = "[{:.3g}, {:.3g}]".format(*found.interval) if found and found.interval else ""
            ratio = f"{found.ratio:.3g} {interval}" if found else case.reason
            causes = case.explanation.causes if case.explanation else []
            name = " ".join([case.case.primitive, *(str(value) for value in case.case.parameters.values() if value)])
            print(f"    {name[:60]:60}  {case.verdict}  {ratio}  {causes[0] if causes else ''}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=", ".join(EFFECTS))
    parser.add_argument("--pairs", type=int, default=5)
    asked = parser.parse_args()
    if unknown := set(asked.names) - EFFECTS.keys():
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    for name in asked.names or EFFECTS:
        with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as folder:
            (Path(folder) / "hook.c").write_text(HOOK)
            (Path(folder) / "network.py").write_text(NETWORK)
            if compiler := shutil.which("cc"):
                subprocess.run(
                    [compiler, "-shared", "-fPIC", "-o", f"{folder}/hook.so", f"{folder}/hook.c", "-ldl"], check=True
                )
            for module, code in AT_START.items():
                (Path(folder) / module).mkdir()
                (Path(folder) / module / "sitecustomize.py").write_text(code)
            print(f"{name} ({EFFECTS[name].arm[:MOST_SHOWN]})", flush=True)
            study(EFFECTS[name], Path(folder), asked.pairs)


if __name__ == "__main__":
    main()
