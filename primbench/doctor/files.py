"""Files: over which way data, packages and caches are read and kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.doctor.confinement import IN_LAYERS, NETWORK_LIKE
from primbench.doctor.finding import Finding, listed, unseen
from primbench.environment.filesystems import WORKING_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.doctor.finding import Part
    from primbench.doctor.place import Place

RANK = 7

ON_ROOT = " on /"


def filesystems(place: Place) -> Iterator[Finding]:
    """Whether data, packages or caches come over a network or through a program, or are lost with the container."""
    confinement = place.environment.confinement
    yield from unseen("filesystems", confinement, "filesystems")
    yield from _far_away(confinement.filesystems or {})
    if place.in_container:
        yield from _lost(place, confinement.filesystems or {})


def _far_away(found: dict[str, str]) -> Iterator[Finding]:
    """What is not on the disk of this machine; of / another check tells."""
    far = {
        what: where for what, where in found.items() if where.startswith(NETWORK_LIKE) and not where.endswith(ON_ROOT)
    }
    data: list[Part] = ["data loading"] if WORKING_FOLDER in far else []
    if far:
        yield Finding(
            check="filesystems",
            severity="warning",
            summary=f"{listed(list(far))}: each file that is opened is asked for over a network, or of another program",
            evidence=[f"{what}: {where} (/proc/self/mountinfo)" for what, where in far.items()],
            distorts=["start-up", *data],
            advice="copy what is read often to a local disk or a tmpfs; under WSL2, from /mnt into its own file system",
        )


def _lost(place: Place, found: dict[str, str]) -> Iterator[Finding]:
    """Caches in the layer that a container writes to."""
    caches = place.environment.software.caches
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
