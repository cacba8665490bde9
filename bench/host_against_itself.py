"""How often a study calls a host slower or faster than itself, and how much slower it has to be for that to be found.

Promised by docs/method.md: below 5 % false alarms over all cases, and that samples within one process agree better than
two processes do. Each study runs a few cases in two arms that are the same place, pair after pair; then the times of
the second arm are multiplied, and the same samples compared again. Takes a minute a study.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from primbench.compare.pairs import compare
from primbench.measurement import Measurement, Samples
from primbench.results import file as results_file
from primbench.results.file import Results
from primbench.stats import relative_noise

SUITE = """
gemm = [{ m = 256, n = 256, k = [64, 256] }]
memcpy = [{ bytes = [4096, 16777216] }]
launch = [{ call = ["getppid", "dispatch"] }]
"""
FACTORS = (1.0, 1.05, 1.1, 1.25, 1.5, 2.0)


def study(folder: Path, pairs: int, seed: int) -> Results:
    suite, path = folder / "suite.toml", folder / f"{seed}.jsonl"
    suite.write_text(SUITE)
    arms = ("--arm", "host", "--arm", "host:name=same", "--device", "cpu", "--backend", "numpy")
    command = [sys.executable, "-P", "-m", "primbench", "study", suite, *arms, "--max-time", "200ms", "--seed", seed]
    words = [*command, "--pairs", pairs, "--fail-on", "never", "-o", path]
    subprocess.run(list(map(str, words)), check=True, stdout=subprocess.DEVNULL)
    return results_file.read(path)


def slowed(found: Results, factor: float) -> Results:
    """The same, with every time of the second arm multiplied."""

    def longer(measured: Measurement | None) -> Measurement | None:
        if measured is None:
            return None
        times: dict[str, Any] = {
            name: replace(taken, samples_s=[factor * each for each in taken.samples_s])
            for name in measured.__struct_fields__
            if isinstance(taken := getattr(measured, name), Samples)
        }
        return replace(measured, **times)

    records = [
        replace(each, measurement=longer(each.measurement)) if each.case.arm == "same" else each
        for each in found.records
    ]
    return replace(found, records=records)


def verdicts(found: Results) -> list[str]:
    return [case.verdict or "not compared" for case in compare(found).arms[0].cases]


def scatter(studies: list[Results]) -> tuple[float, float]:
    """Medians over cases: the noise of a process's own median, and the scatter of the medians of processes."""
    within, between = [], []
    for found in studies:
        cases: dict[str, list[Samples]] = {}
        for each in found.records:
            if each.measurement and each.measurement.main:
                cases.setdefault(str(each.case.parameters), []).append(each.measurement.main)
        for taken in cases.values():
            within.append(statistics.median(relative_noise(each.samples_s) or 0.0 for each in taken))
            medians_s = [each.median_s for each in taken]
            between.append(statistics.stdev(medians_s) / statistics.mean(medians_s))
    return statistics.median(within), statistics.median(between)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=8)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        studies = [study(Path(folder), asked.pairs, seed) for seed in range(asked.studies)]
    for factor in FACTORS:
        told = Counter(verdict for found in studies for verdict in verdicts(slowed(found, factor)))
        print(f"{factor:.2f} times as long: {', '.join(f'{count} {verdict}' for verdict, count in told.most_common())}")
    within, between = scatter(studies)
    print(f"samples of a process give its median to {within:.1%}; medians of processes scatter by {between:.1%}")


if __name__ == "__main__":
    main()
