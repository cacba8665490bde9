"""A virtual machine by QEMU, with a kernel of its own and this machine's root in place of a disk.

The root is read-only over 9p, under a file system in the machine's memory that takes what is written: the same Python,
libraries and files are inside as outside, and nothing stays. It has as many CPUs as are allowed here, and at most half
of the memory. Where KVM cannot be used QEMU emulates each instruction, as the place's fact ``emulator`` tells.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from primbench.errors import InvalidRequest
from primbench.runtimes.initramfs import Kernel, archive, kernel_at, kernels, lacking, modules, unpacked_kernel
from primbench.runtimes.invocation import Invocation, client, variables
from primbench.runtimes.runtime import RefusalWords, Runtime
from primbench.system.files import labelled_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.spec.arm import Arm

PROGRAM = "qemu-system-x86_64"
MODULES = ("virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay")
PACKAGE = "apt-get download linux-image-RELEASE-amd64"
EXIT_PORT = 0xF4
"""By which QEMU is told to end with a status, which is odd: docs of its device isa-debug-exit."""
EMULATED_CPU = "max,avx=off,avx2=off,erms=off,fsrm=off,la57=off"
"""Without what takes longest to emulate: wide vectors, element by element, and fast strings, byte by byte."""
EMULATED_CLOCK = ("tsc=reliable", "no_timer_check", "nowatchdog")  # whose ticks come too late on a busy machine
_KVM_CREATE_VM = 0xAE01  # linux/kvm.h

# It reads one line, which is the worker's command and variables, and becomes the worker. By pipes: a port takes a part
# alone of what is long. Ports come a while after their module, on a busy machine later than all else. Standard error is
# the console.
INIT = """\
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read -r module; do insmod "/modules/$module"; done < /modules/order
mkdir -p /host /written /new
mount -t 9p -o trans=virtio,version=9p2000.L,cache=loose,msize=512000 host /host
mount -t tmpfs tmpfs /written
mkdir /written/upper /written/work
mount -t overlay -o lowerdir=/host,upperdir=/written/upper,workdir=/written/work overlay /new
for folder in proc sys dev; do mount --move "/$folder" "/new/$folder"; done
mount -t tmpfs tmpfs /new/run
mkdir -p /new/dev/shm
mount -t tmpfs tmpfs /new/dev/shm
mount -t cgroup2 cgroup2 /new/sys/fs/cgroup
ip link set lo up
cd /new/dev
until [ -e vport*p1 ] && [ -e vport*p2 ]; do sleep 0.1; done
cat vport*p1 | {
    { chroot /new {python} -I -S -c {first}; echo "$?" > /ended; } | cat > "$(echo vport*p2)"
    status=$(cat /ended)
    [ "$status" = 0 ] && poweroff -f
    [ "$status" -gt 128 ] && echo "it was ended by signal $((status - 128))" > console
    [ $((status % 2)) = 1 ] || status=1
    printf "\\\\$(printf %o $((status / 2)))" | dd of=port bs=1 seek={port} 2> null
}
"""
FIRST = 'import json,os;argv,env=json.loads(b"".join(iter(lambda:os.read(0,1),b"\\n")));os.execve(argv[0],argv,env)'


def found() -> tuple[str | None, str]:
    """Why it cannot be used, or None, and its version."""
    reason, version = client(PROGRAM, "--version")
    return reason or _lacking() or _no_kernel(), version


def _lacking() -> str | None:
    if platform.machine() != "x86_64":
        return f"it is started for x86_64 alone, and this machine is {platform.machine()}"
    return None if _busybox() else "busybox is not installed, linked statically: apt-get install busybox-static"


def _no_kernel() -> str | None:
    found = kernels()
    if any(_unfit(each) is None for each in found):
        return None
    reason = _unfit(found[0]) if found else "no kernel that can be read is in /boot with its modules beside it"
    return f"{reason}: qemu:guest-kernel=FILE names one, as of `{PACKAGE}`, unpacked by `dpkg-deb -x`"


def _unfit(kernel: Kernel) -> str | None:
    """By what it lacks, such as 9p in Debian's kernels for clouds."""
    absent = lacking(kernel, MODULES)
    return (
        f"{kernel.file} has no {', '.join(absent)}, without which it does not reach this machine's root"
        if absent
        else None
    )


def _busybox() -> str | None:
    """A static one alone runs where there is no libc: ldd fails on that."""
    path = shutil.which("busybox")
    is_static = path is not None and subprocess.run(["ldd", path], capture_output=True, check=False).returncode != 0
    return path if is_static else None


