"""The arms of an ablation: each is the one before it and one ingredient more. What is made of their records."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from primbench.compare.pairs import compare
from primbench.errors import BackendUnavailable, PlacementError
from primbench.experiments import ablation
from primbench.experiments.ablation import (
    BEYOND,
    AddedIngredient,
    bare,
    build_up,
    engines,
    far_cpus,
    ingredients,
    refusal_of,
    runner_of,
)
from primbench.measurement import Measurement, Samples
from primbench.registry import build
from primbench.results.file import Results
from primbench.runtimes.table import launch
from primbench.spec.arm import Arm, format_arm, parse_arm
from primbench.spec.case import Case
from primbench.system import nvml
from primbench.workers.protocol import Start

MadeStudy = Callable[..., Results]
EVERYTHING: dict[str, Any] = {"no_new_privileges": "yes", "cpus": 1.5, "cpuset": (2, 3)}
NAMES = ["namespaces", "control group", "seccomp", "fewer capabilities", "ipc and small shm", "network", "overlay root"]


def nothing_refused(arm: Arm) -> str | None:
    return None


def arms_of(engine: str, **asked: Any) -> list[Arm]:
    arms, left_out = build_up(bare("runc"), ingredients(engine, **asked), nothing_refused)
    assert {} == left_out
    return arms


def changes(one: Arm, other: Arm) -> dict[str, Any]:
    return {
        field: getattr(other, field)
        for field in Arm.__struct_fields__
        if field != "name" and getattr(one, field) != getattr(other, field)
    }


@pytest.mark.parametrize(("engine", "shm_bytes"), [("docker", 64 * 2**20), ("podman", 65_536_000)])
def test_each_arm_has_one_ingredient_more_than_the_one_before(engine: str, shm_bytes: int) -> None:
    host, base, *arms = arms_of(engine, **EVERYTHING)
    assert (Arm(name="host"), bare("runc")) == (host, base)
    assert [*NAMES, *BEYOND] == [base.name, *(arm.name for arm in arms)]
    expected = [
        {"cgroup": "private"},
        {"seccomp": engine},
        {"cap_add": ()},
        {"ipc": "private", "shm_bytes": shm_bytes},
        {"network": "none"},
        {"root": "overlay"},
        {"no_new_privileges": "yes"},
        {"cpus": 1.5},
        {"cpuset": (2, 3)},
    ]
    assert expected == [changes(one, other) for one, other in zip([base, *arms], arms, strict=False)]


def test_what_an_engine_has_only_when_asked_is_left_to_be_asked_for() -> None:
    assert NAMES == [arm.name for arm in arms_of("docker")[1:]]


@pytest.mark.parametrize("engine", engines())
def test_an_arm_can_be_run_by_itself(engine: str) -> None:
    for arm in arms_of(engine, **EVERYTHING):
        assert arm == parse_arm(format_arm(arm))


# Where in an OCI configuration each ingredient is; of mounts, where they are mounted.
PARTS = {
    "control group": {"hooks", "mount /sys/fs/cgroup"},
    "seccomp": {"seccomp"},
    "fewer capabilities": {"capabilities"},
    "ipc and small shm": {"namespaces", "mount /dev/shm"},
    "network": {"namespaces"},
    "overlay root": {"mounts of the host"},
    "no new privileges": {"noNewPrivileges"},
    "CPU quota": {"resources"},
    "CPUs of another node": {"resources"},
}
OF_CONTAINERS = ("/proc", "/dev", "/sys")


def parts_of(arm: Arm, folder: Path) -> dict[str, Any]:
    folder.mkdir()
    name = launch(arm, folder, gpus=False).worker[-1]
    written = msgspec.json.decode((folder / "config.json").read_bytes())
    found = {**written.pop("process"), **written.pop("linux"), **written}
    for mount in found.pop("mounts"):
        if mount["destination"].startswith(OF_CONTAINERS):
            found[f"mount {mount['destination']}"] = mount
        else:
            found.setdefault("mounts of the host", []).append({**mount, "options": mount["options"][:1]})
    text = msgspec.json.encode(found).decode().replace(str(folder), "FOLDER").replace(name, "NAME")
    return dict(msgspec.json.decode(text))


def test_an_ingredient_changes_its_own_part_of_the_configuration_alone(tmp_path: Path) -> None:
    _, *arms = arms_of("docker", **EVERYTHING)
    written = {arm.name: parts_of(arm, tmp_path / arm.name) for arm in arms}
    found = {}
    for (_, one), (name, other) in zip(written.items(), list(written.items())[1:], strict=False):
        found[name] = {part for part in one.keys() | other.keys() if one.get(part) != other.get(part)}
    assert PARTS == found


def test_an_ingredient_that_cannot_be_had_is_left_out_of_all_that_follow() -> None:
    tried: list[str] = []

    def refusal(arm: Arm) -> str | None:
        tried.append(arm.name)
        return "no overlay here" if arm.root == "overlay" or arm.ipc == "private" else None

    arms, left_out = build_up(bare("runc"), ingredients("docker", cpus=2.0), refusal)
    assert {"ipc and small shm": "no overlay here", "overlay root": "no overlay here"} == left_out
    assert ["host", "namespaces", "control group", "seccomp", "fewer capabilities", "network", "CPU quota"] == [
        arm.name for arm in arms
    ]
    assert ("host", "bind", "none", 2.0) == (arms[-1].ipc, arms[-1].root, arms[-1].network, arms[-1].cpus)
    first, *others = [*NAMES, "CPU quota"]
    assert [first, "CPU quota", *others] == tried


def test_where_the_whole_can_be_had_its_ingredients_are_not_tried_one_by_one() -> None:
    tried: list[str] = []
    arms, left_out = build_up(bare("runc"), ingredients("docker"), lambda arm: tried.append(arm.name))
    assert {} == left_out
    assert ["host", *NAMES] == [arm.name for arm in arms]
    assert [NAMES[0], NAMES[-1]] == tried


def test_namespaces_come_with_a_control_group_where_they_cannot_be_had_alone() -> None:
    def refusal(arm: Arm) -> str | None:
        return "may not be left" if arm.cgroup == "host" else None

    arms, left_out = build_up(bare("runc"), ingredients("docker"), refusal)
    assert {"namespaces without a control group": "may not be left"} == left_out
    assert ["host", "namespaces and control group", *NAMES[2:]] == [arm.name for arm in arms]
    assert {"private"} == {arm.cgroup for arm in arms[1:]}


def test_where_nothing_runs_the_reason_is_told() -> None:
    with pytest.raises(BackendUnavailable, match=r"^nothing runs$"):
        build_up(bare("runc"), [], lambda arm: "nothing runs")


def test_a_reason_is_in_the_words_of_what_refused() -> None:
    arm = replace(bare("runc"), name="one", network="private")
    assert refusal_of(arm, Start(backend="numpy", device="cpu")) == (
        "network=private: runc sets up no network: use none or host"
    )
    assert refusal_of(ablation.HOST, Start(backend="numpy", device="cpu")) is None


def test_without_a_runner_there_is_nothing_to_ablate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BackendUnavailable, match="runc is not installed; crun is not installed"):
        runner_of("docker")
    with pytest.raises(BackendUnavailable, match=r"runc or crun: crun is not installed$"):
        runner_of("docker", "crun")


@pytest.mark.parametrize(("address", "far"), [("0000:17:00.0", [*range(16, 32), *range(48, 64)]),
                                              ("0000:b1:00.0", [*range(16), *range(32, 48)])])  # fmt: skip
def test_the_wrong_node_is_not_that_of_the_gpu(
    address: str, far: Sequence[int], tree: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine is a recorded one; its driver and what this process may use of it stand in for real ones."""
    monkeypatch.setattr(nvml, "pci_address", lambda device: address)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)))
    root = tree("xeon-2-nodes")
    assert tuple(far) == far_cpus("cuda:0", root)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)) - {*far[6:]})
    assert tuple(far[:6]) == far_cpus("cuda:0", root)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)) - {*far})
    with pytest.raises(LookupError, match="may run on CPUs"):
        far_cpus("cuda:0", root)


