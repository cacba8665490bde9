from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from primbench.cgroups import cgroup_folders
from primbench.errors import InvalidRequest
from primbench.sysfiles import attempt, format_cpu_list, labelled_value, parse_cpu_list, read_number, sysfs_address
from primbench.topology import Node, memory_nodes, node_of_pci

if TYPE_CHECKING:
    from pathlib import Path

NODES = "sys/devices/system/node"
PCI = "sys/bus/pci/devices"


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@given(st.sets(st.integers(0, 2**20 - 1), max_size=60))
@settings(deadline=None)
def test_cpu_list_survives_formatting_and_parsing(cpus: set[int]) -> None:
    assert tuple(sorted(cpus)) == parse_cpu_list(format_cpu_list(cpus))


@given(st.text(alphabet="0123456789,- x\n", max_size=12))
@settings(deadline=None)
def test_cpu_list_is_parsed_or_refused_and_never_fails_otherwise(text: str) -> None:
    try:
        cpus = parse_cpu_list(text)
    except InvalidRequest:
        return
    assert cpus == parse_cpu_list(format_cpu_list(cpus))


def test_cpu_list_as_the_kernel_writes_it() -> None:
    assert parse_cpu_list("0-3,8\n") == (0, 1, 2, 3, 8)


def test_empty_cpu_list_is_no_cpus() -> None:
    assert parse_cpu_list("\n") == ()


def test_cpu_list_is_formatted_with_ranges() -> None:
    assert format_cpu_list([8, 3, 2, 1, 0, 11, 10]) == "0-3,8,10-11"


@pytest.mark.parametrize("text", ["3-0", "a", "0-", "-1", "0,,1", "0, 1", "1-2-3", "0-7:2/4", "0x1", "٣", "1.5"])
def test_cpu_list_refuses_what_is_not_one(text: str) -> None:
    with pytest.raises(InvalidRequest, match="CPU list"):
        parse_cpu_list(text)


@pytest.mark.parametrize("text", ["0-1048576", "1048576", "0-99999999999999999999"])
def test_cpu_list_refuses_numbers_no_machine_has(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_cpu_list(text)


def test_highest_cpu_number_is_accepted() -> None:
    assert parse_cpu_list("1048575") == (1048575,)


def test_nodes_need_not_be_contiguous_nor_have_cpus_or_memory(tmp_path: Path) -> None:
    """The shape of a POWER9 machine: sockets 0 and 8, a GPU's memory on 255; here 8 has no memory."""
    write(
        tmp_path,
        {
            f"{NODES}/online": "0,8,255\n",
            f"{NODES}/has_memory": "0,255\n",
            f"{NODES}/node0/cpulist": "0-1\n",
            f"{NODES}/node8/cpulist": "88-89\n",
            f"{NODES}/node255/cpulist": "\n",
            "proc/self/status": "Name:\tpython\nMems_allowed:\t1\nMems_allowed_list:\t0\n",
        },
    )
    expected = [
        Node(id=0, cpus=[0, 1], has_memory=True, allowed=True),
        Node(id=8, cpus=[88, 89], has_memory=False, allowed=False),
        Node(id=255, cpus=[], has_memory=True, allowed=False),
    ]
    assert expected == memory_nodes(tmp_path)


def test_nodes_of_this_machine_hold_every_cpu_once() -> None:
    cpus = [cpu for node in memory_nodes() for cpu in node.cpus]
    assert sorted(set(cpus)) == sorted(cpus)
    assert cpus


def test_garbage_in_a_node_file_is_named(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            f"{NODES}/online": "zero",
            f"{NODES}/has_memory": "0",
            "proc/self/status": "Mems_allowed_list:\t0\n",
        },
    )
    with pytest.raises(ValueError, match=r"node/online: CPU list 'zero'"):
        memory_nodes(tmp_path)


@pytest.mark.parametrize(
    ("expected", "address"),
    [
        ("0000:65:00.0", "00000000:65:00.0"),
        ("0000:65:00.0", "0000:65:00.0"),
        ("0000:af:1f.7", "0000:AF:1F.7"),
        ("10000:01:00.0", "00010000:01:00.0"),
    ],
)
def test_pci_address_is_written_as_in_sysfs(expected: str, address: str) -> None:
    assert expected == sysfs_address(address)


