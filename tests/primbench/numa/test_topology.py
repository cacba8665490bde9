from __future__ import annotations

import ctypes
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from primbench.doctor.place import Place
from primbench.errors import InvalidRequest
from primbench.numa import scan
from primbench.numa.scan import memory_nodes, node_of_pci
from primbench.numa.topology import GpuPlace, Node, Topology
from primbench.system.cgroups import cgroup_folders
from primbench.system.files import attempt, format_cpu_list, labelled_value, parse_cpu_list, read_number, sysfs_address

NODES = "sys/devices/system/node"
PCI = "sys/bus/pci/devices"
TREES = sorted(path.stem for path in (Path(__file__).parents[2] / "trees").glob("*.json"))


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@given(st.sets(st.integers(0, 2**20 - 1), max_size=60))
@settings(deadline=None)
def test_cpu_list_survives_formatting_and_parsing(cpus: set[int]) -> None:
    assert tuple(sorted(cpus)) == parse_cpu_list(format_cpu_list(cpus))


@given(st.text(alphabet="0123456789,-:/ x\n\0", max_size=12))
@settings(deadline=None)
def test_cpu_list_is_parsed_or_refused_and_never_fails_otherwise(text: str) -> None:
    try:
        cpus = parse_cpu_list(text)
    except InvalidRequest:
        return
    assert cpus == parse_cpu_list(format_cpu_list(cpus))


def test_cpu_list_as_the_kernel_writes_it() -> None:
    assert parse_cpu_list("0-3,8\n") == (0, 1, 2, 3, 8)


@pytest.mark.parametrize("text", ["", "\n", "\n\0"])
def test_empty_cpu_list_is_no_cpus(text: str) -> None:
    assert parse_cpu_list(text) == ()


@pytest.mark.parametrize(
    ("cpus", "text"),
    [
        ((0, 2, 4, 6), "0-6:2"),
        ((1, 3), "1-4:2\n\0"),
        ((0, 1, 4, 5, 8), "0-8:2/4"),
        ((0, 1, 256, 257, 512, 513, 768, 769), "0-1023:2/256"),
        ((7,), "7-7:3"),
    ],
)
def test_cpu_list_with_a_step(cpus: tuple[int, ...], text: str) -> None:
    assert cpus == parse_cpu_list(text)


def test_cpu_list_is_formatted_with_ranges() -> None:
    assert format_cpu_list([8, 3, 2, 1, 0, 11, 10]) == "0-3,8,10-11"


@pytest.mark.parametrize(
    "text",
    [
        "3-0",
        "a",
        "0-",
        "-1",
        "0,,1",
        "0, 1",
        "1-2-3",
        "0x1",
        "٣",
        "1.5",
        "0-7:0",
        "0:2",
        "0-7:3/2",
        "0-7:0/2",
        "0-7:2/",
    ],
)
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


@pytest.mark.parametrize("unusable", ["/docker/other", "/docker/abc/inner/below", "/"])
def test_cgroup_is_found_by_the_mount_that_shows_it(tmp_path: Path, unusable: str) -> None:
    mounts = (
        f"40 30 0:29 {unusable} /elsewhere ro - cgroup cgroup rw,cpu\n"
        "41 30 0:29 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n"
    )
    root = cgroup_root(tmp_path, "2:cpu:/docker/abc/inner\n", mounts, "sys/fs/cgroup/cpu/inner")
    (root / "elsewhere").mkdir()
    assert [root / "sys/fs/cgroup/cpu/inner", root / "sys/fs/cgroup/cpu"] == cgroup_folders("cpu", root)


def test_v2_does_not_stand_in_for_a_v1_hierarchy_that_is_not_visible(tmp_path: Path) -> None:
    """It has no quota of its own, which is not that there is none."""
    v2 = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
    v1 = "40 30 0:29 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n"
    root = cgroup_root(tmp_path, "2:cpu:/docker/other\n0::/\n", v1 + v2, "sys/fs/cgroup/unified")
    with pytest.raises(ValueError, match="/docker/other of this process lies outside"):
        cgroup_folders("cpu", root)
    write(root, {"proc/self/mountinfo": v2})
    with pytest.raises(ValueError, match="no control groups with cpu are mounted"):
        cgroup_folders("cpu", root)
    assert [root / "sys/fs/cgroup/unified"] == cgroup_folders("memory", root)
    assert [root / "sys/fs/cgroup/unified"] == cgroup_folders("", root)


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
    write(tmp_path, {"good": " 12\n", "ended by a zero byte": "12\n\0", "bad": "1e3"})
    assert 12 == read_number(tmp_path / "good") == read_number(tmp_path / "ended by a zero byte")
    with pytest.raises(ValueError, match=r"bad: expected a whole number, found '1e3'"):
        read_number(tmp_path / "bad")


