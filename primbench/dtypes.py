"""The storage types primbench knows: their size, rounding error and NumPy type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.errors import InvalidRequest

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

ITEMSIZE_BYTES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3": 1,
    "int32": 4,
    "int8": 1,
}

SHORT_NAMES = {
    "fp64": "float64",
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp8": "float8_e4m3",
    "double": "float64",
    "float": "float32",
    "half": "float16",
}
"""What people and papers call them -> the name here."""

# Unit roundoff u = 2^-p, p the significand's bits with the hidden one (IEEE 754-2019 table 3.5;
# bfloat16 p=8; e4m3 p=4, Micikevicius et al. 2022, arXiv 2209.05433). Integers are exact.
UNIT_ROUNDOFF = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
    "float8_e4m3": 2.0**-4,
    "int32": 0.0,
    "int8": 0.0,
}

TF32_ROUNDOFF = 2.0**-11
"""Of float32 in that math mode: 10 stored significand bits (NVIDIA A100 whitepaper, "TF32")."""

# The smallest normal number, below which rounding errors grow no smaller (IEEE 754-2019 table 3.5).
SMALLEST_NORMAL = {"float32": 2.0**-126, "float16": 2.0**-14, "bfloat16": 2.0**-126}


def rounding(dtype: str, size: Array) -> Array:
    """Most by which numbers of this size are off once they are rounded to the dtype, or 0 where they are 0.

    u |x|, and u times the smallest normal number where |x| is less (Higham 2002, Accuracy and Stability of Numerical
    Algorithms, 2nd ed., section 2.1: fl(x) = x (1 + d) + e).
    """
    import numpy as np

    magnitude = np.abs(size)
    return UNIT_ROUNDOFF[dtype] * np.where(magnitude > 0, np.maximum(magnitude, SMALLEST_NORMAL.get(dtype, 0.0)), 0.0)


_ML_DTYPES = {"bfloat16": "bfloat16", "float8_e4m3": "float8_e4m3fn"}


def full_name(word: str) -> str:
    """The name here of what people call a dtype; any other word as it is. Raises InvalidRequest for a math mode."""
    if word == "tf32":
        raise InvalidRequest("tf32: stored as float32, and a math mode of it: --dtype float32 --math-mode tf32")
    return SHORT_NAMES.get(word.lower(), word)


def itemsize_bytes(dtype: str) -> int:
    """Bytes of one element."""
    return ITEMSIZE_BYTES[known(dtype)]


def known(dtype: str) -> str:
    """``dtype`` itself. Raises InvalidRequest, naming those there are, for another word."""
    if dtype not in ITEMSIZE_BYTES:
        raise InvalidRequest(f"dtype {dtype!r}: primbench knows {', '.join(ITEMSIZE_BYTES)}")
    return dtype


def numpy_dtype(dtype: str) -> np.dtype[np.generic]:
    """The NumPy type; bfloat16 and float8_e4m3 come from ml_dtypes."""
    import numpy as np

    if known(dtype) not in _ML_DTYPES:
        return np.dtype(dtype)
    import ml_dtypes

    found: np.dtype[np.generic] = np.dtype(getattr(ml_dtypes, _ML_DTYPES[dtype]))
    return found


def poison_host(array: Array) -> None:
    """NaN in floats, the smallest value in integers: an element that is never written shows."""
    import numpy as np

    array.fill(np.iinfo(array.dtype).min if array.dtype.kind == "i" else np.nan)