@pytest.mark.parametrize("address", ["", "65:00.0", "0000:65:00", "0000:65:00.9", "../../etc/passwd"])
def test_other_forms_of_pci_address_are_refused(address: str) -> None:
    with pytest.raises(InvalidRequest, match="PCI address"):
        sysfs_address(address)


def test_node_of_a_pci_device(tmp_path: Path) -> None:
    write(tmp_path, {f"{PCI}/0000:65:00.0/numa_node": "8\n"})
    assert node_of_pci("00000000:65:00.0", tmp_path) == 8


def test_node_minus_one_is_unknown_not_zero(tmp_path: Path) -> None:
    write(tmp_path, {f"{PCI}/0000:65:00.0/numa_node": "-1\n"})
    assert None is node_of_pci("0000:65:00.0", tmp_path)


def test_absent_pci_device_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        node_of_pci("0000:65:00.0", tmp_path)


def cgroup_root(root: Path, cgroup: str, mountinfo: str, folder: str) -> Path:
    (root / folder).mkdir(parents=True)
    return write(root, {"proc/self/cgroup": cgroup, "proc/self/mountinfo": mountinfo})


def test_cgroup_v2_folders_from_own_to_top(tmp_path: Path) -> None:
    mount = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
    root = cgroup_root(tmp_path, "0::/user.slice/job\n", mount, "sys/fs/cgroup/user.slice/job")
    top = root / "sys/fs/cgroup"
    assert [top / "user.slice/job", top / "user.slice", top] == cgroup_folders("cpu", root)


def test_cgroup_v1_controller_wins_over_v2_beside_it(tmp_path: Path) -> None:
    mounts = (
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
        "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    )
    root = cgroup_root(tmp_path, "2:cpu,cpuacct:/job\n0::/\n", mounts, "sys/fs/cgroup/cpu,cpuacct/job")
    top = root / "sys/fs/cgroup/cpu,cpuacct"
    assert [top / "job", top] == cgroup_folders("cpu", root)


def test_cgroup_path_of_the_host_is_cut_to_what_the_container_sees(tmp_path: Path) -> None:
    mount = "40 30 0:29 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n"
    root = cgroup_root(tmp_path, "2:cpu:/docker/abc/inner\n", mount, "sys/fs/cgroup/cpu/inner")
    assert [root / "sys/fs/cgroup/cpu/inner", root / "sys/fs/cgroup/cpu"] == cgroup_folders("cpu", root)


@pytest.mark.parametrize("path", ["/../outside", "/gone"])
def test_cgroup_that_is_not_visible_is_not_taken_for_its_parent(tmp_path: Path, path: str) -> None:
    mount = "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    root = cgroup_root(tmp_path, f"0::{path}\n", mount, "sys/fs/cgroup")
    with pytest.raises(ValueError, match="lies outside"):
        cgroup_folders("cpu", root)


def test_no_cgroup_mount_is_said(tmp_path: Path) -> None:
    root = cgroup_root(tmp_path, "0::/\n", "21 1 0:19 / /proc rw - proc proc rw\n", "sys")
    with pytest.raises(ValueError, match="no control groups with cpu"):
        cgroup_folders("cpu", root)


def test_labelled_value_is_found_and_its_absence_named(tmp_path: Path) -> None:
    write(tmp_path, {"cpuinfo": "processor\t: 0\nmodel name\t: A: B\n"})
    assert labelled_value(tmp_path / "cpuinfo", "model name") == "A: B"
    with pytest.raises(ValueError, match="cpuinfo has no flags"):
        labelled_value(tmp_path / "cpuinfo", "flags")


def test_number_file_with_something_else_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"good": " 12\n", "bad": "1e3"})
    assert read_number(tmp_path / "good") == 12
    with pytest.raises(ValueError, match=r"bad: expected a whole number, found '1e3'"):
        read_number(tmp_path / "bad")


def test_attempt_keeps_the_value_or_the_reason(tmp_path: Path) -> None:
    missing: dict[str, str] = {}
    assert attempt(missing, "five", lambda: 5) == 5
    assert None is attempt(missing, "file", lambda: read_number(tmp_path / "absent"))
    assert {"file": f"{tmp_path}/absent: ENOENT"} == missing