def test_without_another_node_no_node_is_wrong(tree: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LookupError, match="one memory node"):
        far_cpus("cpu", tree("vm-hybrid"))
    with pytest.raises(LookupError, match="no device"):
        far_cpus("cpu", tree("xeon-2-nodes"))


ARMS = [
    "host",
    "runc:cgroup=host,name=namespaces",
    "runc:cgroup=private,name=seccomp",
    "runc:network=none,name=network",
    "runc:cpus=1.5,name=CPU quota",
]
TIMES_S = {"host": 1e-3, "namespaces": 1e-3, "seccomp": 1.2e-3, "network": 1.2e-3, "CPU quota": 1.8e-3}


def case(size: int = 64) -> Case:
    parameters = build("gemm", {"m": size, "n": 64, "k": 64}).parameters()
    return Case(primitive="gemm", parameters=parameters, backend="numpy", device="cpu")


def measured(arm: str, case: Case, pair: int) -> Measurement:
    """A thousandth more or less, from arm to arm and pair to pair."""
    off = 1e-3 * (1, -1, -1, 1)[(pair + len(arm)) % 4]
    samples = Samples(
        samples_s=[TIMES_S[arm] * (1 + off)] * 7, calls_per_sample=9, taken_by="host clock", stopped="noise"
    )
    return Measurement(batch_s=samples)


