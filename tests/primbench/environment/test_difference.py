from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from primbench.environment.difference import Difference, LayerDifference, difference
from primbench.environment.fingerprint import Environment
from primbench.environment.libraries import Library
from primbench.environment.limits import Limits
from primbench.environment.reading import NOT_RECORDED
from primbench.environment.software import Blas
from primbench.gpu.nvidia.gpu import Gpu
from primbench.report import text
from primbench.report.environment import document
from primbench.report.plain import json_of
from primbench.system.meaning import facts_of

Look = Callable[..., Environment]
PARTS = ("stack", "limits", "confinement", "machine")


@pytest.fixture
def here(look: Look) -> Environment:
    return look()


def changed(found: Environment, group: str, **fields: Any) -> Environment:
    return replace(found, **{group: replace(getattr(found, group), **fields)})


def verdicts(found: Difference) -> dict[str, bool | None]:
    return {part: getattr(found, part).same for part in PARTS}


def fields(part: LayerDifference, kind: str) -> list[str]:
    return [str(change.field) for change in part.changes if change.kind == kind]


def test_the_same_place_differs_in_nothing(here: Environment) -> None:
    found = difference(here, here)
    assert dict.fromkeys(PARTS, True) == verdicts(found)
    assert [] == [change for part in PARTS for change in getattr(found, part).changes]


@pytest.mark.parametrize("name", ["missing", "limits.cpu_quota", "a[0].b", "x]y"])
def test_a_variable_may_have_any_name(here: Environment, name: str) -> None:
    found = difference(here, changed(here, "software", variables={**(here.software.variables or {}), name: "5"}))
    (change,) = found.stack.changes
    assert (("software", "variables", name), None, "5") == (tuple(change.field), change.a, change.b)
    assert name in text.write(document(changed(here, "software", variables={name: "5"}), {}))


