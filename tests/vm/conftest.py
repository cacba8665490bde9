"""A real machine of two NUMA nodes, and a third of memory alone: QEMU's software emulation.

It needs neither /dev/kvm nor rights. Its root is this machine's own, read-only over 9p, under a file system in its
memory that takes what is written: the same Python and the same installed package run in it as outside, and nothing of
it stays. Its kernel is the distribution's, downloaded and unpacked but not installed. Times taken in it mean nothing;
places and errors are real.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import platform
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from primbench.runtimes.initramfs import archive, kernel_at, modules, unpacked_kernel

from ..groups import ahead
from ..ports import free_port

Run = Callable[..., subprocess.CompletedProcess[str]]

AGENT = Path(__file__).with_name("guest_agent.py")
PROGRAMS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "busybox": "busybox-static",
    "setpriv": "util-linux",
    "apt-get": "apt",
}
PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
KERNEL = "linux-image-amd64"
MODULES = ("virtio_pci", "virtio_console", "virtio_net", "9pnet_virtio", "9p", "overlay")

NODES = 2
NODE_BYTES = 768 * 2**20
CPUS_PER_NODE = 2
DISTANCE = 21
# As HBM or a CXL expander, at the second node: firmware tells by the HMAT whose CPUs are nearest.
MEMORY_NODE, MEMORY_BYTES, INITIATOR = 2, 256 * 2**20, 1
NEAR, FAR = 17, 28
NOBODY_KEPT_OUT = "mitigations=off init_on_alloc=0"
ON_A_BUSY_MACHINE = "tsc=reliable no_timer_check nowatchdog"  # where clocks that are emulated come too late
BOOT_TIMEOUT_S = 240
BUILD_TIMEOUT_S = 240

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read module; do insmod /modules/$module; done < /modules/order
mkdir /host /written /new
mount -t 9p -o trans=virtio,version=9p2000.L,cache=loose,msize=512000 host /host
mount -t tmpfs tmpfs /written
mkdir /written/upper /written/work
{hidden}
mount -t overlay -o lowerdir=/host,upperdir=/written/upper,workdir=/written/work overlay /new
for folder in proc sys dev; do mount --move /$folder /new/$folder; done
mount -t tmpfs tmpfs /new/run
mkdir -p /new/dev/shm
mount -t tmpfs tmpfs /new/dev/shm
mount -t cgroup2 cgroup2 /new/sys/fs/cgroup
ip link set lo up
ip link set eth0 up
ip address add 10.0.2.15/24 dev eth0
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/run TMPDIR=/run
{sshd}
chroot /new {agent} $(echo /new/dev/vport* | cut -c 5-)
poweroff -f
"""


SERVER = """\
ListenAddress 10.0.2.15
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
StrictModes no
UsePAM no
PidFile none
SetEnv TMPDIR=/run XDG_CACHE_HOME=/run
"""

CLIENT = """\
Host vm
  HostName 127.0.0.1
  Port {port}
  User root
  IdentitiesOnly yes
  IdentityFile {folder}/user
  GlobalKnownHostsFile /dev/null
  UserKnownHostsFile {folder}/known
"""


class Machine:
    """A running machine. After an answer that did not come in time nothing further can be asked of it."""

    def __init__(self, line: socket.socket, console: Path) -> None:
        self._line = line
        self._answers = line.makefile("rb")
        self._console = console
        assert "ready" == self._answer(BOOT_TIMEOUT_S)

    def run(
        self, *argv: Any, cgroup: Mapping[str, str] | None = None, timeout_s: float = 240
    ) -> subprocess.CompletedProcess[str]:
        request = {"argv": [str(a) for a in argv], "cgroup": dict(cgroup or {}), "timeout_s": timeout_s}
        self._line.sendall(json.dumps(request).encode() + b"\n")
        answer = self._answer(timeout_s + 30)
        ended = subprocess.CompletedProcess(argv, answer["returncode"], answer["stdout"], answer["stderr"])
        assert ended.returncode is not None, f"not ended in {timeout_s} s: {ended}"
        return ended

    def _answer(self, timeout_s: float) -> Any:
        self._line.settimeout(timeout_s)
        try:
            line = self._answers.readline()
        except TimeoutError:
            line = b""
        if not line.endswith(b"\n"):
            raise RuntimeError(f"no answer, or not in {timeout_s} s; its console: {self._console.read_text()[-2000:]}")
        return json.loads(line)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """The configuration of ssh's client, by which the machine is the host "vm"; None where no server is installed."""
    daemon = _program("sshd")
    if daemon is None:
        return None
    folder = tmp_path_factory.mktemp("ssh")
    for name in ("host", "user"):
        _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name)
    port = free_port()
    kind, key, _ = (folder / "host.pub").read_text().split()
    (folder / "known").write_text(f"[127.0.0.1]:{port} {kind} {key}\n")
    (folder / "server").write_text(SERVER.format(folder=folder))
    (folder / "port").write_text(f"{port}\n")
    (folder / "config").write_text(CLIENT.format(port=port, folder=folder))
    return folder / "config"


