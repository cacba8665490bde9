"""What a study says of places that are slowed down for real: which of its cases moved, by how much, and why.

Each effect is an arm beside the host, and a few cases of which some are to move. Names of effects may follow; --pairs
is how many each study has. All take some 15 minutes on two CPUs that nothing else uses.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

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
RING = 'files = [{ bytes = 4194304, what = "read", access = ["buffered", "io_uring"] }]'


@dataclass(frozen=True)
class Effect:
    """arm, against: FOLDER and PATH stand for folders of the script. beside: runs while the study does."""

    arm: str
    cases: tuple[str, ...]
    backend: str = "numpy"
    against: str = "host"
    beside: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext


@contextlib.contextmanager
def a_busy_process() -> Iterator[None]:
    """On the first CPU, in a session of its own, as another user's would be, until this process ends."""
    spin = f"import os; os.sched_setaffinity(0, {{0}})\nwhile os.getppid() == {os.getpid()}: pass"
    with subprocess.Popen([sys.executable, "-c", spin], start_new_session=True) as spinning:
        try:
            yield
        finally:
            spinning.kill()


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
}  # fmt: skip


def study(effect: Effect, folder: Path, pairs: int) -> None:
    path = folder / "data"
    path.mkdir()

    def told(text: str) -> str:
        return text.replace("FOLDER", str(folder)).replace("PATH", str(path))

    suite, output = folder / "cases.toml", folder / "study.jsonl"
    suite.write_text("\n".join(map(told, effect.cases)) + "\n")
    asked = ["study", suite, "--arm", effect.against, "--arm", f"{told(effect.arm)},name=slowed", "--pairs", pairs]
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
            if compiler := shutil.which("cc"):
                subprocess.run(
                    [compiler, "-shared", "-fPIC", "-o", f"{folder}/hook.so", f"{folder}/hook.c", "-ldl"], check=True
                )
            print(f"{name} ({EFFECTS[name].arm})", flush=True)
            study(EFFECTS[name], Path(folder), asked.pairs)


if __name__ == "__main__":
    main()
