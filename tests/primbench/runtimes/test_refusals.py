"""What is said where no worker comes up in an arm. The words of runtimes, Linux and Python are as they were heard.

Those about GPUs are of NVIDIA's container toolkit and of frameworks; tests/containers/test_refusals.py hears the rest.
"""

from __future__ import annotations

import pytest

from primbench.runtimes.refusals import refusal
from primbench.spec.arm import parse_arm

NO_GPU = "no GPU is visible inside docker: there is no /dev/nvidia0 or the like"
BLIND = "backend torch on cuda:0: torch 2.11.0+cu130 finds no usable GPU or driver"
GENERATE = "`nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`"
HYBRID = "cgroups in hybrid mode not supported, drop all controllers from cgroupv2"
PODMAN_HYBRID = f"died of exit status 125: Error: OCI runtime error: unable to start container: crun: {HYBRID}"
RUNC = (
    r'worker died of exit status 1: time="2026-11-21T22:36:54Z" level=error msg="runc run failed: failed to write '
    r'\"900\": write /sys/fs/cgroup/cpuset/x/cpuset.cpus: numerical result out of range"'
)
NO_SHELL = "enroot-switchroot: failed to execute: /bin/sh: No such file or directory"
PYXIS = "worker died of exit status 1: slurmstepd-n2: error: pyxis:     "


@pytest.mark.parametrize(
    ("said", "absent"),
    [
        ("worker died of exit status 1: /usr/bin/python3: No module named 'primbench'", "primbench"),
        ("worker died of exit status 1: /usr/bin/python3: No module named primbench.workers.worker", "primbench"),
        ("worker died of exit status 1: ModuleNotFoundError: No module named 'msgspec'", "msgspec"),
        ('...: exec: "python3": executable file not found in $PATH: unknown', "python3"),
        ("ch-run[1]: error: can't execve(2): python3: No such file or directory", "python3"),
        ("crun: executable file `python3` not found in $PATH: No such file or directory", "python3"),
        ("worker died of exit status 127: /proc/self/fd/3: 2: exec: python3: not found", "python3"),  # enroot
    ],
)
def test_what_an_image_lacks_is_told_with_the_way_out(said: str, absent: str) -> None:
    reason = f"image mine has no {absent}: build one with `primbench image`"
    assert reason == refusal(parse_arm("docker:image=mine,name=x"), said)
    assert said in refusal(parse_arm("docker:name=x"), said), "the host's files lack nothing that an image has"


