"""Arguments of an operator as text: JSON, in which a string is a tensor, and what JSON has not is an object of one key.

A tensor is its type and shape, ``float32[64,3,224,224]``; then, where they say something,

- ``@1,64``: strides in elements, where it is not contiguous;
- ``+``: no element is below zero;
- ``=0,3,1``: all its whole numbers; ``:0..50256~3911``: the least, the most and how many different ones there are;
  below zero is the least alone, as the index that a loss ignores; ``<`` after it: none is below the one before it, as
  where groups begin; of truth values ``:0.25`` is the share that is true, of
  a mask as many as it selects.

``cpu:`` before it is a tensor on the host beside others on a GPU. ``{"same": 0}`` is the first tensor once more.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench.errors import InvalidField

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np

    from primbench.problem import Array

ML_DTYPES = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
FLOATS = ("float64", "float32", "float16", *ML_DTYPES)
COMPLEX = ("complex64", "complex128")
WHOLE = ("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64")
DTYPES = (*FLOATS, *COMPLEX, *WHOLE, "bool")
TAGS = ("str", "dtype", "layout", "memory_format", "device", "float", "complex", "same", "object")
_NUMBERS = r"(?:\d{1,20}(?:,\d{1,20})*)?"  # int() refuses thousands of digits
_TEXT = re.compile(
    rf"(?P<host>cpu:)?(?P<dtype>[a-z0-9_]+)\[(?P<shape>{_NUMBERS})\](?:@(?P<strides>{_NUMBERS}))?"
    r"(?P<values>\+|[=:][-\d.,~e]+<?)?",
    re.ASCII,
)
_LIST = re.compile(r"=-?\d{1,20}(,-?\d{1,20})*")
_SHARE = re.compile(r":\d+(\.\d+)?(e-?\d+)?")
_RANGE = re.compile(r":(-?\d{1,20})\.\.(-?\d{1,20})~(\d{1,20})(<?)")
MOST_ELEMENTS = 2**40
MOST_COUNTED = 2**24  # truth values of which as many are true as are to be


class Operand(NamedTuple):
    """A tensor."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """Steps between its elements along each axis, in elements."""
    values: str = ""
    """Its values as the text has them."""
    on_host: bool = False
    """Whether it is on the host, beside others on a GPU."""

    @property
    def text(self) -> str:
        strides = "" if self.strides == contiguous(self.shape) else f"@{_listed(self.strides)}"
        return f"{'cpu:' * self.on_host}{self.dtype}[{_listed(self.shape)}]{strides}{self.values}"

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def extent(self) -> int:
        """Elements from the first to the last in memory, both included."""
        if not self.elements:
            return 0
        return 1 + sum((length - 1) * stride for length, stride in zip(self.shape, self.strides, strict=True))

    @property
    def extent_bytes(self) -> int:
        return self.extent * numpy_dtype(self.dtype).itemsize

    def array(self, rng: np.random.Generator) -> Array:
        """[extent]: what lies in memory, alike in what ``values`` says; or fewer elements, to repeat there."""
        import numpy as np

        from primbench.random import POOL_SIZE, random_array

        drawn_count = min(self.extent, POOL_SIZE)
        if self.dtype == "bool":
            share = float(self.values[1:]) if self.values.startswith(":") else 0.5
            count = self.extent if self.extent <= MOST_COUNTED else drawn_count
            found: Array = rng.permutation(count) < round(share * count)
            return found
        if self.dtype in COMPLEX:
            parts = random_array(rng, (2 * drawn_count,), "float64")
            return parts.view(np.complex128).astype(self.dtype)
        if self.dtype in WHOLE:
            return self._whole(rng, drawn_count)
        drawn = random_array(rng, (drawn_count,), "float64" if self.dtype == "float64" else "float32")
        return (np.abs(drawn) if self.values == "+" else drawn).astype(numpy_dtype(self.dtype))

    def _whole(self, rng: np.random.Generator, drawn_count: int) -> Array:
        import numpy as np

        if self.values.startswith("="):
            listed = np.array([int(each) for each in self.values[1:].split(",")], np.object_).astype(self.dtype)
            found: Array = np.zeros(self.extent, self.dtype)
            view = np.lib.stride_tricks.as_strided(
                found, self.shape, [stride * found.itemsize for stride in self.strides]
            )
            view[...] = listed.reshape(self.shape)
            return found
        said = _RANGE.fullmatch(self.values)
        least, most, kinds = map(int, said.groups()[:3]) if said else (0, 1, 2)
        if said and said[4]:
            return _ascending(rng, (least, most), kinds, self.extent).astype(self.dtype)
        if least < 0 <= most:
            several = np.append(_spread(rng, 0, most, max(1, kinds - 1)), least)
        else:
            several = _spread(rng, least, most, kinds)
        return several[rng.integers(0, len(several), drawn_count)].astype(self.dtype)


def _spread(rng: np.random.Generator, least: int, most: int, kinds: int) -> Array:
    """So many different ones."""
    found: Array = least + rng.permutation(min(kinds, most - least + 1)) * max(1, (most - least) // max(1, kinds - 1))
    return found


def _ascending(rng: np.random.Generator, ends: tuple[int, int], kinds: int, count: int) -> Array:
    """Each about as often, from the least to the most: the last one may say how long another tensor is."""
    import numpy as np

    several = np.sort(_spread(rng, *ends, kinds))
    several[-1] = ends[1]
    found: Array = several[np.arange(count) * len(several) // max(1, count)]
    return found


def _listed(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of an array whose last axis is the nearest; torch counts an empty axis as one element."""
    lengths = [max(length, 1) for length in shape[:0:-1]]
    return tuple(itertools.accumulate(lengths, lambda a, b: a * b, initial=1))[::-1] if shape else ()


