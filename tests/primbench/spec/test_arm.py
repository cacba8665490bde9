from __future__ import annotations

import random
import tomllib
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from primbench.errors import InvalidRequest, PlacementError
from primbench.spec.arm import (
    PLACEMENT_KEYS,
    SETTING_KEYS,
    Arm,
    arm_of,
    format_arm,
    parse_arm,
    words_of,
)
from primbench.spec.placement import Placement
from primbench.spec.settings import as_placement_key

GIB = 2**30


def test_the_machine_stands_first_in_the_words_of_an_arm_by_ssh() -> None:
    found = parse_arm("ssh:me@far,python=venv/bin/python,cpus=2")
    assert ("me@far", "venv/bin/python", 2.0, None) == (found.host, found.python, found.cpus, found.image)
    assert "ssh:me@far,python=venv/bin/python,cpus=2" == found.name == format_arm(found)
    assert (
        found
        == parse_arm("ssh:host=me@far,python=venv/bin/python,cpus=2")
        == arm_of({"runtime": "ssh", "host": "me@far", "python": "venv/bin/python", "cpus": 2})
    )


def test_a_machine_that_ssh_would_take_for_an_option_is_none_in_a_file_either() -> None:
    with pytest.raises(InvalidRequest, match="NAME or USER@NAME"):
        msgspec.json.decode(b'{"name": "a", "runtime": "ssh", "host": "-oProxyCommand=x"}', type=Arm)


def test_words_and_what_they_mean() -> None:
    said = "docker:image=host,cpuset=0-3+8,shm=1GiB,memory=4GiB,env.OMP_NUM_THREADS=1,name=mine"
    expected = Arm(
        name="mine",
        runtime="docker",
        image="host",
        cpuset=(0, 1, 2, 3, 8),
        shm_bytes=GIB,
        memory_bytes=4 * GIB,
        variables={"OMP_NUM_THREADS": "1"},
    )
    assert expected == parse_arm(said)
    other = parse_arm(
        "podman:image=primbench:cpu,cpus=2,seccomp=unconfined,cap-add=SYS_NICE+cap_sys_admin,network=none"
    )
    assert ("primbench:cpu", 2.0, "unconfined", ("SYS_NICE", "SYS_ADMIN"), "none") == (
        other.image,
        other.cpus,
        other.seccomp,
        other.cap_add,
        other.network,
    )


def test_the_host_has_no_image_and_a_container_that_of_the_host_unless_told() -> None:
    assert Arm(name="host") == parse_arm("host")
    assert None is parse_arm("host").image
    assert "host" == parse_arm("podman").image == Arm(name="podman", runtime="podman").image


def test_placement_stands_beside_the_limits() -> None:
    assert Placement(cpu_kind="efficiency") == parse_arm("host:cpu-kind=efficiency").placement
    found = parse_arm("host:numa-node=1,threads=2,bind-cpus=0-1+4,cpus=1.5")
    assert Placement(numa_node=1, threads=2, cpus=(0, 1, 4)) == found.placement
    assert 1.5 == found.cpus
    assert Placement(numa_node="auto") == parse_arm("host:numa-node=auto").placement


def test_a_refused_placement_is_named_by_the_keys_of_an_arm() -> None:
    refused = PlacementError("this process may run on CPUs 0-1 only", {"cpus": "99", "mem_nodes": "0-1"})
    assert "bind-cpus=99 mem-node=0-1: this process may run on CPUs 0-1 only" == refused.said(as_placement_key)
    assert "cpus=99 mem_nodes=0-1: this process may run on CPUs 0-1 only" == str(refused)