def launch(arm: Arm, folder: Path, command: Sequence[str], *, gpus: bool) -> Invocation:
    """Raises InvalidRequest where it lacks a kernel, busybox or a GPU."""
    if gpus:
        raise InvalidRequest("a virtual machine sees no GPU of this machine: --device cpu", arm=arm.name)
    kernel, busybox = _kernel(arm), _busybox()
    if (reason := _lacking()) is not None or busybox is None:
        raise InvalidRequest(str(reason), arm=arm.name)
    held = modules(kernel, MODULES)
    files = {
        "init": INIT.replace("{python}", shlex.quote(sys.executable))
        .replace("{first}", shlex.quote(FIRST))
        .replace("{port}", str(EXIT_PORT))
        .encode(),
        "bin/busybox": Path(busybox).read_bytes(),
        "modules/order": "".join(f"{name}\n" for name in held).encode(),
        **{f"modules/{name}": content for name, content in held.items()},
    }
    initramfs = folder / "initramfs"
    initramfs.write_bytes(archive(files, folders=("proc", "sys", "dev")))
    booted = folder / "vmlinux"
    booted.write_bytes(unpacked_kernel(kernel.file.read_bytes()))
    argv = [shutil.which(command[0]) or command[0], *command[1:]]
    told = json.dumps([argv, variables(arm, folder)]).encode() + b"\n"
    return Invocation(worker=machine(booted, initramfs, is_emulated=not kvm_works()), first=told)


def _kernel(arm: Arm) -> Kernel:
    if arm.guest_kernel is not None:
        named = kernel_at(Path(arm.guest_kernel))
        if named is None:
            raise InvalidRequest(
                f"guest-kernel={arm.guest_kernel}: no file with its modules beside it: name "
                "boot/vmlinuz-RELEASE of a tree that has lib/modules/RELEASE",
                arm=arm.name,
            )
        if (reason := _unfit(named)) is not None:
            raise InvalidRequest(f"guest-kernel={reason}: name another, as of `{PACKAGE}`", arm=arm.name)
        return named
    if (reason := _no_kernel()) is not None:
        raise InvalidRequest(reason, arm=arm.name)
    return next(each for each in kernels() if _unfit(each) is None)


def kvm_works(root: Path = Path("/")) -> bool:
    """Whether the kernel here makes a virtual machine for this process, on a processor that can boot any kernel in it.

    A nested one may be made without that, as by kvm_pvm, where only kernels start that know of it.
    """
    try:
        if not {"vmx", "svm"} & {*labelled_value(root / "proc/cpuinfo", "flags").split()}:
            return False
        with open(root / "dev/kvm", "rb+", buffering=0) as device:
            os.close(fcntl.ioctl(device, _KVM_CREATE_VM, 0))
    except (OSError, ValueError):
        return False
    return True


def machine(kernel: Path, initramfs: Path, *, is_emulated: bool) -> list[str]:
    """QEMU's command. Standard input and output are ports of the machine, standard error is its console."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**21
    booted = " ".join(["console=ttyS0", "panic=-1", "quiet", "loglevel=1", *(EMULATED_CLOCK if is_emulated else ())])
    options = [
        ("-M", "q35"),
        ("-accel", "tcg" if is_emulated else "kvm"),
        ("-cpu", EMULATED_CPU if is_emulated else "host"),
        ("-smp", str(len(os.sched_getaffinity(0)))),
        ("-m", f"{memory}M"),
        ("-kernel", str(kernel)),
        ("-initrd", str(initramfs)),
        ("-append", booted),
        ("-display", "none"),
        ("-serial", "file:/dev/stderr"),
        ("-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap"),
        ("-chardev", "stdio,id=in,signal=off"),
        ("-chardev", "file,id=out,path=/dev/stdout,append=on"),
        ("-device", "virtio-serial"),
        ("-device", "virtserialport,chardev=in,nr=1"),
        ("-device", "virtserialport,chardev=out,nr=2"),
        ("-device", f"isa-debug-exit,iobase={EXIT_PORT},iosize=1"),
    ]
    return [PROGRAM, "-nodefaults", "-no-user-config", "-no-reboot", *itertools.chain(*options)]


RUNTIME = Runtime(
    rank=76,
    mechanisms=frozenset({"qemu", "surroundings"}),
    found=found,
    launch=launch,
    refusals=(
        RefusalWords(
            r"[Cc]annot allocate memory|cannot set up guest memory",
            lambda arm: "it takes half of this machine's memory: free some",
        ),
        RefusalWords(  # the last line of a panic, kernel/panic.c
            r"Kernel panic|Kernel Offset: ",
            lambda arm: "its kernel gave up: --verbose shows its console, guest-kernel=FILE names another kernel",
        ),
    ),
    is_sandbox=True,
    boots=True,
)
