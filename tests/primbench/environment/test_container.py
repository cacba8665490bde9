"""On trees that tests/containers/record.py took in real containers, and on changed ones that say what was changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from primbench.environment import container
from primbench.environment.container import ContainerRuntime

RECORDED = Path(__file__).parents[2] / "trees/runtimes"
OLDER_MOUNT = "mnt:[4026531841]"  # of a host before Linux 6.18, whose number says nothing
HOST = "host-with-dockerenv"


def recorded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RECORDED / f"{name}.json").read_text())
    return found


def detect(root: Path, tree: dict[str, Any], **variables: str) -> ContainerRuntime:
    """In the tree, written below an empty folder, with more variables."""
    for name, text in tree["files"].items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for name, target in tree["links"].items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(target)
    for name in tree["markers"]:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return container.detect(root, variables={**tree["variables"], **variables})


def older_host() -> dict[str, Any]:
    """The host's tree as an older kernel shows it to a user who may not look at process 1."""
    tree = recorded(HOST)
    tree["links"]["proc/self/ns/mnt"] = OLDER_MOUNT
    return tree


@pytest.mark.parametrize(
    ("tree", "name", "witness"),
    [
        ("docker", "docker", "/proc/self/cgroup: /docker/010101010101"),
        ("docker-host-pid-ipc", "docker", "/etc/hosts from /containers/"),
        ("podman", "podman", "container=podman"),
        ("podman-rootfs-read-only", "podman", "/etc/hostname from /overlay-containers/"),
        ("apptainer", "apptainer", "APPTAINER_NAME is set"),
        ("apptainer-userns", "apptainer", "APPTAINER_NAME is set"),
        ("apptainer-pid-ipc-cpus", "apptainer", "/proc/self/cgroup: /apptainer/"),
        ("apptainer-no-variables", "apptainer", "/ from /apptainer/mnt/session"),
        ("charliecloud", "charliecloud", "CH_RUNNING is set"),
        ("charliecloud-no-variables", None, "/ is a folder of another file system"),
        ("docker-ch-running", None, "contradictory or nested: charliecloud, docker"),
    ],
)
def test_recorded_containers_are_named_as_far_as_they_show(
    tree: str, name: str | None, witness: str, tmp_path: Path
) -> None:
    found = detect(tmp_path, recorded(tree))
    assert (name, True) == (found.name, found.in_container)
    assert any(witness in words for words in found.evidence), found.evidence


def test_every_recorded_tree_says_where_it_is_from() -> None:
    assert 12 <= len(list(RECORDED.glob("*.json")))
    assert all(recorded(path.stem)["origin"] for path in RECORDED.glob("*.json"))


@pytest.mark.parametrize("variable", ["CH_RUNNING", "APPTAINER_NAME", "container", "PRIMBENCH_RUNTIME"])
def test_a_host_with_a_marker_file_and_a_stale_variable_is_a_host(variable: str, tmp_path: Path) -> None:
    found = detect(tmp_path, recorded(HOST), **{variable: "podman"})
    assert ("host", False) == (found.name, found.in_container)
    assert "first process and mount namespaces" in found.evidence[0]
    assert any(f"left over: {variable}" in words for words in found.evidence), found.evidence
    assert "left over: /.dockerenv exists (docker)" in found.evidence


def test_the_mount_namespace_of_process_1_is_that_of_the_host_where_processes_are_shared(tmp_path: Path) -> None:
    tree = older_host()
    tree["links"]["proc/1/ns/mnt"] = OLDER_MOUNT
    found = detect(tmp_path, tree, CH_RUNNING="left")
    assert ("host", False) == (found.name, found.in_container)


def test_no_evidence_at_all_is_a_host_whatever_marker_file_there_is(tmp_path: Path) -> None:
    found = detect(tmp_path, older_host())
    assert ("host", False) == (found.name, found.in_container)
    assert "left over: /.dockerenv exists (docker)" in found.evidence


@pytest.mark.parametrize("variable", ["CH_RUNNING", "container"])
def test_a_variable_that_nothing_bears_out_leaves_it_open(variable: str, tmp_path: Path) -> None:
    found = detect(tmp_path, older_host(), **{variable: "oci"})
    assert (None, None) == (found.name, found.in_container)
    assert found.evidence[0].startswith(variable)


def test_namespaces_alone_leave_it_open(tmp_path: Path) -> None:
    tree = older_host()
    tree["links"]["proc/self/ns/user"] = "user:[4026532201]"  # unshare --user
    found = detect(tmp_path, tree)
    assert (None, None) == (found.name, found.in_container)
    assert "/proc/self/ns/user: not the machine's first" in found.evidence


def test_docker_is_known_by_its_mounts_where_the_control_group_is_hidden(tmp_path: Path) -> None:
    """As on a machine with control groups v2, where the container has a control group namespace."""
    tree = recorded("docker")
    tree["files"]["proc/self/cgroup"] = "0::/\n"
    found = detect(tmp_path, tree)
    assert ("docker", True) == (found.name, found.in_container)


def without_traces(name: str) -> dict[str, Any]:
    """A recorded tree less what its runtime wrote for this one container, such as a builder leaves it."""
    tree = recorded(name)
    tree["files"]["proc/self/cgroup"] = "0::/\n"
    lines = tree["files"]["proc/self/mountinfo"].splitlines(keepends=True)
    tree["files"]["proc/self/mountinfo"] = "".join(line for line in lines if "containers/" not in line)
    tree["variables"] = {}
    return tree


def test_a_marker_file_counts_where_all_else_is_silent_in_a_container(tmp_path: Path) -> None:
    found = detect(tmp_path, without_traces("docker"))
    assert ("docker", True) == (found.name, found.in_container)