@pytest.mark.parametrize("text", ["host", "podman", "docker:cpus=2", "podman:cpuset=0-1,env.CUDA_VISIBLE_DEVICES=0,1"])
def test_the_usual_name_is_what_was_said(text: str) -> None:
    assert text == parse_arm(text).name == format_arm(parse_arm(text))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (
            f"podman:image=registry.example.com/team/image@sha256:{'0123456789abcdef' * 4},cpus=2",
            "podman:image=registry.example.com/team/image@sha256:...0123456789abcdef,cpus=2",
        ),
        (
            f"host:env.PYTHONPATH={':'.join(f'/p/{number}' for number in range(1, 401))}",
            "host:env.PYTHONPATH=/p/1:/p/2:/p/3:/p/4:/p/5:/p/6:...98:/p/399:/p/400",
        ),
    ],
)
def test_of_what_is_long_a_name_has_both_ends(text: str, name: str) -> None:
    arm = parse_arm(text)
    assert (name, text) == (arm.name, format_arm(arm))
    assert text == words_of(arm)
    of_old_files = replace(arm, name=text)
    assert text == format_arm(of_old_files)
    named = replace(arm, name="long")
    assert f"{text},name=long" == format_arm(named)
    assert named == parse_arm(format_arm(named))


def test_a_value_may_hold_a_comma_but_no_key() -> None:
    assert {"CUDA_VISIBLE_DEVICES": "0,1"} == parse_arm("host:env.CUDA_VISIBLE_DEVICES=0,1,cpus=2").variables
    with pytest.raises(InvalidRequest, match="write it as a table"):
        format_arm(Arm(name="host", variables={"A": "1,cpus=2"}))


def any_arm(dice: random.Random) -> Arm:
    def maybe(value: Any) -> Any:
        return value if dice.random() < 0.5 else None

    def numbers() -> tuple[int, ...]:
        return tuple(sorted(dice.sample(range(300), dice.randint(1, 9))))

    runtime = dice.choice(("host", "docker", "runc", "a-new-one"))
    return Arm(
        name=dice.choice(["mine", "a b", "x:y=z", "é"]),
        runtime=runtime,
        image=None if runtime == "host" else dice.choice(["host", "reg.io:5000/a/b:tag@sha256:0", "/srv/root"]),
        placement=Placement(threads=maybe(dice.randint(1, 99)), numa_node=dice.choice([None, 0, 7, "auto"])),
        cpus=maybe(dice.choice([0.25, 2.0, 1 / 3, 96])),
        cpuset=maybe(numbers()),
        mems=maybe(numbers()),
        memory_bytes=maybe(dice.randint(1, 2**45)),
        shm_bytes=maybe(dice.choice([1, 1000, 1536 * 2**20, 2**40])),
        cpu_weight=maybe(dice.randint(1, 10_000)),
        niceness=maybe(dice.randint(-20, 19)),
        processes_max=maybe(dice.randint(1, 9999)),
        open_files=maybe(dice.randint(1, 2**20)),
        read_bytes_per_s=maybe(dice.choice([1, 2**20, 1500 * 2**20])),
        seccomp=maybe(dice.choice(["default", "unconfined", "/a/b.json"])),
        cap_add=dice.choice([(), ("SYS_NICE",), ("SYS_NICE", "ALL")]),
        cap_drop=dice.choice([(), ("ALL",)]),
        network=dice.choice([None, "private", "host", "none", "overlay"]),
        ipc=dice.choice([None, "private"]),
        cgroup=dice.choice([None, "private", "host"]),
        root=dice.choice([None, "bind", "overlay"]),
        mounts=dice.choice([(), ("/a:/b",), ("/srv/é:/b", "/a:/c")]),
        tmpfs=dice.choice([(), ("/data",)]),
        fuse_overlay=dice.choice([(), ("/data", "/srv/é")]) if runtime == "host" else (),
        preload=maybe("/opt/x.so") if runtime == "host" else None,
        packages=dice.choice([(), ("a@/x",), ("b@/x", "a@/y")]) if runtime == "host" else (),
        libraries=dice.choice([(), ("liba.so@/x",), ("liba++.so.1@/o++/lib", "/a/b.so:/c.so@/y/libstdc++.so.6:/z")]),
        no_new_privileges=dice.choice([None, "yes", "no"]),
        variables=dice.choice([{}, {"A": "", "B_1": "x=y:z,0 é"}]),
    )


