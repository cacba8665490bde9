"""The primbench that is running, as a wheel again."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import importlib.resources
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from primbench.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

_OF_THE_INSTALLATION = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}
_OLDEST_OF_ZIP = (1980, 1, 1, 0, 0, 0)


def installed() -> importlib.metadata.Distribution:
    """Raises InvalidRequest where this is a bare folder of code, of which nothing tells what it needs."""
    for found in importlib.metadata.distributions(name="primbench"):
        if found.read_text("WHEEL") is not None and found.files is not None:
            return found
    raise InvalidRequest(
        f"primbench runs from {importlib.resources.files('primbench')} and is not installed: an image needs its "
        "metadata: run `pip install -e .` where its pyproject.toml is"
    )


def pack_wheel(distribution: importlib.metadata.Distribution, folder: Path) -> Path:
    """The code that is running as a wheel again, from an editable install, too.

    The same code gives the same bytes, so that a builder's cache knows them.
    """
    wheel = folder / f"primbench-{distribution.version}-py3-none-any.whl"
    record = f"primbench-{distribution.version}.dist-info/RECORD"
    lines = []
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, source in sorted(_contents(distribution)):
            held = source.read_bytes()
            _add(archive, name, held)
            digest = base64.urlsafe_b64encode(hashlib.sha256(held).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(held)}\n")
        _add(archive, record, "".join([*lines, f"{record},,\n"]).encode())
    return wheel


def _add(archive: zipfile.ZipFile, name: str, held: bytes) -> None:
    entry = zipfile.ZipInfo(name, _OLDEST_OF_ZIP)
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, held, zipfile.ZIP_DEFLATED)


def _contents(distribution: importlib.metadata.Distribution) -> set[tuple[str, Path]]:
    """What a wheel of primbench holds, each by its name there."""
    found = dict(_files("primbench", importlib.resources.files("primbench")))
    for file in distribution.files or []:
        if file.parts[0].endswith(".dist-info") and file.name not in _OF_THE_INSTALLATION:
            found[str(file)] = Path(str(file.locate()))
    return set(found.items())


def _files(name: str, folder: Traversable) -> Iterator[tuple[str, Path]]:
    for each in folder.iterdir():
        if each.is_file():
            yield f"{name}/{each.name}", Path(str(each))
        elif each.name != "__pycache__":
            yield from _files(f"{name}/{each.name}", each)