def test_a_marker_file_in_a_folder_that_another_runtime_runs_on_does_not_count(tmp_path: Path) -> None:
    """``podman run --rootfs`` leaves one behind; Charliecloud shares the host's processes, as Podman does not."""
    tree = recorded("charliecloud-no-variables")
    tree["markers"] = ["run/.containerenv"]
    found = detect(tmp_path, tree)
    assert (None, True) == (found.name, found.in_container)


def test_an_image_with_a_word_of_its_own_does_not_name_the_runtime(tmp_path: Path) -> None:
    found = detect(tmp_path, recorded("docker"), container="oci")
    assert ("docker", True) == (found.name, found.in_container)


def test_bytes_that_are_no_text_can_be_written_to_a_file(tmp_path: Path) -> None:
    found = detect(tmp_path, recorded("docker"), container="\udcff")
    assert "container=\\xff" in found.evidence


@pytest.mark.parametrize(
    ("group", "name"),
    [
        (f"/kubepods.slice/kubepods-besteffort.slice/cri-containerd-{'ab' * 32}.scope", "containerd"),
        (f"/kubepods.slice/crio-{'ab' * 32}.scope", "cri-o"),
        (f"/system.slice/docker-{'ab' * 32}.scope", "docker"),
        (f"/machine.slice/libpod-{'ab' * 32}.scope/container", "podman"),
        ("/lxc.payload.small", "lxc"),
        (f"/kubepods/pod1/{'ab' * 32}", None),
        (f"/docker/{'ab' * 32}/kubepods.slice/cri-containerd-{'cd' * 32}.scope", "containerd"),
    ],
)
def test_the_innermost_name_in_the_control_group_counts(group: str, name: str | None, tmp_path: Path) -> None:
    """In the forms that these runtimes' documentation gives, on Docker's tree without Docker's own traces."""
    tree = without_traces("docker")
    tree["files"]["proc/self/cgroup"] = f"0::{group}\n"
    tree["markers"] = []
    found = detect(tmp_path, tree)
    assert (name, True) == (found.name, found.in_container)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (f"/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/{'ab' * 32}/hostname", "containerd"),
        (f"/containers/storage/overlay-containers/{'ab' * 32}/userdata/hostname", "cri-o"),
        (f"/var/lib/docker/containers/{'ab' * 32}/hostname", "docker"),
    ],
)
def test_pods_are_named_by_the_runtime_that_wrote_their_host_name(source: str, name: str, tmp_path: Path) -> None:
    """Mounts as the kubelet and these runtimes make them, on Docker's tree without Docker's own traces."""
    tree = without_traces("docker")
    hosts = "/var/lib/kubelet/pods/0f8a2c34-1111-2222-3333-444455556666/etc-hosts"
    tree["files"]["proc/self/mountinfo"] += (
        f"90 72 254:0 {hosts} /etc/hosts rw - ext4 /dev/vda rw\n"
        f"91 72 254:0 {source} /etc/hostname rw - ext4 /dev/vda rw\n"
    )
    assert name == detect(tmp_path, tree).name


def test_enroot_is_known_by_its_lock(tmp_path: Path) -> None:
    """Its root file system is a folder, as Charliecloud's is."""
    tree = recorded("charliecloud-no-variables")
    tree["files"]["proc/self/mountinfo"] += "90 46 254:0 /enroot/data/image/.lock /.lock rw - ext4 /dev/vda rw\n"
    assert "enroot" == detect(tmp_path, tree).name


LAUNCHED = {"PRIMBENCH_RUNTIME": "charliecloud", "PRIMBENCH_HOST_NAMESPACES": "mnt:[4026531832],pid:[4026531836]"}


def test_the_launcher_names_what_shows_no_name_of_its_own(tmp_path: Path) -> None:
    found = detect(tmp_path, recorded("charliecloud-no-variables"), **LAUNCHED)
    assert ("charliecloud", True) == (found.name, found.in_container)
    assert "not that of the launcher" in found.evidence[0]


def test_the_launchers_namespace_proves_a_container_that_shows_nothing(tmp_path: Path) -> None:
    found = detect(tmp_path, older_host(), PRIMBENCH_HOST_NAMESPACES=LAUNCHED["PRIMBENCH_HOST_NAMESPACES"])
    assert (None, True) == (found.name, found.in_container)


def test_the_launcher_and_the_kernel_may_disagree(tmp_path: Path) -> None:
    found = detect(tmp_path, recorded("docker"), **LAUNCHED)
    assert (None, True) == (found.name, found.in_container)
    assert "contradictory or nested: charliecloud, docker" in found.evidence


def test_a_launcher_in_the_same_place_says_nothing_of_it(tmp_path: Path) -> None:
    """A process on "the host" of a launcher that is in a container itself."""
    tree = recorded("docker")
    same = tree["links"]["proc/self/ns/mnt"]
    found = detect(tmp_path, tree, PRIMBENCH_RUNTIME="host", PRIMBENCH_HOST_NAMESPACES=same)
    assert ("docker", True) == (found.name, found.in_container)


def test_nothing_readable_is_unknown_with_the_reasons(tmp_path: Path) -> None:
    found = container.detect(tmp_path, variables={})
    assert (None, None) == (found.name, found.in_container)
    assert [f"{tmp_path}/proc/self/{name}: ENOENT" for name in ("mountinfo", "cgroup")] == found.evidence


@pytest.mark.parametrize("name", ["proc/self/cgroup", "proc/self/mountinfo"])
@pytest.mark.parametrize("text", ["", "\n", "nonsense\n", "1 2 3 - \n", "::\n", "\0"])
def test_files_that_make_no_sense_raise_nothing(name: str, text: str, tmp_path: Path) -> None:
    tree = recorded("docker")
    tree["files"][name] = text
    assert "docker" == detect(tmp_path, tree).name