def test_a_step_is_against_the_arm_before_it(made_study: MadeStudy) -> None:
    results = made_study(ARMS, [case()], measured)
    found = ablation.waterfall(results, compare(results))
    assert [("host", "namespaces"), ("namespaces", "seccomp"), ("seccomp", "network"), ("network", "CPU quota")] == [
        (step.before, step.arm.name) for step in found.steps
    ]
    estimates = [step.arm.cases[0].estimates[0] for step in found.steps]
    assert [pytest.approx(ratio, rel=1e-9) for ratio in (1.0, 1.2, 1.0, 1.5)] == [each.ratio for each in estimates]
    assert ["equivalent-in-these-runs", "slower", "equivalent-in-these-runs", "slower"] == [
        each.outcome for each in estimates
    ]
    to_host = [arm.cases[0].estimates[0].ratio for arm in found.comparison.arms]
    products = [1.0, 1.2, 1.2, 1.8]
    assert [pytest.approx(product, rel=1e-9) for product in products] == to_host


def test_the_whole_is_the_container_as_it_is_without_options(made_study: MadeStudy) -> None:
    results = made_study(ARMS, [case()], measured)
    found = ablation.waterfall(results, compare(results)).wholes
    assert {"all of it": "network", "all of it and CPU quota": "CPU quota"} == {
        name: arm.name for name, arm in found.items()
    }
    results = made_study(ARMS[:-1], [case()], measured)
    assert ["all of it"] == [*ablation.waterfall(results, compare(results)).wholes]


def test_an_arm_that_measured_nothing_is_no_step(made_study: MadeStudy) -> None:
    results = made_study(
        ARMS, [case()], lambda arm, case, pair: "died" if arm == "seccomp" else measured(arm, case, pair)
    )
    found = ablation.waterfall(results, compare(results))
    assert [("host", "namespaces"), ("namespaces", "network"), ("network", "CPU quota")] == [
        (step.before, step.arm.name) for step in found.steps
    ]
    assert pytest.approx(1.2, rel=1e-9) == found.steps[1].arm.cases[0].estimates[0].ratio


def test_an_ingredient_of_an_unknown_arm_is_refused_by_the_arm_itself() -> None:
    with pytest.raises(TypeError):
        build_up(bare("runc"), [AddedIngredient("salt", {"salt": 1})], nothing_refused)


def test_a_device_that_is_not_there_leaves_the_wrong_node_out(tree: Callable[[str], Path]) -> None:
    with pytest.raises((PlacementError, LookupError)):
        far_cpus("cuda:4095", tree("xeon-2-nodes"))