def test_attempt_keeps_the_value_or_the_reason(tmp_path: Path) -> None:
    missing: dict[str, str] = {}
    assert attempt(missing, "five", lambda: 5) == 5
    assert None is attempt(missing, "file", lambda: read_number(tmp_path / "absent"))
    assert None is attempt(missing, "library", lambda: ctypes.CDLL("libabsent.so"))  # of which C gives no number
    assert {"file", "library"} == missing.keys()
    assert f"{tmp_path}/absent: ENOENT" == missing["file"]
    assert missing["library"].startswith("libabsent.so: cannot open")


def unexplained(found: Topology) -> list[str]:
    """What is None without a reason."""
    names = [name for name in found.__struct_fields__ if getattr(found, name) is None and name not in found.missing]
    for node in found.nodes or []:
        lacking = {"memory_bytes": node.memory_bytes is None, "distances": not node.distances}
        lacking["allowed"] = node.allowed is None
        names += [name for name in lacking if lacking[name] != (f"nodes.{node.id}.{name}" in found.missing)]
    for gpu in found.gpus or []:
        names += [name for name in gpu.__struct_fields__ if (getattr(gpu, name) is None) != (name in gpu.missing)]
    return names


def nodes_of(found: Topology) -> dict[int, Node]:
    assert found.nodes is not None
    return {node.id: node for node in found.nodes}


def gpus_of(found: Topology) -> dict[str, GpuPlace]:
    assert found.gpus is not None
    return {gpu.device: gpu for gpu in found.gpus}


def test_this_machine_is_told_without_gaps() -> None:
    found = scan.collect()
    assert [] == unexplained(found)
    if found.nodes is not None:
        assert memory_nodes() == [
            Node(id=n.id, cpus=n.cpus, has_memory=n.has_memory, allowed=n.allowed) for n in found.nodes
        ]


@pytest.mark.usefixtures("no_nvml")
@pytest.mark.parametrize("name", TREES)
def test_undamaged_trees_are_told_without_gaps(name: str, tree: Callable[[str], Path]) -> None:
    found = scan.collect(tree(name))
    assert {"gpus"} == set(found.missing) - {"cpu_kinds", "last_level_caches"}
    assert [] == unexplained(found)


def test_damaged_trees_raise_nothing_and_every_gap_has_a_reason(damaged: list[tuple[str, Place]]) -> None:
    assert [] == [(damage, gaps) for damage, place in damaged if (gaps := unexplained(place.topology))]


def test_gpus_are_left_alone_unless_asked_for(tree: Callable[[str], Path]) -> None:
    found = scan.collect(tree("xeon-2-nodes"), gpus=False)
    assert (None, "not asked for") == (found.gpus, found.missing["gpus"])


@pytest.mark.usefixtures("no_nvml")
def test_two_sockets_with_a_gpu_each(tree: Callable[[str], Path]) -> None:
    found = scan.collect(tree("xeon-2-nodes"))
    nodes, gpus = nodes_of(found), gpus_of(found)
    assert [*range(16, 32), *range(48, 64)] == nodes[1].cpus
    assert ({0: 20, 1: 10}, 256 * 2**30, None) == (nodes[1].distances, nodes[1].memory_bytes, nodes[1].gpu)
    assert found.packages is not None
    assert [(0, 16, [0, 32]), (1, 16, [16, 48])] == [
        (each.id, len(each.cores), each.cores[0]) for each in found.packages
    ]
    assert ["pci:0000:17:00.0", "pci:0000:b1:00.0"] == list(gpus)
    gpu = gpus["pci:0000:b1:00.0"]
    assert ("NVIDIA A100 80GB PCIe", 1, nodes[1].cpus) == (gpu.name, gpu.node_by_sysfs, gpu.local_cpus)
    assert (1, 4, 16, 16) == (gpu.pcie_generation, gpu.pcie_generation_max, gpu.pcie_width, gpu.pcie_width_max)
    absent = "GPUs cannot be found: module 'pynvml' is absent: pip install nvidia-ml-py"
    assert absent == found.missing["gpus"] == gpu.missing["node_by_nvml"] == gpu.missing["links"]


@pytest.mark.usefixtures("no_nvml")
def test_nodes_of_power9_are_not_contiguous_and_some_are_gpus(tree: Callable[[str], Path]) -> None:
    found = scan.collect(tree("power9"))
    nodes = nodes_of(found)
    assert [0, 8, 252, 253, 254, 255] == list(nodes)
    assert {0: 40, 8: 10, 252: 80, 253: 80, 254: 80, 255: 80} == nodes[8].distances
    assert ("0004:04:00.0", [], 16 * 2**30) == (nodes[255].gpu, nodes[255].cpus, nodes[255].memory_bytes)
    assert (8, 252) == (
        gpus_of(found)["pci:0035:04:00.0"].node_by_sysfs,
        gpus_of(found)["pci:0035:04:00.0"].memory_node,
    )
    assert found.packages is not None
    assert {4} == {len(core) for package in found.packages for core in package.cores}


@pytest.mark.usefixtures("no_nvml")
def test_memory_of_a_grace_hopper_is_two_nodes_and_the_rest_is_empty(tree: Callable[[str], Path]) -> None:
    nodes = nodes_of(scan.collect(tree("grace-hopper")))
    assert [0, 1] == [node.id for node in nodes.values() if node.has_memory]
    assert (None, "0009:01:00.0", None) == (nodes[0].gpu, nodes[1].gpu, nodes[2].gpu)
    assert ({0}, 0) == ({node.id for node in nodes.values() if node.cpus}, nodes[8].memory_bytes)