@pytest.fixture(scope="session")
def kernel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The distribution's, with its modules beside it, downloaded once for all runs."""
    _require_programs()
    cache = request.config.cache
    return _kernel(cache.mkdir("two-nodes") if cache is not None else tmp_path_factory.mktemp("kernel"))


@pytest.fixture(scope="session")
def on_two_nodes(kernel: Path, tmp_path_factory: pytest.TempPathFactory, served: Path | None) -> Iterator[Run]:
    """``on_two_nodes(program, *arguments, cgroup={file: text}, timeout_s=240)``: how the command ended in the machine.

    cgroup: files of the control group that the command has of its own, written before it starts.
    The machine ends with the session, or with this process however that ends.
    """
    folder = tmp_path_factory.mktemp("machine")
    vmlinux = folder / "vmlinux"
    vmlinux.write_bytes(unpacked_kernel(kernel.read_bytes()))
    initramfs = _initramfs(kernel, folder, served)
    console = folder / "console.txt"
    console.touch()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        port = None if served is None else int(served.with_name("port").read_text())
        command = _qemu(vmlinux, initramfs, console, theirs.fileno(), port)
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
        theirs.close()  # else nobody would see QEMU end, nor QEMU us
        try:
            with ahead(process.pid):  # else its kernel stands still where others want the CPUs, and its clocks do
                yield Machine(ours, console).run
                ours.shutdown(socket.SHUT_RDWR)  # the agent ends with the line, and the machine with the agent
                process.wait(120)
        finally:
            process.kill()
            process.wait()


def _qemu(vmlinux: Path, initramfs: Path, console: Path, line: int, port: int | None) -> list[str]:
    """port: of this machine, by which its ssh is reached."""
    reached = "" if port is None else f",hostfwd=tcp:127.0.0.1:{port}-:22"
    options = [
        ("-M", "q35,hmat=on"),
        ("-accel", "tcg,thread=single"),  # a thread of its own for each CPU costs half as much again
        # SSE4.2, for NumPy; wider vectors are emulated element by element, fast strings byte by byte.
        ("-cpu", "max,avx=off,avx2=off,erms=off,fsrm=off,la57=off"),
        ("-m", f"{(NODES * NODE_BYTES + MEMORY_BYTES) // 2**20}M"),
        ("-smp", f"{NODES * CPUS_PER_NODE},sockets={NODES},cores={CPUS_PER_NODE},threads=1"),
        *itertools.chain.from_iterable(map(_node, range(NODES))),
        ("-object", f"memory-backend-ram,id=memory{MEMORY_NODE},size={MEMORY_BYTES}"),
        ("-numa", f"node,nodeid={MEMORY_NODE},memdev=memory{MEMORY_NODE},initiator={INITIATOR}"),
        ("-numa", f"dist,src=0,dst=1,val={DISTANCE}"),
        ("-numa", f"dist,src=0,dst={MEMORY_NODE},val={FAR}"),
        ("-numa", f"dist,src=1,dst={MEMORY_NODE},val={NEAR}"),
        ("-kernel", str(vmlinux)),
        ("-initrd", str(initramfs)),
        ("-append", f"console=ttyS0 panic=-1 quiet {ON_A_BUSY_MACHINE} {NOBODY_KEPT_OUT}"),
        ("-display", "none"),
        ("-serial", f"file:{console}"),
        ("-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap"),
        ("-device", "virtio-serial"),
        ("-chardev", f"socket,id=line,fd={line}"),
        ("-device", "virtserialport,chardev=line"),
        ("-netdev", f"user,id=net,restrict=on{reached}"),
        ("-device", "virtio-net-pci,netdev=net,romfile="),
    ]
    ends_with_us = ["setpriv", "--pdeathsig", "KILL"]
    flags = ["-nodefaults", "-no-user-config", "-no-reboot"]
    return [*ends_with_us, "qemu-system-x86_64", *flags, *itertools.chain(*options)]


