"""Whether a study finds products that one place makes 3 % longer, while a load comes and goes, and names the cause.

Nothing of primbench is told: one arm has a folder on PYTHONPATH, of which the sitecustomize makes numpy.matmul, or
torch.mm, go on computing for a share of the time that it took. The load is 1 or 2 busy processes for 1 to 8 seconds,
then none for as long, drawn by a seed. The last rows are of the host against itself. Takes the time budget.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from primbench.compare.comparison import ArmComparison
from primbench.compare.pairs import compare
from primbench.results import file as results_file
from primbench.units import format_time

SLOWER = """
import sys
import time
from importlib.machinery import PathFinder


def longer(product):
    def call(*args, **kwargs):
        start = time.perf_counter()
        result = product(*args, **kwargs)
        end = time.perf_counter()
        end += {share} * (end - start)
        while time.perf_counter() < end:
            pass
        return result

    return call


class Slower(PathFinder):  # numpy is not imported here: it would have its threads before they are limited
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        spec = super().find_spec(name, path, target) if name == "{backend}" else None
        if spec is not None:
            load = spec.loader.exec_module

            def exec_module(module):
                load(module)
                module.{product} = longer(module.{product})

            spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Slower)
"""
SUITE = """
gemm = [
    { m = 256, n = 256, k = 256 },
    { m = 512, n = 512, k = [256, 512] },
    { m = 1024, n = 1024, k = 512 },
    { m = 1536, n = 1536, k = 1536 },
]
"""
PRODUCTS = {"numpy": "matmul", "torch": "mm"}
LOADS = ("while True: pass", "a = bytearray(1 << 26)\nwhile True: bytes(a)")


@contextlib.contextmanager
def load_that_comes_and_goes(seed: int) -> Iterator[None]:
    drawn, is_over = random.Random(seed), threading.Event()

    def come_and_go() -> None:
        while not is_over.wait(drawn.uniform(1, 8)):
            loads = drawn.choices(LOADS, k=drawn.choice((1, 2)))
            busy = [subprocess.Popen([sys.executable, "-c", each]) for each in loads]
            is_over.wait(drawn.uniform(1, 8))
            for each in busy:
                each.kill()
                each.wait()

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def study(folder: Path, asked: argparse.Namespace) -> Path:
    slower, suite, path = folder / "slower", folder / "suite.toml", asked.output or folder / "study.jsonl"
    slower.mkdir()
    (slower / "sitecustomize.py").write_text(
        SLOWER.format(share=asked.share, backend=asked.backend, product=PRODUCTS[asked.backend])
    )
    suite.write_text(SUITE)
    threads = f":threads={asked.threads}" if asked.threads else ""
    arms = [f"host{threads}", f"host{threads or ':'}{',' * bool(threads)}name=slower,env.PYTHONPATH={slower}"]
    words = [
        *(sys.executable, "-P", "-m", "primbench", "study", suite, "--arm", arms[0], "--arm", arms[1], "--self"),
        *("--device", "cpu", "--backend", asked.backend, "--until", "settled", "--time-budget", asked.budget),
        *("--fail-on", "never", "-o", path),
    ]
    subprocess.run(list(map(str, words)), check=True)
    return path


def rows(arm: ArmComparison) -> Iterator[str]:
    for case in arm.cases:
        size = "x".join(str(case.case.parameters[each]) for each in "mnk")
        deciding = case.deciding
        if deciding is None or deciding.interval is None:
            yield f"{arm.name:12} {size:14} not compared: {case.reason}"
            continue
        low, high = deciding.interval
        ratio = f"{deciding.metric} {deciding.ratio:.3f} [{low:.3f}, {high:.3f}]"
        likely = f"likely: {case.explanation.likely}" if case.explanation and case.explanation.likely else ""
        yield f"{arm.name:12} {size:14} {format_time(deciding.baseline_s):8} {ratio:30} {case.verdict}  {likely}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=0.03)
    parser.add_argument("--threads", type=int, help="of each process; all CPUs where it is not given")
    parser.add_argument("--backend", choices=[*PRODUCTS], default="numpy")
    parser.add_argument("--budget", default="10min")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="keep the study's results file")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with load_that_comes_and_goes(asked.seed):
            path = study(Path(folder), asked)
        found = compare(results_file.read(path))
    for arm in (*found.arms, found.again):
        if arm:
            print(*rows(arm), sep="\n")


if __name__ == "__main__":
    main()