def test_kernel_that_tells_normal_memory_alone(tree: Callable[[str], Path]) -> None:
    nodes = nodes_of(scan.collect(tree("debian-9"), gpus=False))
    assert [(True, [0, 1, 2, 3]), (True, [4, 5, 6, 7])] == [(node.has_memory, node.cpus) for node in nodes.values()]


def test_kernel_that_does_not_tell_the_allowed_nodes_tells_the_rest(tree: Callable[[str], Path]) -> None:
    root = tree("debian-9")
    write(root, {"proc/self/status": "Cpus_allowed_list:\t0-7\n"})
    found = scan.collect(root, gpus=False)
    assert [(None, True), (None, True)] == [(node.allowed, node.is_usable) for node in nodes_of(found).values()]
    assert "status has no Mems_allowed_list" in found.missing["nodes.1.allowed"]
    write(root, {"sys/fs/cgroup/cpuset.mems.effective": "1\n"})
    assert [False, True] == [node.allowed for node in nodes_of(scan.collect(root, gpus=False)).values()]


def test_absent_folder_of_nodes_is_said(tmp_path: Path) -> None:
    found = scan.collect(tmp_path, gpus=False)
    assert f"{tmp_path}/{NODES} is absent: a kernel without NUMA, or hidden" == found.missing["nodes"]


def test_offline_cpu_that_its_node_still_lists_is_left_out(tree: Callable[[str], Path]) -> None:
    root = tree("offline")
    write(root, {f"{NODES}/node1/cpulist": "8-15\n"})
    assert [*range(8, 14)] == nodes_of(scan.collect(root, gpus=False))[1].cpus


def test_memory_without_cpus_has_initiators_where_firmware_tells_them(tree: Callable[[str], Path]) -> None:
    root = tree("hbm-and-cxl")
    nodes = nodes_of(scan.collect(root, gpus=False))
    assert {0: [], 1: [], 2: [0], 3: [1], 4: []} == {number: node.initiators for number, node in nodes.items()}
    # Before 5.10 there is class 0 alone, which may name what has no CPUs, too.
    for number in (2, 3):
        shutil.rmtree(root / f"{NODES}/node{number}/access1")
    write(root, {f"{NODES}/node2/access0/initiators/node4/cpulist": "\n"})
    nodes = nodes_of(scan.collect(root, gpus=False))
    assert {2: [0], 3: [1]} == {number: nodes[number].initiators for number in (2, 3)}


def test_memory_without_cpus(tree: Callable[[str], Path]) -> None:
    node = nodes_of(scan.collect(tree("cxl-memory-node"), gpus=False))[2]
    assert ([], True, 128 * 2**30, None) == (node.cpus, node.has_memory, node.memory_bytes, node.gpu)


def test_what_is_offline_is_told_and_not_allowed(tree: Callable[[str], Path]) -> None:
    found = scan.collect(tree("offline"), gpus=False)
    assert [1] == list(nodes_of(found)) == found.memory_nodes_allowed
    assert [*range(8), 14, 15] == found.offline_cpus
    assert list(range(8, 14)) == found.cpus_allowed


@pytest.mark.usefixtures("no_nvml")
def test_four_nodes_a_socket(tree: Callable[[str], Path]) -> None:
    found = scan.collect(tree("epyc-nps4"))
    assert {0: 12, 1: 12, 2: 12, 3: 10, 4: 32, 5: 32, 6: 32, 7: 32} == nodes_of(found)[3].distances
    assert [3, 3, 1, 1, 7, 7, 5, 5] == [gpu.node_by_sysfs for gpu in gpus_of(found).values()]


@pytest.mark.usefixtures("no_nvml")
def test_node_that_a_virtual_machine_does_not_tell_is_unknown(tree: Callable[[str], Path]) -> None:
    gpu = gpus_of(scan.collect(tree("vm-no-node")))["pci:0000:00:06.0"]
    assert None is gpu.node_by_sysfs
    assert gpu.missing["node_by_sysfs"].endswith("numa_node: -1: the kernel does not know")


@pytest.mark.parametrize("version", ["v1", "v2", "hybrid"])
def test_container_may_use_part_of_one_node(version: str, tree: Callable[[str], Path]) -> None:
    nodes = nodes_of(scan.collect(tree(f"container-cpuset-{version}"), gpus=False))
    assert [False, True] == [node.allowed for node in nodes.values()]


def test_socket_that_the_kernel_does_not_know_keeps_its_cores(tree: Callable[[str], Path]) -> None:
    root = tree("offline")
    before = scan.collect(root, gpus=False).packages
    write(root, {f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id": "-1\n" for cpu in range(8, 14)})
    after = scan.collect(root, gpus=False).packages
    assert before
    assert [(None, before[0].cores)] == [(package.id, package.cores) for package in after or []]
