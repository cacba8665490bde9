"""Files: over which way data, packages and caches are read and kept, and how far ahead of what is read in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.causes import OF_FILES
from primbench.causes._job_disks import is_blocked, reads_little_ahead, waits_for_disk
from primbench.causes.confinement import IN_LAYERS
from primbench.doctor.cause import Cause, Finding, Suspect, listed, of
from primbench.environment.bytecode import KEPT
from primbench.environment.disks import USUAL_BYTES
from primbench.environment.filesystems import NETWORK_LIKE, WORKING_FOLDER, is_on_root, kind_of
from primbench.system.meaning import FactId
from primbench.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.compare.beside import Beside
    from primbench.doctor.place import Place
    from primbench.results.record import Record
    from primbench.spec.setting import Activity

RANK = 7

LOST = "lost with the container"
COMPILING = """python3 -m compileall -q "$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')\""""


def filesystems(place: Place) -> Iterator[Finding]:
    """Whether data, packages or caches come over a network or through a program, or are lost with the container."""
    yield from _far_away(place, place.confinement.filesystems or {})
    yield from _far_mounts(place, place.confinement.far_mounts or {})
    if place.in_container:
        yield from _lost(place, place.confinement.filesystems or {})


def _far_away(place: Place, found: dict[str, str]) -> Iterator[Finding]:
    """What is not on the disk of this machine; of / another check tells."""
    far = {what: where for what, where in found.items() if where.startswith(NETWORK_LIKE) and not is_on_root(where)}
    data: list[Activity] = ["data loading"] if WORKING_FOLDER in far else []
    if far:
        yield Finding(
            summary=f"{listed(list(far))}: each file that is opened is asked for over a network, or of another program",
            values=[*far],
            evidence=[f"{what}: {where} ({place.proc}/mountinfo)" for what, where in far.items()],
            distorts=["start-up", *data],
            advice="copy what is read often to a local disk or a tmpfs; under WSL2, from /mnt into its own file system",
        )


def _far_mounts(place: Place, found: dict[str, str]) -> Iterator[Finding]:
    if found:
        yield Finding(
            severity="note",
            summary=f"what lies on {listed(list(found))} comes over a network, or from another program: a model "
            "mapped into memory from there is read page by page",  # Comfy-Org/ComfyUI#2288, sgl-project/sglang#7469
            about=[FactId("confinement", "far_mounts")],
            values=[*found],
            evidence=[f"{point}: {kind} ({place.proc}/mountinfo)" for point, kind in found.items()],
            advice="read large files there as a whole, not by a memory map, or copy them to a local disk first",
        )


def _lost(place: Place, found: dict[str, str]) -> Iterator[Finding]:
    """Caches in the layer that a container writes to."""
    caches = place.software.caches or {}
    lost = [
        name
        for name, state in caches.items()
        if state == "writable" and found.get(name, "").startswith(IN_LAYERS) and is_on_root(found[name])
    ]
    if lost:
        yield Finding(
            severity="note",
            summary=f"{listed(lost)}: kept in the container's own layer, and compiled anew in the next container",
            values=[*lost],
            evidence=[f"{name}: {found[name]} ({place.proc}/mountinfo)" for name in lost],
            distorts=["start-up"],
            advice=place.advice(
                "mount a folder that lasts, and let CUDA_CACHE_PATH and its like name it",
                engine="-v $HOME/.nv:/root/.nv",
            ),
        )


def bytecode(place: Place) -> Iterator[Finding]:
    """Whether modules are compiled at each start: no .pyc came with them, and none is kept."""
    anew = _compiled_anew(place)
    if anew:
        yield Finding(
            severity="note" if set(anew.values()) == {LOST} else "warning",
            summary=f"no .pyc files of {listed(list(anew))}: each start compiles them, and may take many times as long",
            values=[*anew],
            evidence=[f"__pycache__ of {name}: {how}" for name, how in anew.items()],
            at_most=8.0,  # 15.5 s in place of 7.1: topoteretes/cognee#3051; `import numpy` alone 4.7 times as long
            advice="compile when the image is built (python -m compileall, without PYTHONDONTWRITEBYTECODE there)",
            fix=[COMPILING],
        )


def _compiled_anew(place: Place) -> dict[str, str]:
    """Package -> why its .pyc files are not there the next time."""
    python = (place.confinement.filesystems or {}).get("Python", "")
    in_layer = place.in_container and python.startswith(IN_LAYERS)
    found = place.software.uncompiled or {}
    return {name: LOST if how == KEPT else how for name, how in found.items() if how != KEPT or in_layer}