MENDED = [
    ("docker:image=mine", "docker create: Error response from daemon: No such image: mine:latest", "`docker pull`"),
    ("podman:image=/x.sif", "podman create: Error: invalid reference format", "`podman images` lists"),
    ("apptainer:image=x", "FATAL: While checking: could not open image /x: lstat /x: no such file", "a folder in full"),
    ("charliecloud:image=x", "ch-run[1]: error: can't stat: x: No such file or directory", "`ch-image list`"),
    (
        "charliecloud:image=/python3",
        "ch-run[1]: error: can't stat: /python3: No such file or directory",
        "`ch-image list`",
    ),
    ("enroot:image=x", "[ERROR] No such file or directory: /root/.local/share/enroot/x", "`enroot list` lists"),
    ("enroot:image=/x", "[ERROR] Invalid argument: /x", "name a squashfs file, or"),
    ("enroot:image=/x.sqsh", "[ERROR] Failed to mount: /x.sqsh", "`enroot create /x.sqsh` makes a container"),
    ("enroot:image=/x.sqsh", "[ERROR] Command not found: squashfuse", "`enroot create /x.sqsh` makes a container"),
    ("enroot:image=/x.sqsh", NO_SHELL, "image /x.sqsh has none"),
    ("slurm:n2,image=/x.sqsh", f"{PYXIS}{NO_SHELL}", "image /x.sqsh has none"),
    ("slurm:n2,image=/x.sqsh", f"{PYXIS}[ERROR] No such file or directory: /x.sqsh", "a squashfs file on n2"),
    ("slurm:n2,image=/x.sqsh", f"{PYXIS}[ERROR] Invalid image format: /x.sqsh", "a squashfs file on n2"),
    ("slurm:n2,image=/x.sqsh", f"{PYXIS}FATAL ERROR: File system corruption detected", "a squashfs file on n2"),
    (
        "slurm:n2,image=x.sqsh",
        f"{PYXIS}[ERROR] URL https://registry-1.docker.io/v2/ returned error code: 404 Not Found",
        "a file on n2 begins with /",
    ),
    (
        "slurm:n2,image=/x.sqsh",
        "worker died of exit status 2: slurmstepd: error: execve(): python3: No such file or directory",
        "there is no python3 in image /x.sqsh: name one by python=",
    ),
    (
        "slurm:n2",
        "worker died of exit status 2: slurmstepd: error: execve(): python3: No such file or directory",
        "there is no python3: name one by python=",
    ),
    ("runc:cpuset=900", RUNC, 'write "900": write /sys'),
    ("runc:cpuset=900", RUNC, "there are CPUs "),
    ("podman:memory=1MiB", f"unable to start container {64 * 'a'}: unable to set memory limit", "container: unable"),
    ("podman:memory=1MiB", "worker was killed by SIGKILL: the kernel's out-of-memory killer", "1 MiB of memory may be"),
    ("podman", "worker died of exit status 3: nobody knows", "--verbose shows"),
    (
        "podman",
        "crun: setrlimit `RLIMIT_NOFILE`: Operation not permitted",
        'ulimits = ["nofile=',
    ),
    (
        "docker",
        "container init: error setting rlimit type 7: operation not permitted",
        "--default-ulimit=",
    ),
    ("docker", 'invalid mount config for type "bind": bind source path does not exist: /x', "sees other files than"),
    ("podman", "open(/dev/net/tun): No such file or directory", "podman:network=none or network=host does without"),
    ("podman", "could not find slirp4netns, the network namespace can't be configured", "network=none or network=host"),
    ("docker", "Error response from daemon: network bridge not found", "docker:network=none or network=host does"),
    (
        "docker:image=mine",
        "worker died of exit status 1: OSError: /usr/lib/python3.12/torch/lib/libtorch.so: cannot open: No such file",
        "libtorch.so: cannot open",
    ),
    (
        "docker:image=mine",
        "worker died of exit status 127: python3: error while loading shared libraries: libpython3.11.so: No such file",
        "libpython3.11.so",
    ),
    (
        "docker:image=mine",
        "worker died of exit status 1: ModuleNotFoundError: No module named 'numpy._core._multiarray_umath'",
        "'numpy._core._multiarray_umath'",
    ),
    (
        "docker:image=mine",
        "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.9, please update your driver",
        "please update your driver",
    ),
    ("runc:memory=1GiB", "error setting memory limit: permission denied", "limit: permission denied"),
    ("docker:image=mine", f"{BLIND.partition(' finds')[0]} is built without CUDA", "in image mine: build one"),
    ("docker:image=mine", "backend torch on cpu: module 'torch' is not installed: pip install torch", "--extra"),
    ("docker:image=mine", NO_GPU, GENERATE),
    ("podman:image=mine", "podman create: Error: unresolvable CDI devices nvidia.com/gpu=all", GENERATE),
    ("docker:image=mine", 'could not select device driver "" with capabilities: [[gpu]]', "no GPU is visible inside: "),
    ("apptainer:image=x.sif", BLIND, "--nv"),
    ("charliecloud:image=x", BLIND, "`ch-fromhost --nvidia`"),
    ("crun", f"worker died of exit status 1: {HYBRID}", "control groups are v1 and v2 at once: use runc"),
    ("podman", PODMAN_HYBRID, 'use runc, by runtime = "runc" below [engine] in containers.conf'),
    ("podman:image=mine", PODMAN_HYBRID, "use runc, by runtime"),
    ("docker", NO_GPU, "see whether /dev/nvidia*, nvidia-uvm among them, and libcuda.so.1 are there"),
    ("host", BLIND, "see nvidia-smi"),
    ("host:env.CUDA_VISIBLE_DEVICES=", BLIND, "no GPU is visible inside: leave out env.CUDA_VISIBLE_DEVICES=, or"),
]


@pytest.mark.parametrize(("arm", "said", "told"), MENDED)
def test_it_is_one_line_that_says_how_to_mend(arm: str, said: str, told: str) -> None:
    reason = refusal(parse_arm(arm), said)
    assert told in reason
    assert len(reason.splitlines()) == 1


@pytest.mark.parametrize(
    ("arm", "said"),
    [
        ("docker:cpuset=900", "docker create: Requested CPUs are not available - requested 900, available: 0-1"),
        ("podman", "worker was killed by SIGKILL: the kernel's out-of-memory killer (see dmesg), or somebody"),
        ("docker", "Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?"),
    ],
)
def test_what_says_enough_stays_as_it_is(arm: str, said: str) -> None:
    assert said == refusal(parse_arm(arm), said)