def numpy_dtype(name: str) -> np.dtype[Any]:
    import numpy as np

    if name not in ML_DTYPES:
        return np.dtype(name)
    import ml_dtypes

    found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return found


def operand(text: str) -> Operand:
    """Raises InvalidField for what is none."""
    found = _TEXT.fullmatch(text)
    if found is None or found["dtype"] not in DTYPES:
        raise InvalidField(f"tensor {text[:80]!r}: written as float32[64,128], its type one of {', '.join(DTYPES)}")
    shape, strides = _numbers(found["shape"]), _numbers(found["strides"] or "")
    if found["strides"] is None:
        strides = contiguous(shape)
    tensor = Operand(found["dtype"], shape, strides, found["values"] or "", found["host"] is not None)
    if misfit := _misfit(tensor):
        raise InvalidField(f"tensor {text[:80]!r}: {misfit}")
    return tensor


def _misfit(tensor: Operand) -> str:
    """Why there can be no such tensor, else ""."""
    if len(tensor.strides) != len(tensor.shape):
        return f"{len(tensor.strides)} strides, and its shape has {len(tensor.shape)} axes"
    if max(tensor.elements, tensor.extent) > MOST_ELEMENTS:
        return f"takes the memory of {max(tensor.elements, tensor.extent)} elements, {MOST_ELEMENTS} are the most"
    return _misfit_of_values(tensor) if tensor.values else ""


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(",") if each)


def _misfit_of_values(tensor: Operand) -> str:
    if tensor.dtype == "bool":
        return "" if _SHARE.fullmatch(tensor.values) else "of truth values only their share is said, as :0.25"
    if tensor.dtype in WHOLE:
        return _misfit_of_list(tensor) if tensor.values.startswith("=") else _misfit_of_range(tensor)
    if tensor.dtype not in FLOATS:
        return f"nothing is said of values of {tensor.dtype}"
    return "" if tensor.values == "+" else f"of {tensor.dtype} nothing is said but +: that none is below zero"


def _misfit_of_list(tensor: Operand) -> str:
    if not _LIST.fullmatch(tensor.values):
        return "all values are written as =0,3,1"
    listed = _numbers(tensor.values[1:])
    if len(listed) != tensor.elements:
        return f"{len(listed)} values, and its shape has {tensor.elements} elements"
    return _beyond(tensor.dtype, min(listed), max(listed))


def _misfit_of_range(tensor: Operand) -> str:
    found = _RANGE.fullmatch(tensor.values)
    if found is None:
        return "values are written as =0,3,1, or as :0..9~5, of which there are five"
    least, most, kinds = map(int, found.groups()[:3])
    if not least <= most < 2**63:
        return f"{least} is more than {most}" if least > most else f"{most} takes more than 63 bits"
    if not 1 <= kinds <= max(1, tensor.elements):
        return f"{kinds} different values, and its shape has {tensor.elements} elements"
    return _beyond(tensor.dtype, least, most)


def _beyond(dtype: str, least: int, most: int) -> str:
    lowest, highest = _limits(dtype)
    return "" if lowest <= least <= most <= highest else f"{dtype} holds {lowest} to {highest}"


def _limits(dtype: str) -> tuple[int, int]:
    """The least and the most that a type of whole numbers holds."""
    bits = int(dtype.removeprefix("u").removeprefix("int"))
    return (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def read(text: str, kind: type) -> Any:
    """The tree of arguments in a text, each tensor an Operand. Raises InvalidField for what is none.

    kind: list or dict, what it is to be.
    """
    try:
        tree = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidField(f"arguments {text[:80]!r}: not JSON: {error}") from None
    if type(tree) is not kind:
        noun = "a list" if kind is list else "an object"
        raise InvalidField(f"arguments {text[:80]!r}: {noun} in JSON")
    return {name: _node(each) for name, each in tree.items()} if isinstance(tree, dict) else _node(tree)


def _refuse_constant(text: str) -> None:
    raise ValueError(f'{text} is written as {{"float": "{text.lower()}"}}')


def _node(node: Any) -> Any:
    if isinstance(node, str):
        return operand(node)
    if isinstance(node, list):
        return [_node(each) for each in node]
    if isinstance(node, dict) and (len(node) != 1 or next(iter(node)) not in TAGS):
        raise InvalidField(f"argument {str(node)[:80]}: an object has one key, of {', '.join(TAGS)}")
    return node


def written(tree: Any) -> str:
    """The text of such a tree."""
    return json.dumps(_texts(tree))


def _texts(tree: Any) -> Any:
    if isinstance(tree, Operand):
        return tree.text
    if isinstance(tree, dict):
        return {name: each if name in TAGS else _texts(each) for name, each in tree.items()}
    return [_texts(each) for each in tree] if isinstance(tree, list) else tree


def operands(tree: Any) -> Iterator[Operand]:
    """Its tensors, in the order of the text."""
    if isinstance(tree, Operand):
        yield tree
    elif isinstance(tree, list):
        for each in tree:
            yield from operands(each)
    elif isinstance(tree, dict):
        for each in tree.values():
            yield from operands(each)


def ones(tree: Any) -> Any:
    """The tree with 1 in place of each number but 0."""
    if isinstance(tree, list):
        return [ones(each) for each in tree]
    return type(tree)(1) if type(tree) in (int, float) and tree else tree


def replaced(tree: Any, tensor: Callable[[Operand], Any], other: Callable[[str, Any], Any]) -> Any:
    """The tree with what takes the place of each tensor and of each object: ``other(key, value)``."""
    if isinstance(tree, Operand):
        return tensor(tree)
    if isinstance(tree, list):
        return [replaced(each, tensor, other) for each in tree]
    if isinstance(tree, dict):
        ((key, value),) = tree.items()
        return other(key, value)
    return tree
