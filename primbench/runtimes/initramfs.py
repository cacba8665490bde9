"""The first files of a virtual machine: busybox, and modules of its kernel by which it reaches this machine's root."""

from __future__ import annotations

import gzip
import lzma
import os
import re
import struct
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from primbench.errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_READS: dict[str, Callable[[bytes], bytes]] = {".ko": bytes, ".xz": lzma.decompress, ".gz": gzip.decompress}
"""By the end of a module's name, what unpacks it. Python reads zstd from 3.14 on."""
_DEPENDS = re.compile(rb"(?:^|\0)depends=([^\0]*)\0")  # in the section .modinfo
_FOLDER, _PROGRAM = 0o040755, 0o100755


class Kernel(NamedTuple):
    """A kernel of Linux, as a distribution's package brings it."""

    file: Path
    """What is booted."""
    modules: Path
    """The folder of its modules, named after its release."""


def kernel_at(file: Path) -> Kernel | None:
    """The kernel in a file, such as /boot/vmlinuz-RELEASE beside /lib/modules; None where its modules are not found."""
    release = file.name.partition("-")[2]
    beside = (file.parent.parent / folder / release for folder in ("lib/modules", "usr/lib/modules"))
    folders = [file.parent, *beside] if release else [file.parent]
    found = next((each for each in folders if (each / "kernel").is_dir()), None)
    return Kernel(file, found) if found and file.is_file() else None


def kernels(root: Path = Path("/")) -> list[Kernel]:
    """Those of this machine, the one that runs first, then the newest."""
    files = [*(root / "boot").glob("vmlinuz-*"), *(root / "usr/lib/modules").glob("*/vmlinuz")]
    found = [kernel for kernel in map(kernel_at, files) if kernel and os.access(kernel.file, os.R_OK)]
    own = os.uname().release
    return sorted(found, key=lambda kernel: (kernel.modules.name == own, _numbers(kernel.modules.name)), reverse=True)


def _numbers(release: str) -> list[int]:
    return [int(number) for number in re.findall("[0-9]+", release)]


def modules(kernel: Kernel, names: Iterable[str]) -> dict[str, bytes]:
    """Modules by their names, each after those that it needs; what has no file is built into the kernel.

    Raises BackendUnavailable where they are packed by what is not read here.
    """
    files = _files(kernel)
    found = dict[str, bytes]()

    def add(name: str) -> None:
        path = files.get(name)
        if path is None or name in found:
            return
        content = _unpacked(path)
        for needed in _needed(content):
            add(needed)
        found[name] = content

    for name in names:
        add(name)
    return found


def lacking(kernel: Kernel, names: Iterable[str]) -> list[str]:
    """Modules that it neither brings nor has built in; [] of one that does not list what is built in."""
    listed = kernel.modules / "modules.builtin"
    if not listed.is_file():
        return []
    there = {*_files(kernel), *map(_name, map(Path, listed.read_text().split()))}
    return [name for name in names if name not in there]


def _files(kernel: Kernel) -> dict[str, Path]:
    return {_name(path): path for path in kernel.modules.rglob("*.ko*")}


def _name(module: Path) -> str:
    return module.name.partition(".")[0].replace("-", "_")


def _needed(module: bytes) -> list[str]:
    """By modinfo(8): a list with commas."""
    found = _DEPENDS.search(module)
    return [name.replace("-", "_") for name in found[1].decode().split(",") if name] if found else []


def _unpacked(path: Path) -> bytes:
    if path.suffix not in _READS:
        raise BackendUnavailable(
            f"{path} is packed by what is not read here ({path.suffix}): name a kernel whose modules are .ko, .ko.xz "
            "or .ko.gz by guest-kernel=FILE"
        )
    return _READS[path.suffix](path.read_bytes())


def unpacked_kernel(image: bytes) -> bytes:
    """The kernel itself, by which QEMU starts it at once: emulated, to unpack it is half of all until it runs.

    As it is where it is not packed by xz: docs.kernel.org/arch/x86/boot.html has the offsets.
    """
    if image[0x202:0x206] != b"HdrS":
        return image
    sectors, (offset, length) = image[0x1F1] or 4, struct.unpack_from("<II", image, 0x248)
    packed = image[(sectors + 1) * 512 + offset :][:length]
    return lzma.LZMADecompressor().decompress(packed) if packed.startswith(b"\xfd7zXZ") else image


def archive(files: Mapping[str, bytes], folders: Iterable[str]) -> bytes:
    """Programs by their paths, with the folders that they lie in, and empty folders, in the form "newc" of cpio.

    docs.kernel.org/driver-api/early-userspace/buffer-format.html has that.
    """
    parents = (str(each) for path in files for each in [*Path(path).parents][-2::-1])
    entries = [
        *((name, _FOLDER, b"") for name in dict.fromkeys([*folders, *parents])),
        *((name, _PROGRAM, held) for name, held in files.items()),
    ]
    packed = [_entry(number, *entry) for number, entry in enumerate(entries, 1)]
    return b"".join([*packed, _entry(0, "TRAILER!!!", 0, b"")])


def _entry(number: int, name: str, mode: int, held: bytes) -> bytes:
    path = name.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(held), 0, 0, 0, 0, len(path), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + path
    return _padded(head) + _padded(held)


def _padded(held: bytes) -> bytes:
    return held + bytes(-len(held) % 4)
