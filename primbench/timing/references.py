"""References that were computed once, in a folder that lasts as long as a study, for the arms that see it.

A file is whole and of this study or it is none: it ends with a BLAKE2 of all before it, by a key that only the workers
of the study are told (RFC 7693), and it begins with what it is the reference of. Who finds none computes it.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import time
from typing import TYPE_CHECKING, Any

import msgspec

from primbench import __version__
from primbench.errors import OutputError
from primbench.measurement.outputs import Checked
from primbench.problem import Reference
from primbench.system import outputs
from primbench.system.inputs import opened

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from primbench.problem import Array, Exact, Problem

MOST_BYTES = 32 << 20  # of a file
MOST_OF_ALL_BYTES = 256 << 20  # temporary folders may be in memory
READ_BYTES_PER_S = 0.5e9  # and checked: what is computed in less time is not kept
_MAC_BYTES = 32


class ReferenceFolder(msgspec.Struct, frozen=True, kw_only=True):
    """Where a study keeps its references."""

    path: str
    key: str
    """In hexadecimal digits; another one for each study."""

    def reference_of(self, problem: Problem, seed: int, make: Callable[[], Reference | Exact]) -> Reference | Exact:
        """What is kept of a problem with the inputs of a seed, else what make() gives, which is kept from now on."""
        of = _identity(problem, seed)
        path = os.path.join(self.path, f"{hashlib.blake2b(of, digest_size=16).hexdigest()}.reference")
        with contextlib.suppress(OSError, ValueError, msgspec.MsgspecError):
            return self._read(path, of)
        started = time.perf_counter()
        found = make()
        if isinstance(found, Reference):
            self._keep(path, of, found, time.perf_counter() - started)
        return found

    def _read(self, path: str, of: bytes) -> Reference:
        """Raises one of those errors where there is none, or what is there is not to be believed."""
        with opened(path) as file:
            content = file.read(MOST_BYTES + 1)
        told, mac = content[:-_MAC_BYTES], content[-_MAC_BYTES:]
        head, _, rest = told.partition(b"\n")
        if len(content) > MOST_BYTES or mac != self._mac(told) or msgspec.json.decode(head, type=_Head).of != of:
            raise ValueError(path)
        return _decoded(msgspec.json.decode(head, type=_Head), rest)

    def _keep(self, path: str, of: bytes, found: Reference, took_s: float) -> None:
        """Where that is worth its bytes, there is room, and the folder is there and may be written to."""
        try:
            head, arrays = _encoded(of, found)
        except TypeError:
            return
        size = sum(each.nbytes for each in arrays)
        if size > min(MOST_BYTES - len(head) - 1 - _MAC_BYTES, took_s * READ_BYTES_PER_S):
            return
        with contextlib.suppress(OSError, OutputError):
            if size + sum(each.stat().st_size for each in os.scandir(self.path)) <= MOST_OF_ALL_BYTES:
                told = b"".join([head, b"\n", *(each.tobytes() for each in arrays)])
                outputs.write(path, told + self._mac(told))

    def _mac(self, told: bytes) -> bytes:
        return hashlib.blake2b(told, key=bytes.fromhex(self.key), digest_size=_MAC_BYTES).digest()


class KnownOfCase(msgspec.Struct, frozen=True, kw_only=True):
    """What the check of a case need not find out again."""

    outputs: list[Checked] = []
    """Those that earlier processes of the arm have compared with the reference."""
    references: ReferenceFolder | None = None
    """Where arms of this machine find those that were made, and keep theirs; None: nowhere."""

    def reference_of(self, problem: Problem, seed: int, make: Callable[[], Reference | Exact]) -> Reference | Exact:
        """The reference of a problem with the inputs of a seed."""
        return self.references.reference_of(problem, seed, make) if self.references else make()


NOTHING_KNOWN = KnownOfCase()
"""Of a case that no process has run before."""


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    """What a file says before its arrays."""

    of: bytes
    """What it is the reference of."""
    index: Any
    """The index, as _told() has it."""
    arrays: list[tuple[str, list[int]]]
    """Type and shape of each, the index's last."""


def _identity(problem: Problem, seed: int) -> bytes:
    """All that the inputs and the reference follow from; NumPy's generators may change with its version."""
    import numpy as np

    fields = [__version__, np.__version__, problem.primitive, problem.parameters(), seed]
    return msgspec.json.encode(fields, order="deterministic")


def _encoded(of: bytes, found: Reference) -> tuple[bytes, list[Array]]:
    """Raises TypeError for an index that cannot be written down."""
    import numpy as np

    arrays = [np.ascontiguousarray(each, "<f8") for each in (found.expected, found.scale)]
    index = _told(found.index, arrays)
    kinds = [(each.dtype.str, list(each.shape)) for each in arrays]
    return msgspec.json.encode(_Head(of=of, index=index, arrays=kinds)), arrays


def _told(index: Any, arrays: list[Array]) -> Any:
    """An index in words: of an array its number."""
    import numpy as np

    if index is ...:
        return "..."
    if isinstance(index, tuple):
        return {"tuple": [_told(each, arrays) for each in index]}
    if isinstance(index, slice):
        return {"slice": [index.start, index.stop, index.step]}
    if isinstance(index, np.ndarray) and index.dtype.kind in "iu":
        arrays.append(np.ascontiguousarray(index))
        return {"array": len(arrays) - 1}
    raise TypeError(type(index))


def _decoded(head: _Head, rest: bytes) -> Reference:
    """Raises ValueError where the bytes are not those that the head tells of."""
    import numpy as np

    arrays, start = [], 0
    for kind, shape in head.arrays:
        count = math.prod(shape)
        arrays.append(np.frombuffer(rest, kind, count, start).reshape(shape))
        start += arrays[-1].nbytes
    return Reference(_index(head.index, arrays), arrays[0], arrays[1])


def _index(told: Any, arrays: Sequence[Array]) -> Any:
    if told == "...":
        return ...
    ((kind, value),) = told.items()
    if kind == "tuple":
        return tuple(_index(each, arrays) for each in value)
    return slice(*value) if kind == "slice" else arrays[value]
