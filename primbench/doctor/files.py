"""Files: over which way data, packages and caches are read and kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.doctor.confinement import IN_LAYERS
from primbench.doctor.finding import Finding, listed, unseen
from primbench.environment.bytecode import KEPT
from primbench.environment.filesystems import NETWORK_LIKE, WORKING_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.doctor.finding import Activity
    from primbench.doctor.place import Place

RANK = 7

ON_ROOT = " on /"
LOST = "lost with the container"
COMPILING = """python3 -m compileall -q "$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')\""""


def filesystems(place: Place) -> Iterator[Finding]:
    """Whether data, packages or caches come over a network or through a program, or are lost with the container."""
    confinement = place.environment.confinement
    yield from unseen("filesystems", confinement, "filesystems")
    yield from _far_away(confinement.filesystems or {})
    yield from _far_mounts(confinement.far_mounts or {})
    if place.in_container:
        yield from _lost(place, confinement.filesystems or {})


def _far_away(found: dict[str, str]) -> Iterator[Finding]:
    """What is not on the disk of this machine; of / another check tells."""
    far = {
        what: where for what, where in found.items() if where.startswith(NETWORK_LIKE) and not where.endswith(ON_ROOT)
    }
    data: list[Activity] = ["data loading"] if WORKING_FOLDER in far else []
    if far:
        yield Finding(
            check="filesystems",
            severity="warning",
            summary=f"{listed(list(far))}: each file that is opened is asked for over a network, or of another program",
            evidence=[f"{what}: {where} (/proc/self/mountinfo)" for what, where in far.items()],
            distorts=["start-up", *data],
            advice="copy what is read often to a local disk or a tmpfs; under WSL2, from /mnt into its own file system",
        )


def _far_mounts(found: dict[str, str]) -> Iterator[Finding]:
    if found:
        yield Finding(
            check="filesystems",
            severity="note",
            summary=f"what lies on {listed(list(found))} comes over a network, or from another program: a model "
            "mapped into memory from there is read page by page",  # Comfy-Org/ComfyUI#2288, sgl-project/sglang#7469
            evidence=[f"{point}: {kind} (/proc/self/mountinfo)" for point, kind in found.items()],
            distorts=["start-up", "data loading"],
            advice="read large files there as a whole, not by a memory map, or copy them to a local disk first",
        )


def _lost(place: Place, found: dict[str, str]) -> Iterator[Finding]:
    """Caches in the layer that a container writes to."""
    caches = place.environment.software.caches or {}
    lost = [
        name
        for name, state in caches.items()
        if state == "writable" and found.get(name, "").startswith(IN_LAYERS) and found[name].endswith(ON_ROOT)
    ]
    if lost:
        yield Finding(
            check="filesystems",
            severity="note",
            summary=f"{listed(lost)}: kept in the container's own layer, and compiled anew in the next container",
            evidence=[f"{name}: {found[name]} (/proc/self/mountinfo)" for name in lost],
            distorts=["start-up"],
            advice=place.advice(
                "mount a folder that lasts, and let CUDA_CACHE_PATH and its like name it",
                engine="-v $HOME/.nv:/root/.nv",
            ),
        )


def bytecode(place: Place) -> Iterator[Finding]:
    """Whether modules are compiled at each start: no .pyc came with them, and none is kept."""
    yield from unseen("bytecode", place.environment.software, "uncompiled")
    anew = _compiled_anew(place)
    if anew:
        yield Finding(
            check="bytecode",
            severity="note" if set(anew.values()) == {LOST} else "warning",
            summary=f"no .pyc files of {listed(list(anew))}: each start compiles them, and may take many times as long",
            evidence=[f"__pycache__ of {name}: {how}" for name, how in anew.items()],
            distorts=["start-up"],
            at_most=8.0,  # 15.5 s in place of 7.1: topoteretes/cognee#3051; `import numpy` alone 4.7 times as long
            advice="compile when the image is built (python -m compileall, without PYTHONDONTWRITEBYTECODE there)",
            fix=[COMPILING],
        )


def _compiled_anew(place: Place) -> dict[str, str]:
    """Package -> why its .pyc files are not there the next time."""
    python = (place.environment.confinement.filesystems or {}).get("Python", "")
    in_layer = place.in_container and python.startswith(IN_LAYERS)
    found = place.environment.software.uncompiled or {}
    return {name: LOST if how == KEPT else how for name, how in found.items() if how != KEPT or in_layer}


def io_uring(place: Place) -> Iterator[Finding]:
    """Whether files may be read by io_uring, which default profiles of containers refuse."""
    confinement = place.environment.confinement
    yield from unseen("io-uring", confinement, "io_uring")
    if confinement.io_uring not in (None, "allowed"):
        yield Finding(
            check="io-uring",
            severity="note",
            summary=f"io_uring is refused ({confinement.io_uring}): what reads files by it falls back to slower calls",
            evidence=["io_uring_setup()", f"seccomp: {confinement.seccomp or 'unknown'}, kernel.io_uring_disabled"],
            distorts=["data loading"],
            advice=place.advice(
                "allow it (sysctl kernel.io_uring_disabled=0)", engine="--security-opt seccomp=PROFILE that allows it"
            ),
        )
