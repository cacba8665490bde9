"""Two places: which differences are found, and which of the two is here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from primbench.doctor.against import compare
from primbench.doctor.cause import Finding
from primbench.doctor.place import Place, look, read
from primbench.doctor.table import causes
from primbench.environment import fingerprint
from primbench.errors import FileError
from primbench.report.doctor import document
from primbench.report.plain import json_of

if TYPE_CHECKING:
    from click.testing import Result

MakePlace = Callable[[Mapping[str, Any]], Place]
LIBRARY = {"path": "/usr/lib/libcublas.so.13", "version": "13", "size_bytes": 1, "missing": {}}

GLIBC = {"malloc": {"path": "/lib/libc.so.6", "build_id": "aa"}}
OPENBLAS = {"NumPy's gemm": {"path": "/lib/libopenblas.so.0", "build_id": "ab"}}

# what is other there, check, severity, words said
CASES: list[tuple[Mapping[str, Any], str, str, str]] = [
    ({"devices.gpus.0.name": "H100"}, "against-gpu", "warning", "is H200 here and H100 in other.json"),
    (
        {"devices.gpus": [{"name": "H200", "driver_version": "580.1"}]},
        "against-gpu-count",
        "warning",
        "gpu_count is 2 here and 1 in other.json",
    ),
    ({"devices.driver_version": "570.2"}, "against-driver", "warning", "is 580.1 here and 570.2 in other.json"),
    ({"devices.mps_control": True}, "against-mps", "problem", "mps_control is no here and yes in other.json"),
    (
        {"software.libraries": {"libcuda": [{"build_id": "cd", **LIBRARY}]}},
        "against-libraries",
        "warning",
        "libcuda is build id ab here and build id cd in other.json",
    ),
    ({"software.packages": {"numpy": "2.3.0"}}, "against-packages", "warning", "numpy is 2.4.0 here and 2.3.0 in"),
    ({"software.python_build": "GCC 13.2.0"}, "against-python", "warning", "GCC 13.2.0, LTO, PGO here"),
    ({"software.variables": {"NCCL_ALGO": "Ring"}}, "against-nccl", "warning", "is none here and Ring in other.json"),
    ({"software.files": {"/etc/nccl.conf": "ab"}}, "against-nccl", "warning", "/etc/nccl.conf is none here"),
    ({"software.variables": {"NVIDIA_TF32_OVERRIDE": "1"}}, "against-variables", "warning", "OVERRIDE is none here"),
    (
        {"software.variables": {"MALLOC_ARENA_MAX": "4"}},
        "against-allocator",
        "warning",
        "MALLOC_ARENA_MAX is none here",
    ),
    (
        {"software.variables": {"PYTHONMALLOC": "debug"}},
        "against-python-settings",
        "warning",
        "and debug in other.json",
    ),
    ({"software.variables": {"PYTHONPYCACHEPREFIX": "~"}}, "against-bytecode", "note", "PREFIX is none here and ~ in"),
    ({"software.variables": {"OMP_PLACES": "cores"}}, "against-pinning", "warning", "OMP_PLACES is none here"),
    ({"software.variables": {"KMP_BLOCKTIME": "0"}}, "against-waiting", "warning", "KMP_BLOCKTIME is none here"),
    ({"software.threads": {"openblas": 2}}, "against-threads", "warning", "threads.openblas is 4 here and 2 in other"),
    (
        {"software.providers": GLIBC | {"NumPy's gemm": {"path": "/lib/libblas.so.3", "build_id": "cd"}}},
        "against-blas",
        "warning",
        "NumPy's gemm is /lib/libopenblas.so.0, build id ab here and /lib/libblas.so.3, build id cd in other.json",
    ),
    (
        {"software.providers": OPENBLAS | {"malloc": {"path": "/x.so", "build_id": "ef"}}},
        "against-preloads",
        "warning",
        "malloc is the C library here and /x.so, build id ef in other.json",
    ),
    (
        {"software.blas": [{"name": "openblas", "path": "/o", "architecture": "Zen"}]},
        "against-cpu-kernels",
        "warning",
        "kernels.openblas is Haswell here and Zen in other.json",
    ),
    ({"limits.cpu_quota": 0.5}, "against-cpus", "warning", "cpu_quota is none here and 0.5 in other.json"),
    ({"limits.cpus_allowed": list(range(512))}, "against-cpus", "warning", "is 0-3,8-11 here and 0-511 in other.json"),
    ({"limits.niceness": 10}, "against-priority", "warning", "niceness is none here and 10 in other.json"),
    ({"limits.cpu_weight": 39}, "against-priority", "warning", "cpu_weight is none here and 39 in other.json"),
    ({"limits.memory_limit_bytes": 2**30}, "against-memory", "note", "is none here and 1 GiB in other.json"),
    ({"confinement.set_mempolicy": "EPERM"}, "against-memory", "note", "is allowed here and EPERM in other.json"),
    ({"limits.processes_max": 64}, "against-processes", "note", "processes_max is none here and 64 in other.json"),
    ({"limits.stack_bytes": 2**32}, "against-stacks", "note", "is 8 MiB here and 4 GiB in other.json"),
    ({"limits.address_space_bytes": 2**32}, "against-address-space", "note", "1 TiB here and 4 GiB in other.json"),
    ({"limits.file_size_bytes": 2**19}, "against-file-size", "note", "1 TiB here and 512 KiB in other.json"),
    ({"limits.data_bytes": 2**30}, "against-address-space", "note", "data_bytes is none here and 1 GiB in other.json"),
    ({"limits.realtime_limit_s": 0.2}, "against-realtime-time", "note", "realtime_limit_s is none here and"),
    ({"limits.thread_cpus": {"0": 7}}, "against-thread-cpus", "warning", "thread_cpus.0 is none here and 7 in other"),
    ({"limits.thread_niceness": {"9": 2}}, "against-thread-order", "warning", "thread_niceness.9 is none here and 2"),
    ({"limits.thread_scheduling": {"idle": 1}}, "against-thread-order", "warning", "scheduling.idle is none here and"),
    (
        {"confinement.executable_pages": "EACCES"},
        "against-executable-pages",
        "problem",
        "is allowed here and EACCES in",
    ),
    ({"confinement.noexec": ["temporary files"]}, "against-noexec", "warning", "noexec is none here and temporary"),
    ({"limits.cpu_time_limit_s": 3600}, "against-cpu-time", "note", "cpu_time_limit_s is none here and 3600"),
    ({"software.start_code": {"agent.pth": "cd"}}, "against-start-code", "warning", "agent.pth is none here and cd in"),
    ({"software.other_threads": ["agent"]}, "against-other-threads", "warning", "is none here and agent in other.json"),
    ({"limits.io_limits": ["8:0 rbps=9"]}, "against-io-limits", "note", "and 8:0 rbps=9 in other.json"),
    ({"limits.open_files": 1024}, "against-open-files", "note", "and 1024 in other.json"),
    ({"limits.shm_bytes": 2**26}, "against-shared-memory", "note", "is 64 GiB here and 64 MiB in other.json"),
    (
        {"confinement.speculation_store_bypass": "thread force mitigated"},
        "against-mitigations",
        "warning",
        "is thread vulnerable here and thread force mitigated in other.json",
    ),
    ({"machine.mitigations": {"spectre_v2": "Vulnerable"}}, "against-mitigations", "warning", "Vulnerable in other"),
    ({"confinement.seccomp": "filter"}, "against-filters", "note", "is disabled here and filter in other.json"),
    ({"confinement.filesystems": {"home": "nfs on ~"}}, "against-files", "note", "is ext4 on / here and nfs on ~ in"),
    ({"confinement.io_uring": "EPERM"}, "against-io-uring", "note", "io_uring is allowed here and EPERM in other.json"),
    (
        {"confinement.access_times": {"home": "strictatime"}},
        "against-access-times",
        "note",
        "home is relatime here and strictatime in other.json",
    ),
    ({"confinement.temporary_steps": 30}, "against-long-path", "note", "is 1 here and 30 in other.json"),
    (
        {"confinement.read_ahead_bytes": {"temporary files": 2**22, "Python": 2**17}},
        "against-read-ahead",
        "note",
        "read_ahead_bytes.temporary files is 128 KiB here and 4 MiB in other.json",
    ),
    (
        {"devices.cuda": "CUDA_ERROR_UNKNOWN"},
        "against-cuda-start",
        "problem",
        "is CUDA_SUCCESS here and CUDA_ERROR_UNKNOWN",
    ),
    ({"limits.cpu_group_depth": 30}, "against-cpu-groups", "note", "is 2 here and 30 in other.json"),
    ({"runtime": "docker"}, "against-runtime", "note", "host"),
    ({"machine.clocksource": "hpet"}, "against-clock", "warning", "is tsc here and hpet in other.json"),
    ({"machine.governor": "powersave"}, "against-cpu-frequency", "warning", "is performance here and powersave in"),
    ({"machine.transparent_hugepage": "never"}, "against-huge-pages", "warning", "is madvise here and never in"),
    ({"machine.numa_balancing": True}, "against-numa-balancing", "warning", "is no here and yes in other.json"),
    ({"machine.infiniband": ["mlx5_0"]}, "against-network", "warning", "is none here and mlx5_0 in other.json"),
    (
        {"confinement.loopback": {"mtu": "576"}},
        "against-loopback",
        "warning",
        "mtu is 65536 here and 576 in other.json",
    ),
    ({"machine.cpu_model": "EPYC"}, "against-machine", "warning", "is Xeon here and EPYC in other.json"),
    ({"machine.kernel": "5.4.0"}, "against-kernel", "note", "is 6.8.0-40-generic here and 5.4.0 in other.json"),
]


def differences(place: MakePlace, there: Mapping[str, Any], here: Mapping[str, Any] = {}) -> list[Finding]:
    return compare(place(here), place(there), "other.json")


def test_equal_places_have_no_finding(place: MakePlace) -> None:
    assert [] == differences(place, {})


@pytest.mark.parametrize(("there", "check", "severity", "words"), CASES)
def test_difference_is_found(place: MakePlace, there: Mapping[str, Any], check: str, severity: str, words: str) -> None:
    found = [finding for finding in differences(place, there) if finding.cause == check]
    assert [severity] == [finding.severity for finding in found]
    assert words in " ".join([found[0].summary, *found[0].evidence])


def test_every_rule_has_a_case() -> None:
    assert {f"against-{cause.id}" for cause in causes().values() if cause.effect and not cause.in_outputs} == {
        check for _, check, _, _ in CASES
    }


def test_node_of_one_place_alone_is_not_listed_in_full(place: MakePlace) -> None:
    nodes = [{"id": node, "cpus": [node], "has_memory": True, "allowed": True} for node in range(2)]
    (found,) = differences(place, {"nodes": nodes}, here={"nodes": nodes[:1]})
    assert "nodes[1] is none here and present in other.json" == found.summary


def test_several_differences_of_one_kind_are_one_finding(place: MakePlace) -> None:
    (found,) = differences(place, {"software.variables": {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL"}})
    assert "2 things differ between here and other.json: NCCL_ALGO, NCCL_PROTO" == found.summary
    assert 2 == len(found.evidence)


def test_what_is_not_known_of_one_is_no_difference(place: MakePlace) -> None:
    unknown = {"machine.clocksource": None, "machine.missing": {"clocksource": "ENOENT"}}
    assert [] == differences(place, unknown)
    assert [] == differences(place, {"software.libraries": {}})
    blas = [{"name": "openblas", "path": "/x", "version": "0.3", "architecture": "Zen", "threads": 1}]
    assert [] == differences(place, {"software.blas": blas}, here={"software.blas": []})


def test_gpus_that_one_cannot_count_are_no_difference(place: MakePlace) -> None:
    unknown = {"devices.gpus": None, "devices.missing": {"gpus": "no NVML"}}
    assert [] == differences(place, unknown)
    (found,) = differences(place, {"devices.gpus": []})
    assert ("against-gpu-count", "gpu_count is 2 here and 0 in other.json") == (found.cause, found.summary)


def test_namespaces_count_on_one_machine_only(place: MakePlace) -> None:
    apart = {"confinement.namespaces": {"ipc": "ipc:[9]", "net": "net:[2]", "uts": "uts:[3]"}}
    (found,) = [each for each in differences(place, apart) if each.cause == "against-namespaces"]
    assert "here and other.json do not share the ipc namespace" in found.summary
    assert "--ipc=host" in (found.advice or "")
    elsewhere = apart | {"devices.gpus.0.uuid": "GPU-3", "devices.gpus.1.uuid": "GPU-4"}
    assert [] == [each for each in differences(place, elsewhere) if each.cause == "against-namespaces"]


def test_libraries_that_are_loaded_there_are_looked_at(place: MakePlace) -> None:
    copies = [{"build_id": "ab", **LIBRARY}, {"build_id": "cd", **LIBRARY}]
    (found,) = differences(place, {"software.libraries": {"libgomp": copies}})
    assert ("library-copies", "in other.json: 2 copies of libgomp are loaded") == (found.cause, found.summary)


def test_reads_what_doctor_and_env_write(tmp_path: Path) -> None:
    here = look()
    for name, text in {
        "doctor.json": json_of(document(here, []).value).encode(),
        "env.json": msgspec.json.encode(msgspec.to_builtins(here.environment) | {"sources": fingerprint.sources()}),
    }.items():
        (tmp_path / name).write_bytes(text)
        found = read(str(tmp_path / name))
        assert here.environment == found.environment
        said = [finding.cause for finding in compare(here, found, name)]
        assert [] == [check for check in said if check.startswith("against")]  # others are of what this process loaded


def test_reads_the_worker_of_a_results_file(measured: tuple[Path, Result]) -> None:
    found = read(str(measured[0])).environment.software.libraries
    assert found is not None
    assert any("openblas" in name or "mkl" in name for name in found), "NumPy's worker loads a BLAS"


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\xfe", b"[1]", b'{"place": 1}', b'{"kind":"header"}\n', None])
def test_refuses_other_files_by_name(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "x.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(FileError, match=r"x\.json"):
        read(str(path))


def test_a_file_that_never_ends_is_refused() -> None:
    with pytest.raises(FileError, match="/dev/zero: none of what can be compared with"):
        read("/dev/zero")


def test_results_that_another_program_wrote_again_are_results(measured: tuple[Path, Result], tmp_path: Path) -> None:
    spaced = tmp_path / "spaced.jsonl"
    spaced.write_text("".join(json.dumps(json.loads(line)) + "\n" for line in measured[0].read_text().splitlines()))
    assert read(str(measured[0])) == read(str(spaced))