@pytest.mark.parametrize("seed", range(200))
def test_an_arm_written_and_read_is_the_same(seed: int) -> None:
    arm = any_arm(random.Random(seed))
    if arm.cpus == 1 / 3:  # people do not write that, and nine digits are read
        arm = msgspec.structs.replace(arm, cpus=0.333333333)
    assert arm == parse_arm(format_arm(arm))
    assert arm == msgspec.json.decode(msgspec.json.encode(arm), type=Arm)


def test_a_table_of_a_file_says_the_same() -> None:
    text = """
    name = "mine"
    runtime = "podman"
    cpus = 2
    cpuset = [0, 1, 4]
    memory = "1GiB"
    cap-add = ["SYS_NICE", "SYS_ADMIN"]
    numa-node = 0
    [env]
    OMP_NUM_THREADS = 1
    """
    said = (
        "podman:cpus=2,cpuset=0-1+4,memory=1GiB,cap-add=SYS_NICE+SYS_ADMIN,numa-node=0,env.OMP_NUM_THREADS=1,name=mine"
    )
    assert parse_arm(said) == arm_of(tomllib.loads(text))


@pytest.mark.parametrize(("written", "said"), [("true", "yes"), ("false", "no"), ('"no"', "no")])
def test_what_is_yes_or_no_may_be_true_or_false_in_a_file(written: str, said: str) -> None:
    table = tomllib.loads(f'runtime = "runc"\nno-new-privileges = {written}')
    assert parse_arm(f"runc:no-new-privileges={said}") == arm_of(table)