def _node(node: int) -> list[tuple[str, str]]:
    first = node * CPUS_PER_NODE
    cpus = f"cpus={first}-{first + CPUS_PER_NODE - 1}"
    return [
        ("-object", f"memory-backend-ram,id=memory{node},size={NODE_BYTES}"),
        ("-numa", f"node,nodeid={node},{cpus},memdev=memory{node},initiator={node}"),
    ]


def _require_programs() -> None:
    if platform.machine() != "x86_64":
        pytest.skip(f"the machine emulated has the architecture x86_64, the programs here that of {platform.machine()}")
    absent = [package for program, package in PROGRAMS.items() if not _is_there(program)]
    if absent:
        pytest.skip(f"a machine of two NUMA nodes needs: apt-get install {' '.join(absent)}")


def _is_there(program: str) -> bool:
    path = _program(program)
    if path is None or program != "busybox":
        return path is not None
    # It has to be the static one, since it runs where there is no libc: ldd fails on that.
    return subprocess.run(["ldd", path], capture_output=True).returncode != 0


def _kernel(cache: Path) -> Path:
    """Its file, in a folder with lib/modules/VERSION, made once."""
    package = _kernel_package()
    kernel = cache / package
    if not kernel.exists():
        new = cache / "new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        try:
            _run("apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", package, cwd=new)
        except subprocess.CalledProcessError as error:
            errors = [line for line in error.stderr.splitlines() if line.startswith("E:")]
            pytest.skip(f"apt-get download {package}: {'; '.join(errors)}")
        (archive,) = new.glob("*.deb")
        _run("dpkg-deb", "-x", archive.name, ".", cwd=new)
        archive.unlink()
        if not (new / "lib").exists():
            (new / "lib").symlink_to("usr/lib")
        new.rename(kernel)
    (image,) = kernel.glob("boot/vmlinuz-*")
    return image


def _kernel_package() -> str:
    try:
        depends = _run("apt-cache", "depends", KERNEL)
    except subprocess.CalledProcessError:
        pytest.skip(f"apt knows no {KERNEL}: apt-get update, on Debian")
    return next(word for word in depends.split() if word.startswith("linux-image-") and word != KERNEL)


def _initramfs(kernel: Path, folder: Path, served: Path | None) -> Path:
    """Busybox, the modules with which the root is reached, and the script that starts the agent there."""
    found = kernel_at(kernel)
    assert found is not None
    held = modules(found, MODULES)
    agent, sshd = shlex.join([sys.executable, "-P", str(AGENT)]), ""
    hidden = "\n".join(map(_whiteout, _not_there()))
    if served is not None:
        command = shlex.join([str(_program("sshd")), "-f", str(served.with_name("server"))])
        sshd = f"mkdir /new/run/sshd; chroot /new {command}"
    files = {
        "init": INIT.format(agent=agent, sshd=sshd, hidden=hidden).encode(),
        "bin/busybox": Path(str(_program("busybox"))).read_bytes(),
        "modules/order": "".join(f"{name}\n" for name in held).encode(),
        **{f"modules/{name}": content for name, content in held.items()},
    }
    image = folder / "initramfs.cpio"
    image.write_bytes(archive(files, folders=("proc", "sys", "dev")))
    return image


def _not_there() -> list[str]:
    """Folders of this machine that the other one lacks: under emulation Numba would compile for minutes."""
    numba = importlib.util.find_spec("numba")
    return [] if numba is None else [*(numba.submodule_search_locations or [])]


def _whiteout(folder: str) -> str:
    """Has an overlay's upper layer show none of the lower one's folder: docs.kernel.org/filesystems/overlayfs.html."""
    upper = f"/written/upper{folder}"
    return shlex.join(["mkdir", "-p", os.path.dirname(upper)]) + "\n" + shlex.join(["mknod", upper, "c", "0", "0"])


def _program(name: str) -> str | None:
    return shutil.which(name, path=PATH)


def _run(*argv: str | Path, cwd: Path | None = None) -> str:
    program = [_program(str(argv[0])) or argv[0], *argv[1:]]
    ended = subprocess.run(
        program, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=True
    )
    return ended.stdout