LIMITS: dict[str, Any] = {"cpu_quota": 0.5, "memory_limit_bytes": None, "shm_bytes": 2**26, "open_files": 7}
CONFINEMENT: dict[str, Any] = {"seccomp": "disabled", "capabilities": [], "set_mempolicy": "EACCES", "root_user": False}
MACHINE: dict[str, Any] = {
    "kernel": "5.4.0",
    "clocksource": "hpet",
    "governor": "powersave",
    "mitigations": {"mds": "x"},
}
STACK: dict[str, Any] = {
    "python_version": "3.99", "libc": "musl", "packages": {"numpy": "9"}, "variables": {"NVIDIA_TF32_OVERRIDE": "1"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("part", "group", "change"),
    [
        (part, group, {field: value})
        for part, group, table in (
            ("limits", "limits", LIMITS),
            ("confinement", "confinement", CONFINEMENT),
            ("machine", "machine", MACHINE),
            ("stack", "software", STACK),
            ("stack", "machine", {"os_name": "Alpine"}),
            ("stack", "devices", {"driver_version": "450.80"}),
            ("confinement", "devices", {"mps_control": False, "gpu_files": []}),
            ("limits", "software", {"variables": {"OMP_NUM_THREADS": "1"}}),
        )
        for field, value in table.items()
    ],
)
def test_a_change_is_one_of_its_part_alone(here: Environment, part: str, group: str, change: dict[str, Any]) -> None:
    bare = changed(here, "software", variables={})
    found = difference(bare, changed(bare, group, **change))
    assert dict.fromkeys(PARTS, True) | {part: False} == verdicts(found)
    (field,) = change
    assert all(name.startswith(f"{group}.{field}") for name in fields(getattr(found, part), "differs"))


def test_counters_and_moments_are_left_out(here: Environment) -> None:
    there = replace(
        changed(here, "limits", periods=9, throttled_periods=8, throttled_s=7.0, shm_free_bytes=6), time_utc=""
    )
    there = changed(there, "machine", memory_available_bytes=5)
    assert [] == [change for part in PARTS for change in getattr(difference(here, there), part).changes]


def test_what_is_measured_or_named_anew_varies(here: Environment) -> None:
    there = changed(changed(here, "machine", clock_s=1.0), "confinement", system_call_s=1.0)
    there = changed(there, "software", python_executable="/x", variables={"NCCL_DEBUG": "INFO"})
    found = difference(changed(here, "software", variables={}), there)
    assert dict.fromkeys(PARTS, True) == verdicts(found)
    varying = {name for part in PARTS for name in fields(getattr(found, part), "varies")}
    assert {
        "machine.clock_s", "confinement.system_call_s", "software.python_executable", "software.variables.NCCL_DEBUG",
    } == varying  # fmt: skip


def libraries(**files: list[Library]) -> dict[str, list[Library]]:
    return files


def test_libraries_are_the_same_by_build_id_wherever_they_lie(here: Environment) -> None:
    one = changed(here, "software", libraries=libraries(libcuda=[Library(path="/a", build_id="aa", size_bytes=1)]))
    two = changed(here, "software", libraries=libraries(libcuda=[Library(path="/b", build_id="aa", size_bytes=1)]))
    other = changed(here, "software", libraries=libraries(libcuda=[Library(path="/a", build_id="bb", size_bytes=1)]))
    assert difference(one, two).stack.same is True
    (change,) = difference(one, other).stack.changes
    assert ("software.libraries.libcuda", ["build id aa"], ["build id bb"]) == (str(change.field), change.a, change.b)


def test_libraries_without_a_build_id_are_told_apart_by_version_and_size(here: Environment) -> None:
    def place(**known: Any) -> Environment:
        return changed(here, "software", libraries=libraries(libopenblas=[Library(path="/a", **known)]))

    assert difference(place(version="1", size_bytes=5), place(version="1", size_bytes=5)).stack.same is True
    assert difference(place(version="1", size_bytes=5), place(version="1", size_bytes=6)).stack.same is False
    assert (
        difference(place(version="1", size_bytes=5, build_id="a"), place(version="1", size_bytes=5)).stack.same is True
    )


def test_library_loaded_on_one_side_only_differs(here: Environment) -> None:
    one = changed(here, "software", libraries={})
    two = changed(here, "software", libraries=libraries(libcuda=[Library(path="/b", build_id="aa")]))
    assert ["software.libraries.libcuda"] == fields(difference(one, two).stack, "differs")


@pytest.mark.parametrize(
    ("name", "is_told"),
    [("libblas", True), ("libjemalloc", True), ("libuuid", False), ("numpy/linalg/lapack_lite", False)],
)
def test_only_a_library_at_work_differs_by_being_there(here: Environment, name: str, is_told: bool) -> None:
    one = changed(here, "software", libraries={})
    two = changed(here, "software", libraries={name: [Library(path="/b", build_id="aa")]})
    kind = "differs" if is_told else "varies"
    assert [f"software.libraries.{name}"] == fields(difference(one, two).stack, kind)


@pytest.mark.parametrize(("name", "is_told"), [("numpy/_core/_multiarray_umath", True), ("libcrypto", False)])
def test_a_library_of_another_build_differs_unless_nothing_timed_calls_it(
    here: Environment, name: str, is_told: bool
) -> None:
    one, two = (
        changed(here, "software", libraries={name: [Library(path="/b", build_id=build)]}) for build in ("aa", "bb")
    )
    assert (not is_told) == difference(one, two).stack.same


def test_whose_functions_are_called_is_told_by_build(here: Environment) -> None:
    def place(name: str, build_id: str | None, size_bytes: int = 1) -> Environment:
        file = Library(path=f"/usr/lib/{name}", build_id=build_id, size_bytes=size_bytes)
        return changed(here, "software", providers={"malloc": file}, preloads={"LD_PRELOAD": [file]})

    (change,) = fields(difference(place("libc.so.6", "aa"), place("libc.so.6", "bb")).stack, "differs")
    assert "software.preloads.LD_PRELOAD" == change, "another C library is told as such"
    assert difference(place("a.so", "aa"), place("b.so", "aa")).stack.changes[1:] == []
    assert difference(place("a.so", None, 5), place("a.so", "aa", 5)).stack.changes[1:] == []
    (*_, change_of_malloc) = difference(place("a.so", "aa"), place("b.so", None, 7)).stack.changes
    assert ("/usr/lib/a.so, build id aa", "/usr/lib/b.so, version not known, 7 B") == (
        change_of_malloc.a,
        change_of_malloc.b,
    )


def test_what_was_not_recorded_is_unknown(here: Environment) -> None:
    old = changed(here, "software", preloads=None, providers=None, threads=None)
    without = changed(here, "software", blas=None, missing={"blas": "module 'threadpoolctl' is absent"})
    there = changed(here, "software", blas=[Blas(name="openblas", path="/o", version="0.3", architecture="Zen")])
    assert {None} == {difference(without, there).stack.same, difference(there, without).stack.same}
    assert {None} == {difference(old, here).stack.same, difference(here, old).stack.same}
    assert difference(old, old).stack.same is True


def test_kernels_chosen_for_a_cpu_are_of_the_machine_where_that_differs(here: Environment) -> None:
    def place(cpu_model: str, architecture: str, **variables: str) -> Environment:
        blas = [Blas(name="openblas", path="/o", version="0.3", architecture=architecture)]
        found = changed(here, "software", blas=blas, variables=variables)
        return changed(found, "machine", cpu_model=cpu_model)

    elsewhere = difference(place("Xeon", "SkylakeX"), place("EPYC", "Zen"))
    assert dict.fromkeys(PARTS, True) | {"machine": False} == verdicts(elsewhere)
    assert ["machine.cpu_model", "software.kernels.openblas"] == fields(elsewhere.machine, "differs")
    assert difference(place("Xeon", "SkylakeX"), place("Xeon", "Zen")).stack.same is False
    chosen = difference(place("Xeon", "SkylakeX"), place("EPYC", "Zen", OPENBLAS_CORETYPE="Zen"))
    assert chosen.stack.same is False, "by a variable, not by the CPU"


def test_threads_are_a_limit_and_none_of_a_pool_that_one_lacks(here: Environment) -> None:
    one, two, other = (
        changed(here, "software", threads=threads) for threads in ({"openblas": 2}, {"openblas": 1}, {"openmp": 2})
    )
    assert ["software.threads.openblas"] == fields(difference(one, two).limits, "differs")
    assert difference(one, other).limits.same is True


def test_library_that_a_process_of_other_work_had_not_loaded_is_unknown(here: Environment) -> None:
    front = changed(here, "software", libraries=libraries(libc=[Library(path="/c", build_id="cc")]), blas=[])
    files = [Library(path="/a", build_id="aa"), Library(path="/b", build_id="bb")]
    blas = [Blas(name="openblas", path="/o", version="0.3")]
    more = libraries(libc=[Library(path="/c", build_id="cc")], libgomp=files)
    worker = changed(here, "software", libraries=more, blas=blas)
    for one, other in ((front, worker), (worker, front)):
        found = difference(one, other, same_work=False).stack
        assert (None, ["software.blas", "software.libraries.libgomp"]) == (found.same, fields(found, "unknown"))
        assert {"one of the two had not loaded it"} == {change.reason for change in found.changes}
        assert False is difference(one, other).stack.same
    one_copy = changed(worker, "software", libraries=more | {"libgomp": files[:1]})
    assert None is difference(worker, one_copy, same_work=False).stack.same
    another = changed(worker, "software", libraries=more | {"libc": [Library(path="/c", build_id="dd")]})
    assert ["software.libraries.libc"] == fields(difference(front, another, same_work=False).stack, "differs")
    mkl = changed(worker, "software", blas=[Blas(name="mkl", path="/m", version="2026.0")])
    assert ["software.blas"] == fields(difference(worker, mkl, same_work=False).stack, "differs")


def test_a_package_that_one_place_lacks_and_the_other_did_not_import_is_no_difference_of_the_same_work(
    here: Environment,
) -> None:
    def place(imported: list[str] | None, **packages: str) -> Environment:
        return changed(here, "software", packages=packages, imported=imported)

    bare, unused = place(["numpy"], numpy="2"), place(["numpy"], numpy="2", numba="1")
    for one, other in ((bare, unused), (unused, bare)):
        found = difference(one, other).stack
        assert (True, ["software.packages.numba"]) == (found.same, fields(found, "varies"))
        assert ["software.packages.numba"] == fields(difference(one, other, same_work=False).stack, "differs")
    used, untold = (place(imported, numpy="2", numba="1") for imported in (["numba", "numpy"], None))
    older = place(["numpy"], numpy="2", numba="0.9")  # what is imported late may be imported later than this was read
    for one, other in ((bare, used), (bare, untold), (unused, older)):
        assert ["software.packages.numba"] == fields(difference(one, other).stack, "differs")


@pytest.mark.parametrize(
    ("framework", "package", "idle"),
    [
        ("numpy", "nvidia-nccl-cu13", True),
        ("torch", "nvidia-nccl-cu13", True),  # which loads all of CUDA with itself
        ("cupy-cuda13x", "nvidia-nccl-cu13", False),
        ("cupy", "nvidia-nccl-cu13", False),
        ("numba-cuda", "cuda-toolkit", False),
        ("cupy-cuda13x", "numba", True),
        ("numpy", "mkl", False),
    ],
)
def test_a_package_of_libraries_counts_where_they_may_be_loaded_late(
    framework: str, package: str, idle: bool, here: Environment
) -> None:
    one, other = (
        changed(here, "software", packages={framework: "1"} | more, imported=[framework])
        for more in ({}, {package: "1"})
    )
    assert idle == difference(one, other).stack.same


def test_blas_differs_by_its_kernels_and_not_by_its_threads(here: Environment) -> None:
    def place(**known: Any) -> Environment:
        return changed(here, "software", blas=[Blas(name="openblas", version="0.3", **known)])

    base = place(path="/a", architecture="SkylakeX", threads=1)
    assert difference(base, place(path="/b", architecture="SkylakeX", threads=2)).stack.same is True
    assert difference(base, place(path="/a", architecture="Haswell", threads=1)).stack.same is False


def test_known_on_one_side_only_cannot_be_told(look: Look, here: Environment) -> None:
    hidden = changed(here, "limits", cpu_quota=None, missing={"cpu_quota": "no control groups"})
    found = difference(here, hidden).limits
    assert found.same is None
    (change,) = found.changes
    assert ("unknown", 3.0, None, "no control groups") == (change.kind, change.a, change.b, change.reason)


def test_no_limit_is_not_the_same_as_unknown(here: Environment) -> None:
    free = changed(here, "limits", cpu_quota=None)
    hidden = changed(here, "limits", cpu_quota=None, missing={"cpu_quota": "no control groups"})
    assert [None, None, True] == [
        difference(*pair).limits.same for pair in ((free, hidden), (hidden, free), (free, free))
    ]
    assert difference(hidden, hidden).limits.same is True


def test_hidden_part_of_the_machine_is_no_other_machine(here: Environment) -> None:
    hidden = changed(here, "machine", lsm=None, missing={"lsm": "ENOENT"})
    found = difference(here, hidden).machine
    assert (True, ["machine.lsm"]) == (found.same, fields(found, "unknown"))


def test_difference_wins_over_unknown(here: Environment) -> None:
    hidden = changed(here, "limits", cpu_quota=None, open_files=1, missing={"cpu_quota": "no control groups"})
    assert difference(here, hidden).limits.same is False


LATER: dict[str, tuple[str, ...]] = {
    "machine": ("vectors", "emulator", "infiniband_vendors", "roce_addresses", "peer_memory", "acs_redirect"),
    "limits": (
        *("io_limits", "processes_own_max", "niceness", "session_niceness", "scheduling", "cpu_group_depth"),
        *("stack_bytes", "address_space_bytes", "file_size_bytes", "cpu_time_limit_s"),
        *("data_bytes", "core_bytes", "message_queue_bytes", "signals_pending_max", "nice_limit"),
        *("realtime_priority_max", "timer_slack_ns"),
    ),
    "confinement": ("io_uring", "far_mounts", "umask", "executable_pages"),
    "software": ("uncompiled", "nccl_plugins"),
    "devices": ("driver_is_open", "mps_of_another", "infiniband_files"),
}


@pytest.mark.parametrize("again", [False, True], ids=["by it", "by another one since"])
def test_what_an_older_primbench_did_not_read_is_no_difference(here: Environment, again: bool) -> None:
    """A file of it has no such keys; what read that and wrote it again has null, which in limits is no limit else."""
    written = msgspec.to_builtins(here)
    for group, names in LATER.items():
        kept = {name: value for name, value in written[group].items() if name not in names}
        old = [name for name in names if group != "limits" or name == "io_limits" or facts_of(Limits)[name].since]
        written[group] = kept | (dict.fromkeys(old) if again else {})
    found = difference(msgspec.convert(written, Environment), here)
    assert dict.fromkeys(PARTS, True) == verdicts(found) | {"limits": True, "confinement": True}
    assert [] == [name for part in PARTS for name in fields(getattr(found, part), "differs")]


@pytest.mark.parametrize("hooks", [[], ["sys.settrace"]])
def test_what_an_older_primbench_did_not_read_of_software_is_unknown(here: Environment, hooks: list[str]) -> None:
    older, newer = changed(here, "software", hooks=None), changed(here, "software", hooks=hooks)
    (change,) = difference(older, newer).stack.changes
    assert ("software.hooks", "unknown", NOT_RECORDED) == (str(change.field), change.kind, change.reason)


@pytest.mark.parametrize(
    ("group", "field", "a", "b"),
    [
        ("machine", "memory_bytes", 2**38, 2**38 + 2**27),
        ("machine", "lsm", None, []),
        ("limits", "shm_bytes", 10**9, 10**9 + 1),
        ("limits", "cpu_period_s", 0.1, 0.10001),
        ("software", "variables", None, {}),
        ("software", "python_build", None, ""),
    ],
)
def test_what_is_written_alike_is_no_difference(here: Environment, group: str, field: str, a: Any, b: Any) -> None:
    found = difference(changed(here, group, **{field: a}), changed(here, group, **{field: b}))
    assert [] == [change for part in PARTS for change in getattr(found, part).changes if change.kind != "unknown"]


def test_a_container_is_another_machine_or_stack_by_nothing_that_it_hides(here: Environment) -> None:
    """Addresses of another network namespace, bytecode that an image came without, a plugin at another place."""
    there = changed(here, "machine", roce_addresses=["mlx5_0:1 none"])
    there = changed(there, "software", uncompiled={"numpy": "x"}, nccl_plugins={"libnccl-net.so": "in /opt"})
    found = difference(here, there)
    assert (True, True, False) == (found.stack.same, found.machine.same, found.confinement.same)


def test_unsure_runtime_cannot_be_told(here: Environment) -> None:
    runtime = here.confinement.runtime
    assert runtime is not None
    docker = changed(here, "confinement", runtime=replace(runtime, name="docker", in_container=True, evidence=["a"]))
    podman = changed(here, "confinement", runtime=replace(runtime, name="podman", in_container=True))
    unsure = changed(here, "confinement", runtime=replace(runtime, name=None, in_container=True))
    again = changed(here, "confinement", runtime=replace(runtime, name="docker", in_container=True, evidence=["b"]))
    pairs = ((docker, podman), (docker, unsure), (docker, again))
    assert [False, None, True] == [difference(*pair).confinement.same for pair in pairs]


def test_namespaces_of_their_own_are_alike(here: Environment) -> None:
    def place(**kinds: str) -> Environment:
        return changed(here, "confinement", namespaces=kinds)

    first, one, two = place(ipc="ipc:[4026531839]"), place(ipc="ipc:[4026533001]"), place(ipc="ipc:[4026533005]")
    assert difference(one, two).confinement.same is True
    assert ["confinement.namespaces.ipc"] == fields(difference(one, two).confinement, "varies")
    assert difference(first, one).confinement.same is False
    assert difference(place(net="net:[1]"), place(net="net:[2]")).confinement.same is False


def test_gpus_are_the_same_by_what_they_are(here: Environment) -> None:
    def place(*gpus: Gpu) -> Environment:
        return changed(here, "devices", gpus=list(gpus), driver_version=None, missing={"driver_version": "ENOENT"})

    one = Gpu(name="H200", uuid="GPU-1", driver_version="580", cuda_driver_version="13.0", pcie_width=16)
    found = difference(place(one), place(replace(one, uuid="GPU-2", pcie_generation=1)))
    assert dict.fromkeys(PARTS, True) == verdicts(found)
    assert ["devices.gpus[0].pcie_generation", "devices.gpus[0].uuid"] == fields(found.machine, "varies")
    assert difference(place(one), place(replace(one, pcie_width=8))).machine.same is False
    fewer = difference(place(one, one), place(one))  # as in a container that is handed one of them
    assert (True, ["devices.gpu_count", "devices.gpus[1]"]) == (fewer.machine.same, fields(fewer.limits, "differs"))
    newer = difference(place(one), place(replace(one, driver_version="590")))
    assert (True, ["devices.driver_version"]) == (newer.machine.same, fields(newer.stack, "differs"))


def test_difference_survives_json(here: Environment) -> None:
    found = difference(here, changed(here, "limits", cpu_quota=None, missing={"cpu_quota": "hidden"}))
    (change,) = found.limits.changes
    told = {"field": "limits.cpu_quota", "kind": "unknown", "a": change.a, "b": None, "reason": "hidden"}
    assert {"same": None, "changes": [told]} == json.loads(json_of(found))["limits"]
    assert msgspec.to_builtins(found, enc_hook=str) == json.loads(json_of(found))
