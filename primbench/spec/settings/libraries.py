"""Settings of libraries: files of this machine that are found before others, or that are seen in their places."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from primbench.errors import InvalidRequest
from primbench.spec.setting import OF_FILES, ON_CPU, PlacedFile, Setting
from primbench.spec.settings.variables import is_said
from primbench.spec.values import path, write_names
from primbench.system import elf
from primbench.system.files import attempt

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from primbench.spec.setting import SeenByWorker

SEARCHED = "LD_LIBRARY_PATH"
_PATH = r"/[^,:@\s\0]+"  # libstdc++.so.6 has a plus in its name
_LIBRARY = re.compile(rf"(lib[^,:@/\s\0]+|{_PATH}(:{_PATH})*)@{_PATH}(:{_PATH})*")
_BETWEEN = re.compile(r"\+(?=(?:lib|/)[^+]*@)")


def _libraries(text: str) -> tuple[str, ...]:
    """Libraries, each with its file and what that needs. Raises InvalidRequest."""
    if "@" not in text:
        return tuple(in_words((name,), files) for name, files in _of_folder(path(text)).items())
    found = _BETWEEN.split(text)
    if wrong := [each for each in found if not _LIBRARY.fullmatch(each)]:
        raise InvalidRequest(f"{wrong[0]!r}: a name, such as libm.so.6, or a path, an @ and a file of it in full")
    return tuple(found)


def in_words(at: Sequence[str], files: Sequence[str]) -> str:
    """A library as an arm has it. at: its name, or paths in full where it is seen. files: it, then what it needs."""
    return f"{':'.join(at)}@{':'.join(files)}"


def called(file: str) -> str:
    """The name by which others ask for a library."""
    told = _linked(file)
    return (told and told.name) or os.path.basename(file)


def _linked(file: str) -> elf.Dynamic | None:
    return attempt({}, "", lambda: elf.linked(Path(file)))


def needed(file: str, of: Mapping[str, str]) -> list[str]:
    """What a library needs, and that, and so on, of those that there are. of: name -> file."""
    found, left = [file], {name: each for name, each in of.items() if each != file}
    for each in found:
        told = _linked(each)
        found += [left.pop(name) for name in (told.needed if told else ()) if name in left]
    return found[1:]


def _of_folder(folder: str) -> dict[str, list[str]]:
    """The libraries of a folder by the names that they are asked for by, each with what it needs of the others.

    Raises InvalidRequest where there is none.
    """
    files = sorted(each for each in Path(folder).glob("*.so*") if elf.is_elf(each))
    named = {called(str(each)): str(each) for each in files}
    if not named:
        raise InvalidRequest("no library lies there: name a folder of such, or NAME@FILE for one")
    return {name: [file, *needed(file, named)] for name, file in named.items()}


def _parts(library: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Where it is seen, and its file with those that it needs."""
    at, _, files = library.partition("@")
    return tuple(at.split(":")), tuple(files.split(":"))


def _at_of(library: str) -> str:
    return library.partition("@")[0]


def _placed(libraries: Sequence[str]) -> Iterator[PlacedFile]:
    """What one of them needs comes before others by its name, unless another of that name is asked for."""
    asked = {*map(_at_of, libraries)}
    for at, files in map(_parts, libraries):
        yield PlacedFile(files[0], at)
        yield from (PlacedFile(each, (called(each),)) for each in files[1:] if called(each) not in asked)


def _said_by_path(found: tuple[str, ...], arm: Any) -> str | None:
    places = [each for library in found for each in _parts(library)[0]]
    if twice := [each for each in places if places.count(each) > 1]:
        return f"libraries: {twice[0]} is given twice"
    if is_said(SEARCHED, arm):
        return f"libraries with another setting of {SEARCHED}: both say what is loaded; leave one out"
    return None


def _another(asked: tuple[str, ...], found: dict[str, list[Any]], seen: SeenByWorker) -> str | None:
    """Of those that are mapped at all: a library that nobody asks for is none. Paths are as links lead."""
    mapped = [file for files in found.values() for file in files]
    for at, (file, *_) in map(_parts, asked):
        there = [each for each in mapped if _is_called(each.name, at)]
        if there and not any(_is_same(file, each) for each in mapped):
            return str(there[0].path)
    return None


def _is_called(name: str, at: Sequence[str]) -> bool:
    """Whether a file's name is that of one of these, with a version behind it or without."""
    return any(f"{name}.".startswith(f"{os.path.basename(each)}.") for each in at)


def _is_same(file: str, mapped: Any) -> bool:
    """By its build, else its size."""
    build_id = attempt({}, "", lambda: elf.build_id(Path(file)))
    return bool(build_id == mapped.build_id and (build_id or os.path.getsize(file) == mapped.size_bytes))


ROWS = (
    Setting(
        "libraries", "libraries", tuple[str, ...],
        "Libraries of another place on this machine: NAME@FILE before others, PATH@FILE in place of the one there, "
        "what it needs after a colon; a folder alone is all that lie there.",
        "libm.so.6@/srv/other/lib/libm.so.6", parse=_libraries, write=write_names, default=(),
        named=_at_of, check=_said_by_path, files=_placed,
        shows=(("software", "libraries"),), unlike=_another,
        mend="what loads it may name its folder by itself: PATH@FILE puts it in place",
        moves=(*ON_CPU, *OF_FILES), programs=bool,
    ),
)  # fmt: skip
