"""Places where another kernel answers: what gVisor, Kata and QEMU are told, and what is said where they cannot be had.

``tests/vm/test_qemu.py`` boots a virtual machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from primbench.errors import BackendUnavailable, InvalidRequest
from primbench.results.record import Record, Worker
from primbench.runtimes import engine, oci, qemu
from primbench.runtimes.initramfs import archive, kernel_at, lacking, modules, unpacked_kernel
from primbench.runtimes.k8s import pod
from primbench.runtimes.refusals import refusal
from primbench.runtimes.table import check, known, launch
from primbench.spec.arm import format_arm, parse_arm
from primbench.spec.case import Case
from primbench.spec.method import Method
from primbench.workers import trial
from primbench.workers.session import Session
from primbench.workers.trial import why_not

RELEASE = "6.1.0-56-amd64"


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    """A file in the place of a kernel, with modules that need each other, as a package has them."""
    folder = tmp_path / "lib/modules" / RELEASE / "kernel"
    folder.mkdir(parents=True)
    for name, needed in {"9p": "9pnet,netfs", "9pnet": "", "netfs": "9pnet", "overlay": ""}.items():
        (folder / f"{name}.ko").write_bytes(f"\x7fELF\0license=GPL\0depends={needed}\0".encode())
    (tmp_path / "boot").mkdir()
    found = tmp_path / "boot" / f"vmlinuz-{RELEASE}"
    found.write_bytes(b"kernel" * 1000)
    return found


@pytest.mark.skipif(
    shutil.which("runsc") is None or os.geteuid() != 0, reason="needs runsc (apt-get install runsc), root"
)
def test_a_worker_in_gvisor_measures_and_tells_where_it_is() -> None:
    arm = parse_arm("runsc")
    case = Case(
        primitive="launch", parameters={"call": "getppid"}, backend="numpy", device="cpu",
        method=Method(dry_run=True), arm=arm.name,
    )  # fmt: skip
    with Session(arms={arm.name: arm}) as session:
        worker, record = session.run([case])
    assert isinstance(worker, Worker)
    assert isinstance(record, Record)
    assert ("ok", None) == (record.status, record.reason)
    assert "gVisor" == worker.environment.machine.virtualization


def test_gvisor_gets_the_bundle_that_runc_gets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "new_name", lambda: "primbench-0123")
    monkeypatch.setattr(oci, "gpu_files", lambda: ["/dev/null"])
    found = {}
    for words in ("runsc", "runsc:cgroup=host", "runsc:network=host", "runc"):
        folder = tmp_path / words.replace(":", "-")
        folder.mkdir()
        found[words] = launch(parse_arm(words), folder, gpus=words == "runsc").worker
    state = ["--root", str(tmp_path / "runsc/state")]
    own = ["--network=none", "--nvproxy", "run", "--bundle", str(tmp_path / "runsc"), "primbench-0123"]
    assert ["runsc", *state, *own] == found["runsc"]
    assert ["--network=none", "--ignore-cgroups"] == found["runsc:cgroup=host"][3:5]
    assert "--network=host" == found["runsc:network=host"][3]
    with_gpus, plain = (
        msgspec.json.decode((tmp_path / name / "config.json").read_bytes()) for name in ("runsc", "runc")
    )
    assert ["/dev/null"] == [each["path"] for each in with_gpus["linux"]["devices"]]
    assert plain["mounts"][0] == with_gpus["mounts"][0]


@pytest.mark.parametrize("name", ["runsc", "qemu"])
def test_what_is_not_installed_is_told(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    program = {"qemu": qemu.PROGRAM}.get(name, name)
    assert (f"{program} is not installed", "") == why_not(name)


def test_no_machine_is_booted_only_to_see_whether_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    found = known()["qemu"]._replace(found=lambda: (None, "7.2"))
    monkeypatch.setattr(trial, "known", lambda: {"qemu": found})
    monkeypatch.setattr(trial, "refused", lambda arm: pytest.fail(f"{arm.name} was started"))
    assert (f"yes, {trial.NOT_BOOTED}", "7.2") == trial.works_here("qemu")


@pytest.mark.parametrize(
    ("words", "option", "command"),
    [("docker", "--runtime=kata", ["docker", "create"]), ("podman", "--runtime=kata", ["podman", "--runtime=kata"])],
)
def test_an_engine_is_told_what_to_start_a_container_by(
    words: str, option: str, command: list[str], tmp_path: Path
) -> None:
    made = launch(parse_arm(f"{words}:image=x,oci-runtime=kata"), tmp_path, gpus=False).before[0]
    assert (command, 1) == (made[:2], made.count(option))


def test_a_pod_has_a_class_of_runtime() -> None:
    assert "gvisor" == pod(parse_arm("k8s:x,oci-runtime=gvisor"), "n")["spec"]["runtimeClassName"]
    assert "runtimeClassName" not in pod(parse_arm("k8s:x"), "n")["spec"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("docker:runtime=runsc", r"an engine's container is started otherwise by oci-runtime=runsc"),
        ("crun:oci-runtime=runsc", r"crun has no oci-runtime of its own; there is one in docker, podman"),
        ("docker:oci-runtime=a b", r"oci-runtime 'a b': the name of one"),
        ("podman:guest-kernel=/boot/x", r"podman has no guest-kernel of its own; there is one in qemu"),
        ("qemu:memory=1GiB", r"qemu has no memory of its own; there is one in host, docker"),
        ("qemu:image=x", r"qemu has no image of its own; "),
    ],
)
def test_what_another_place_alone_has_is_refused(words: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        check(parse_arm(words))


def test_an_engine_that_does_not_know_the_runtime_says_where_it_is_named() -> None:
    said = "docker create: Error response from daemon: unknown or invalid runtime name: runsc"
    assert "/etc/docker/daemon.json adds one below runtimes" in refusal(parse_arm("docker:oci-runtime=runsc"), said)


def test_a_virtual_machine_is_told_its_kernel_and_the_worker_by_its_first_line(kernel: Path, tmp_path: Path) -> None:
    reason = known()["qemu"].found()[0]
    if reason is not None and "kernel" not in reason:
        pytest.skip(reason)
    words = f"qemu:guest-kernel={kernel},env.OMP_NUM_THREADS=1"
    assert words == format_arm(parse_arm(words))
    found = launch(parse_arm(words), tmp_path, gpus=False)
    argv, variables = msgspec.json.decode(found.first)
    assert ("primbench.workers.worker", "1") == (argv[3], variables["OMP_NUM_THREADS"])
    assert "OMP_NUM_THREADS" not in " ".join(found.worker)
    assert str(len(os.sched_getaffinity(0))) == found.worker[found.worker.index("-smp") + 1]
    with pytest.raises(InvalidRequest, match="sees no GPU of this machine"):
        launch(parse_arm(words), tmp_path, gpus=True)
    with pytest.raises(InvalidRequest, match="no file with its modules beside it"):
        launch(parse_arm("qemu:guest-kernel=/nowhere/vmlinuz-1"), tmp_path, gpus=False)


def test_modules_come_after_those_that_they_need(kernel: Path) -> None:
    found = kernel_at(kernel)
    assert found is not None
    assert ["9pnet", "netfs", "9p", "overlay"] == [*modules(found, ["virtio_pci", "9p", "overlay"])]
    (found.modules / "kernel/overlay.ko").rename(found.modules / "kernel/overlay.ko.zst")
    with pytest.raises(BackendUnavailable, match=r"overlay\.ko\.zst is packed by what is not read here"):
        modules(found, ["overlay"])
    assert kernel.read_bytes() == unpacked_kernel(kernel.read_bytes())


def test_a_kernel_without_a_way_to_the_root_is_refused_in_one_line(
    kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Debian's for clouds, which has no 9p; what is built in needs no file."""
    if (reason := known()["qemu"].found()[0]) is not None and "kernel" not in reason:
        pytest.skip(reason)
    found = kernel_at(kernel)
    assert found is not None
    assert not lacking(found, ["virtio_pci"]), "it does not say what is built in"
    (found.modules / "modules.builtin").write_text("kernel/drivers/virtio/virtio-pci.ko\nkernel/net/9p/9pnet.ko\n")
    assert ["virtio_console", "9pnet_virtio"] == lacking(found, qemu.MODULES)
    with pytest.raises(InvalidRequest, match=r"boot/vmlinuz-.* has no virtio_console, 9pnet_virtio, without which"):
        launch(parse_arm(f"qemu:guest-kernel={kernel}"), tmp_path, gpus=False)
    monkeypatch.setattr(qemu, "kernels", lambda: [found])
    assert "has no virtio_console" in str(known()["qemu"].found()[0])


def test_a_kernel_without_modules_beside_it_is_none(tmp_path: Path) -> None:
    (tmp_path / "vmlinuz-1").touch()
    assert kernel_at(tmp_path / "vmlinuz-1") is None


def test_the_first_files_can_be_unpacked(tmp_path: Path) -> None:
    if shutil.which("cpio") is None:
        pytest.skip("needs cpio")
    files = {"init": b"#!/bin/sh\n", "a/b/file": b"abc", "a/b/empty": b""}
    subprocess.run(["cpio", "-i", "--quiet"], input=archive(files, folders=["proc"]), cwd=tmp_path, check=True)
    assert files == {name: (tmp_path / name).read_bytes() for name in files}
    assert (tmp_path / "init").stat().st_mode & 0o111
    assert (tmp_path / "proc").is_dir()


def test_kvm_is_used_where_any_kernel_can_be_booted_alone(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text("flags\t\t: fpu hypervisor\n")
    assert not qemu.kvm_works(tmp_path)
