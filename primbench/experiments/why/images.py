"""Two images, the libraries of which are moved from one to the other file by file; what else differs is one thing more.

Both are folders of this machine. A library that the slow one maps is bound over that of the fast one, and the other way
round, with what it needs and the other has not.
"""

from __future__ import annotations

import filecmp
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench.environment.libraries import is_c_library, name_of
from primbench.errors import InvalidRequest
from primbench.experiments.why.frame import Frame
from primbench.runtimes.placed import inside
from primbench.spec.arm import is_folder
from primbench.spec.settings.libraries import called, in_words, needed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from primbench.environment.libraries import Library
    from primbench.spec.arm import Arm

_OF_C = re.compile(r"(lib(c|m|mvec|pthread|dl|rt|resolv|util|anl|nsl)|ld-[\w-]+)[.-].*")
_LIBRARY = re.compile(r"lib.+\.so.*")  # and not what belongs to a package


def are_images(fast: Arm, slow: Arm) -> bool:
    """Whether files of two images tell two places apart, so that these can be moved.

    Raises InvalidRequest where they are named, but are no folders here.
    """
    if (
        fast.runtime != slow.runtime
        or fast.is_far
        or fast.image == slow.image
        or fast.on_host_root
        or slow.on_host_root
    ):
        return False
    for arm in (fast, slow):
        if not is_folder(arm.image):
            raise InvalidRequest(
                f"{fast.name} and {slow.name}: image={arm.image} is no folder, whose files can be moved: unpack both, "
                "as by `docker export` or `podman export`, and name the folders, by runc, crun, charliecloud or "
                "apptainer"
            )
    return True


def of_images(fast: Arm, slow: Arm, mapped: Callable[[Arm], list[Library]]) -> Frame:
    """Each with its own libraries where both look for them. mapped: those of a worker in an arm.

    Raises InvalidRequest where no library is another, nor any setting.
    """
    sides = (_Side(fast, mapped(fast)), _Side(slow, mapped(slow)))
    matched = _matched(*sides)
    is_other_c = not _are_equal(*(side.here(side.c_library) for side in sides))
    pairs = [each for each in matched if _are_moved(each, sides, without_c=is_other_c)]
    if not pairs and replace(fast, image=slow.image, name=slow.name) == slow:
        raise InvalidRequest(
            f"{fast.name} and {slow.name}: the libraries that are mapped are the same files: what else their images "
            "differ in is not moved"
        )
    base, whole = (
        side.with_own(other, [(pair[number], [*dict.fromkeys(pair)]) for pair in pairs])
        for number, (side, other) in enumerate((sides, sides[::-1]))
    )
    left = {"the C library": "it, its loader and what comes with it belong together"} if is_other_c else {}
    return Frame(fast, slow, base, whole, left | _of_one_alone(sides, matched, (base, whole)))


def _of_one_alone(
    sides: tuple[_Side, _Side], matched: Sequence[tuple[str, str]], arms: tuple[Arm, Arm]
) -> dict[str, str]:
    """Libraries that one maps and the other does not, with that."""
    found = {side: side.alone([pair[number] for pair in matched], arms) for number, side in enumerate(sides)}
    return {", ".join(names): f"mapped in {side.arm.name} alone" for side, names in found.items() if names}


def _are_moved(pair: tuple[str, str], sides: tuple[_Side, _Side], *, without_c: bool) -> bool:
    is_of_c = any(_OF_C.fullmatch(os.path.basename(each)) for each in pair)
    fast, slow = (side.here(path) for side, path in zip(sides, pair, strict=True))
    return not (without_c and is_of_c) and not _are_equal(fast, slow)


class _Side:
    """A place by what it maps: paths in its image."""

    def __init__(self, arm: Arm, mapped: Sequence[Library]) -> None:
        self.arm, self._root = arm, Path(str(arm.image))
        self.c_library = next((each.path for each in mapped if is_c_library(each)), "")
        self.paths = [each.path for each in mapped if _LIBRARY.fullmatch(each.name) and inside(self._root, each.path)]
        self.named = {called(self.here(each)): self.here(each) for each in self.paths}

    def here(self, path: str) -> str:
        return str(self._root / path.lstrip("/"))

    def led_to(self, path: str) -> str | None:
        """What it maps where the path of another image leads here."""
        found = inside(self._root, path)
        return found if found in self.paths else None

    def alone(self, matched: Sequence[str], arms: Iterable[Arm]) -> list[str]:
        """Names of what it maps and the other does not, nor is moved with what needs it."""
        moved = ":".join(each for arm in arms for each in arm.libraries)
        left = (each for each in self.paths if each not in matched and self.here(each) not in moved)
        return [os.path.basename(each) for each in left]

    def with_own(self, other: _Side, libraries: Sequence[tuple[str, list[str]]]) -> Arm:
        """The place with its libraries as settings, each where both look for it, and with what the other has not."""
        alone = {name: file for name, file in self.named.items() if name not in other.named}
        files = [(at, self.here(path)) for path, at in libraries]
        own = [in_words(at, [file, *needed(file, alone)]) for at, file in files]
        return replace(self.arm, name=f"{self.arm.name} by libraries", libraries=(*self.arm.libraries, *own))


def _matched(fast: _Side, slow: _Side) -> list[tuple[str, str]]:
    """Those that are one library by name, else by where they are found."""
    found = dict[str, str]()
    for here, there in _candidates(fast, slow):
        if here and there and here not in found and there not in found.values():
            found[here] = there
    return [*found.items()]


def _candidates(fast: _Side, slow: _Side) -> Iterator[tuple[str | None, str | None]]:
    named = {name_of(path): path for path in slow.paths}
    yield from ((path, named.get(name_of(path))) for path in fast.paths)
    yield from ((path, slow.led_to(path)) for path in fast.paths)
    yield from ((fast.led_to(path), path) for path in slow.paths)


def _are_equal(one: str, other: str) -> bool:
    return os.path.isfile(one) and os.path.isfile(other) and filecmp.cmp(one, other, shallow=False)
