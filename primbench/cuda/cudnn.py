"""What every use of cuDNN shares: the library, a handle a stream, its errors, its objects. By ctypes; cuDNN 9.

Values and signatures are those of cudnn_graph.h and cudnn_ops.h, cuDNN 9.19. Enumerations and other C ints go as
plain ints; anything wider must come with its type.
"""

from __future__ import annotations

import ctypes
import functools
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p
from typing import TYPE_CHECKING, Any

from primbench.cuda import cublaslt, libraries
from primbench.errors import PrimbenchError, UnsupportedCase

if TYPE_CHECKING:
    from primbench.devices import Device

# cudnnDataType_t
DATA_TYPE = {"float32": 0, "float64": 1, "float16": 2, "int8": 3, "int32": 4, "bfloat16": 9}
# cudnnMathType_t: tensor cores on inputs as they are, not at all.
TENSOR_OP_MATH, FMA_MATH = 1, 3

_MESSAGE_BYTES = 1024
_REFUSED = 3000  # CUDNN_STATUS_NOT_SUPPORTED and, up to 3999, its reasons


class CudnnError(PrimbenchError):
    """A call failed; the message is ``function: CUDNN_STATUS_NAME: what the library said of it``."""


class CudnnRefusal(UnsupportedCase):
    """A call returned CUDNN_STATUS_NOT_SUPPORTED or a reason for it; the message is as CudnnError's."""


@functools.cache
def library() -> Any:
    """Raises UnsupportedCase where there is none, or no cuBLASLt: cuDNN ends the process when it misses that one."""
    cublaslt.load()
    found: Any = libraries.first_loadable("cudnn", ("libcudnn.so.9",))
    if found is None:
        raise UnsupportedCase("cuDNN: no libcudnn.so.9 was found: pip install nvidia-cudnn-cu13 (or -cu12)")
    found.cudnnGetVersion.restype = c_size_t
    found.cudnnGetErrorString.restype = c_char_p
    found.cudnnGetLastErrorString.restype = None
    return found


def version() -> str:
    """The library's version, such as "9.19.1". Raises UnsupportedCase where there is no library."""
    number = library().cudnnGetVersion()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def call(function: str, *arguments: Any) -> None:
    """Call a function that returns a status. Raises CudnnRefusal or CudnnError where it is not success."""
    check(getattr(library(), function)(*arguments), function)


def check(status: int, what: str) -> None:
    """Raises CudnnRefusal or CudnnError, with ``what`` in front, for a status other than success."""
    if status:
        raise failure(status, what)


def failure(status: int, what: str) -> CudnnError | CudnnRefusal:
    """The error that a status other than 0 stands for."""
    name: bytes = library().cudnnGetErrorString(status)
    said = ctypes.create_string_buffer(_MESSAGE_BYTES)
    library().cudnnGetLastErrorString(said, c_size_t(_MESSAGE_BYTES))
    message = ": ".join(part for part in (what, name.decode(), " ".join(said.value.decode().split())) if part)
    return CudnnRefusal(message) if status // 1000 * 1000 == _REFUSED else CudnnError(message)


class Object:
    """An object of the library, destroyed with this one; it stands for its pointer as an argument of a call.

    kind: the noun of cudnnCreate... and cudnnDestroy..., as in "TensorDescriptor".
    """

    def __init__(self, kind: str) -> None:
        self._as_parameter_ = c_void_p()
        self._destroy = getattr(library(), f"cudnnDestroy{kind}")
        call(f"cudnnCreate{kind}", byref(self._as_parameter_))

    def __del__(self) -> None:
        if self._as_parameter_:
            self._destroy(self._as_parameter_)


@functools.cache
def handle(stream_handle: int, device: Device) -> c_void_p:
    """The one of a stream and process. ``device`` must be the current CUDA device: a handle belongs to it.

    It is never destroyed, as torch's are not: at the end of a process the driver may be gone before it.
    """
    made = c_void_p()
    call("cudnnCreate", byref(made))
    call("cudnnSetStream", made, c_void_p(stream_handle))
    return made


def tensor(dtype: str, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> Object:
    """A tensor descriptor of 3 to 8 axes; strides in elements, default those of a C-contiguous array."""
    count = len(shape)
    sizes = (c_int * count)(*shape)
    steps = (c_int * count)(*(strides or contiguous(shape)))
    made = Object("TensorDescriptor")
    call("cudnnSetTensorNdDescriptor", made, DATA_TYPE[dtype], count, sizes, steps)
    return made


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements of a C-contiguous array."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))
