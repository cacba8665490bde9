"""Which variables of libraries mean something on one machine alone."""

from __future__ import annotations

import pytest

from primbench.causes.variables import VARIABLES
from primbench.environment.configuration import of_variable
from primbench.spec.variables import (
    CACHE_SIZES,
    INSTRUCTIONS,
    choosing_code,
    for_any_machine,
    is_for_libraries,
    of_this_machine,
)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("OPENBLAS_CORETYPE", "Haswell", "instructions"),
        ("MKL_CBWR", "AVX2", "instructions"),
        ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0:glibc.cpu.hwcaps=-AVX2", "instructions"),
        ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", None),
        ("OPENBLAS_L2_SIZE", "512", "cache-sizes"),
        ("GOMP_CPU_AFFINITY", "0-3", "cpus"),
        ("KMP_AFFINITY", "granularity=fine,compact,1,0", None),
        ("KMP_AFFINITY", "explicit,proclist=[0,2]", "cpus"),
        ("OMP_PLACES", "{0:4}:2:4", "cpus"),
        ("OMP_PLACES", "cores", None),
        ("CUDA_VISIBLE_DEVICES", "1", "gpus"),
        ("NCCL_HOSTID", "n17", "host"),
        ("LD_LIBRARY_PATH", "/opt/mine", "path"),
        ("OMP_NUM_THREADS", "4", None),
        ("OPENBLAS_NUM_THREADS", "4", None),
        ("NCCL_DEBUG", "INFO", None),
    ],
)
def test_what_is_of_a_machine_is_so_for_a_reason(name: str, value: str, reason: str | None) -> None:
    assert is_for_libraries(name)
    assert reason == of_this_machine(name, value)
    assert (reason is None) == (for_any_machine({name: value}) == {name: value})


def test_of_a_list_the_entries_go_on_that_mean_the_same_everywhere() -> None:
    asked = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.cpu.hwcaps=-AVX2:glibc.malloc.arena_max=1"}
    assert {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1"} == for_any_machine(asked)
    assert {} == for_any_machine({"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2"})


def test_each_that_chooses_code_is_known_to_whoever_tells_of_it() -> None:
    for name in INSTRUCTIONS:
        assert name in VARIABLES
    for name in (*INSTRUCTIONS, *CACHE_SIZES):
        assert is_for_libraries(name)
        assert "cpu-kernels" == of_variable(name).rule
    set_here = dict.fromkeys((*INSTRUCTIONS, *CACHE_SIZES, "PATH"), "1")
    assert {*INSTRUCTIONS} == {*choosing_code(set_here)}