def on_other_files(beside: Beside) -> Iterator[Suspect]:
    """Where a case itself says that its files are of another kind of file system, or its program another one."""
    problem, sides = beside.problem, (beside.baseline, beside.side)
    if problem is None or not (problem.work == "data loading" or "execve" in problem.system_calls()):
        return
    one, other = (_kinds_of(beside.records(each)) for each in sides)
    if one and other and one != other:
        words = [" or ".join(sorted(each)) for each in (other, one)]
        told = f"other files: {words[0]} in {beside.side.name}, {words[1]} in {beside.baseline.name}"
        yield Suspect(told, title="other files", upstream=0)


def _kinds_of(records: Sequence[Record]) -> set[str]:
    """What the case was done with, without where that is mounted."""
    found = [each.measurement.algorithm for each in records if each.measurement and each.measurement.algorithm]
    return set(map(kind_of, found))


def io_uring(place: Place) -> Iterator[Finding]:
    """Whether files may be read by io_uring, which default profiles of containers refuse."""
    if place.confinement.io_uring not in (None, "allowed"):
        yield Finding(
            severity="note",
            summary=f"io_uring is refused ({place.confinement.io_uring}): what reads files by it falls back to slower "
            "calls",
            values=[str(place.confinement.io_uring)],
            evidence=[
                "io_uring_setup()",
                f"seccomp: {place.confinement.seccomp or 'unknown'}, kernel.io_uring_disabled",
            ],
            advice=place.advice(
                "allow it (sysctl kernel.io_uring_disabled=0)", engine="--security-opt seccomp=PROFILE that allows it"
            ),
        )


def read_ahead(place: Place) -> Iterator[Finding]:
    """Whether the kernel reads as far ahead as it does unless told otherwise, on the disks that are used."""
    little: dict[tuple[str, int], list[str]] = {}
    for what, ahead_bytes in (place.confinement.read_ahead_bytes or {}).items():
        if ahead_bytes < USUAL_BYTES:
            little.setdefault(((place.confinement.disks or {}).get(what, "a disk"), ahead_bytes), []).append(what)
    for (disk, ahead_bytes), folders in little.items():
        yield Finding(
            summary=f"{disk} is read {format_bytes(ahead_bytes)} ahead at most: what is mapped or read by small pieces "
            f"there is asked for so ({listed(folders)})",
            values=[disk, ahead_bytes],
            evidence=[f"read_ahead_kb of {disk}; Linux's own choice is {format_bytes(USUAL_BYTES)}"],
            at_most=100.0,
            advice="on the host, as root, let it be read further ahead; see which profile or rule set it (tuned, udev)",
            fix=[f"blockdev --setra 256 /dev/{disk}"] * (not disk.startswith(NETWORK_LIKE)),
        )


CAUSES = (
    Cause("files", title="other file systems", slows=OF_FILES, times=100.0,
          source="3.3 GB/s to 90 MB/s (microsoft/WSL#4197), 1 s to 50 s by mmap over a network "
          "(Comfy-Org/ComfyUI#2288)",
          upstream=8, refuses=r"Read-only file system|No space left on device|Input/output error|Stale file handle",
          effect="what is read and kept there takes another way", between=on_other_files),
    Cause("filesystems", under="files", slows=OF_FILES, reads=of("confinement", "filesystems"), here=filesystems),
    Cause("io-uring", title="io_uring refused", under="files", refuses=r"io_uring",
          effect="what reads files by it falls back to slower calls", slows=("data loading",),
          calls=("io_uring_enter",), reads=of("confinement", "io_uring"), here=io_uring),
    Cause("access-times", title="other access times", slows=OF_FILES, a_file_s=4e-6,
          source="timed: reading 200 files of 4 KiB took 0.8 us longer for each", upstream=9,
          effect="that a file was read is noted in it, each time or once a day"),
    Cause("long-path", title="another way to temporary files", slows=("data loading",), a_file_s=1e-6, by_each=True,
          source="timed: 30 folders and links took 22 us longer for each file, which was looked up twice", upstream=9,
          effect="each file is looked up by all names on its way"),
    Cause("bytecode", title="other bytecode of modules", slows=("start-up",), times=10.0,
          source="15.5 s to 7.1 s once it is kept (topoteretes/cognee#3051); NumPy: 4.9 times", upstream=11.5,
          explains_away=("bytecode",), effect="Python compiles modules anew, or reads them from another place",
          reads=of("software", "uncompiled"), here=bytecode),
    Cause("disk", slows=OF_FILES, explains_away=("launches",), in_job=waits_for_disk),
    Cause("blocked", slows=OF_FILES, explains_away=("launches",), in_job=is_blocked),
    Cause("read-ahead", title="another read-ahead of disks", slows=OF_FILES, times=100.0,
          source="timed: a file that is mapped takes 16 times as long by 16 KiB as by 2.5 MiB, 69 times by none",
          upstream=8, explains_away=("disk",), effect="what is read in turn is asked of the disk in other pieces",
          reads=of("confinement", "read_ahead_bytes"), here=read_ahead, in_job=reads_little_ahead),
)  # fmt: skip
