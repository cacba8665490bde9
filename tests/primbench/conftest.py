from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from primbench.doctor.job import ENTRY_POINTS
from primbench.environment import fingerprint
from primbench.environment.fingerprint import Environment
from primbench.environment.later import Later
from primbench.measurement import Measurement
from primbench.numa.placement import EffectivePlacement
from primbench.results.file import Results
from primbench.results.record import Header, Record, Worker
from primbench.spec.arm import parse_arm
from primbench.spec.case import Case
from primbench.spec.study import AGAIN, Study

from ..groups import ahead_of_others

__all__ = ["ahead_of_others"]

MadeStudy = Callable[..., Results]
HERE = fingerprint.collect(gpus=False)
PLACED = EffectivePlacement(cpus=[0], memory_policy="default", memory_nodes=[], rung="none")


@pytest.fixture(scope="session")
def built_stub(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], str]:
    """``built_stub(source)``: a stand-in for NVML's library, compiled from C. Skips where there is no compiler."""

    def build(source: Path) -> str:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            pytest.skip("no C compiler (cc, gcc) to build the NVML stub with")
        library = tmp_path_factory.mktemp("nvml") / "libnvidia-ml-stub.so"
        flags = ["-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1"]
        subprocess.run([compiler, *flags, "-o", library, source], check=True)
        return str(library)

    return build


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    """A library by the name of CUDA's driver, which is not here without a GPU: what it has of it does nothing.

    cuGetProcAddress_v2(name, address) finds its own functions as that does. Skips without cc.
    """
    if shutil.which("cc") is None:
        pytest.skip("cc is missing: apt-get install gcc")
    library = tmp_path / "libcuda.so.1"
    functions = [f"int {name}(void) {{ return {number}; }}" for number, name in enumerate(ENTRY_POINTS)]
    found = [f'if (!strcmp(name, "{name}")) *found = {name};' for name in ENTRY_POINTS]
    looked_up = f"int cuGetProcAddress_v2(char *name, void **found) {{ {' '.join(found)} return *found ? 0 : 1; }}"
    source = "\n".join(["#include <string.h>", *functions, looked_up])
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, "-xc", "-"], input=source, text=True, check=True)
    return library


@pytest.fixture
def launching(driver: Path) -> str:
    """A program that launches without end once it has printed a line, by a library that uprobes really count."""
    loaded = f"import ctypes; driver = ctypes.CDLL({str(driver)!r}); print(flush=True)"
    return f"{loaded}\nwhile True: driver.cuLaunchKernel()"


@pytest.fixture(scope="session")
def made_study() -> MadeStudy:
    """``made_study(arms, cases, measured)``: what a study leaves that saw ``measured(arm, case, pair)``.

    arms: in words, which are their names where they give none, with " (again)" after the first one for the baseline
    run twice. environments: arm -> what its
    workers saw; this machine where it is not named. later: arm -> what had changed of that once a case was timed. What
    ``measured`` gives as text is a failed case's reason.
    """

    def make(
        arms: Sequence[str],
        cases: Sequence[Case],
        measured: Callable[[str, Case, int], Measurement | str],
        pairs: int = 8,
        environments: Mapping[str, Environment] = {},
        later: Mapping[str, Later] = {},
    ) -> Results:
        parsed = [
            parse_arm(words) if "name=" in words else replace(parse_arm(words.removesuffix(AGAIN)), name=words)
            for words in arms
        ]
        study = Study(arms=parsed, cases=list(cases), pairs=pairs)
        header = Header(schema_version=1, command=[], started_utc="", labels={}, environment=HERE, study=study)
        results = Results(header=header, workers=[], records=[])
        for pair in range(pairs):
            for arm in parsed[:: -1 if pair % 2 else 1]:
                for backend, device in dict.fromkeys((case.backend, case.device) for case in cases):
                    results.add(
                        Worker(
                            worker=len(results.workers),
                            pid=1,
                            backend=backend,
                            device=device,
                            environment=environments.get(arm.name, HERE),
                            placement=PLACED,
                            versions={},
                            arm=arm,
                        )
                    )
                    for case in cases:
                        if (case.backend, case.device) == (backend, device):
                            seen = measured(arm.name, case, pair)
                            results.add(
                                Record(
                                    case=replace(case, arm=arm.name, process=pair),
                                    status="failed" if isinstance(seen, str) else "ok",
                                    reason=seen if isinstance(seen, str) else None,
                                    measurement=None if isinstance(seen, str) else seen,
                                    worker=len(results.workers) - 1,
                                    started_utc="",
                                    duration_s=1.0,
                                    later=later.get(arm.name),
                                )
                            )
        return results

    return make