WRONG = {
    "dok": "runtime 'dok': there are host, docker, runc, ssh",
    "": "runtime '': there are",
    "docker:": "after the colon come settings",
    "docker:cpus": "'cpus' is no KEY=VALUE; the keys are name, host, node, runtime, python, config, image",
    "docker:ubuntu:22.04": "'ubuntu:22.04' is no KEY=VALUE: did you mean image=ubuntu:22.04?",
    "docker::\x1e": "':\\x1e' is no KEY=VALUE; the keys are name",
    "docker:cpu=2": "unknown key 'cpu': did you mean cpus? the keys are name, host, node",
    "host:MALLOC_PERTURB_=1": "unknown key 'MALLOC_PERTURB_': did you mean env.MALLOC_PERTURB_? the keys are name",
    "docker:cpus=2,cpus=3": "cpus is given twice",
    "docker:cpus=0-3": "which CPUs is cpuset=0-3",
    "docker:cpus=0": "more than 0",
    "docker:cpuset=3-1": "3-1 must ascend",
    "docker:cpuset=": "cpuset: at least one number",
    "docker:memory=1": "expected a positive number and one of the units",
    "docker:memory=0B": "memory: more than 0 bytes",
    "docker:cpu-weight=0": "from 1 to 10000, usually 100",
    "docker:nice=20": "from -20, the first",
    "docker:pids=0": "pids: at least 1",
    "docker:read-rate=0B": "read-rate: more than 0",
    "docker:network=bridge": "there are private, host, none, overlay",
    "docker:shm=1GiB,ipc=host": "shm with ipc=host",
    "docker:cap-add=sys nice": "capability 'SYS NICE'",
    "docker:cap-drop=SYS_NIECE": "capability 'SYS_NIECE': Linux has none of that name",
    "docker:env.1=x": "env.1: a variable's name",
    "docker:image=-x": "image '-x'",
    "docker:name= ": "arm name ' '",
    "docker:mount=/a": "mount=/a: '/a': a folder and where it is seen, as in /mnt/nfs/scratch:/scratch",
    "docker:mount=/a:b": "a path in full",
    "host:mount=/a:/b+/c:/b": "mount: /b is named twice",
    "host:mount=/a:/b,tmpfs=/b": "mount: /b is named twice",
    "host:image=x": "the host runs no image",
    "host:threads=one": "threads=one: a whole number",
    "ssh": "of which machine? The words begin with it: ssh:HOST",
    "ssh:": "of which machine? The words begin with it: ssh:HOST",
    "ssh:cpus=2": "of which machine?",
    "ssh:host=": "host '': NAME or USER@NAME",
    "ssh:-v": "host '-v': NAME or USER@NAME",
    "ssh:far,python=~/bin/python": "python '~/bin/python': a path, on another machine in full or from the home there",
    "ssh:far,config=mine": "config=mine: a path in full",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_means_nothing_is_refused_with_what_would(text: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        parse_arm(text, ("host", "docker", "runc", "ssh"))
    assert WRONG[text] in str(refusal.value)


def test_a_placement_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(PlacementError, match="needs nodes"):
        parse_arm("host:mem-policy=bind")


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ({"runtime": 1}, "a name in quotes"),
        ({"cpus": True}, "cpus = True: neither a text nor a number: write it in quotes, as --arm has it"),
        ({"seccomp": False}, "seccomp = False: neither a text nor a number"),
        ({"env": {"A": False}}, "A = False: neither a text nor a number"),
        ({"cpuset": [[1]]}, r"cpuset = \[1\]: neither a text nor a number"),
        ({"runtime": "runc", "no-new-privileges": 1}, "no-new-privileges=1: there are yes, no"),
        ({"env": "A=1"}, "unknown key 'env'"),
        ({"podman": 1}, "unknown key 'podman'"),
    ],
)
def test_tables_that_mean_nothing_are_refused(table: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        arm_of(table)


def test_every_field_of_an_arm_has_a_key() -> None:
    fields = set(Arm.__struct_fields__) - {"name", "runtime", "placement", "passed", "neighbour", "case"}
    assert fields == set(SETTING_KEYS)
    assert len(Placement.__struct_fields__) == len(PLACEMENT_KEYS)


def test_a_variable_without_a_value_is_passed_on() -> None:
    arm = parse_arm("host:env.HF_TOKEN,cpus=2,env.MINE,env.OMP_NUM_THREADS=1")
    assert (("HF_TOKEN", "MINE"), {"OMP_NUM_THREADS": "1"}) == (arm.passed, arm.variables)
    assert "host:cpus=2,env.OMP_NUM_THREADS=1,env.HF_TOKEN,env.MINE" == arm.name
    assert arm == parse_arm(format_arm(arm))
    assert ("HF_TOKEN",) == arm_of({"runtime": "host", "env": {"HF_TOKEN": True}}).passed


@pytest.mark.parametrize(
    "words",
    ["host:env.HF_TOKEN=hunter2", "host:env.HF_TOKEN=hunter2,nosuch=1", "host:nosuch,env.HF_TOKEN=hunter2", "table"],
)
def test_a_secret_is_refused_and_not_repeated(words: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        arm_of({"env": {"HF_TOKEN": "hunter2"}}) if words == "table" else parse_arm(words)
    assert "hunter2" not in str(refused.value)


def test_a_refused_secret_comes_with_the_way_out() -> None:
    with pytest.raises(InvalidRequest, match=r"set HF_TOKEN .*, and write env\.HF_TOKEN without a value"):
        parse_arm("host:env.HF_TOKEN=hunter2")


def test_an_arm_of_an_old_file_is_read_and_of_a_newer_one_refused() -> None:
    old = b'{"name": "a", "runtime": "podman", "image": "host", "cpus": 2, "shm_bytes": null, "variables": {"A": "1"}}'
    assert parse_arm("podman:cpus=2,env.A=1,name=a") == msgspec.json.decode(old, type=Arm)
    with pytest.raises(msgspec.ValidationError, match="unknown field `gravity`"):
        msgspec.json.decode(b'{"name": "a", "gravity": 9.81}', type=Arm)
    with pytest.raises(msgspec.ValidationError, match="cpus"):
        msgspec.json.decode(b'{"name": "a", "cpus": "two"}', type=Arm)
