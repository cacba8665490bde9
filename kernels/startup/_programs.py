"""What the processes run. Each sets ``told``, a sentence on what it started."""

from __future__ import annotations

_PACKAGE = """
import {what} as package
told = f"{what} {{package.__version__}} of {{package.__path__[0]}}"
"""
_CONTEXT = """
import ctypes

def check(status):
    if status:
        raise OSError(f"{what}: status {{status}}")

def pointer():
    return ctypes.c_void_p()

driver, context, device = ctypes.CDLL("libcuda.so.1"), pointer(), ctypes.c_int()
check(driver.cuInit(0))
check(driver.cuDeviceGet(ctypes.byref(device), 0))
check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
check(driver.cuCtxSetCurrent(context))
number = ctypes.c_int()
check(driver.cuDriverGetVersion(ctypes.byref(number)))
told = f"CUDA driver {{number.value // 1000}}.{{number.value % 1000 // 10}}"
"""
_MEMORY = """
def ones(count):
    found = pointer()
    check(driver.cuMemAlloc_v2(ctypes.byref(found), ctypes.c_size_t(4 * count)))
    check(driver.cuMemsetD32_v2(found, 0x3F800000, ctypes.c_size_t(count)))
    return found

def expect(array, value):
    check(driver.cuCtxSynchronize())
    got = ctypes.c_float()
    check(driver.cuMemcpyDtoH_v2(ctypes.byref(got), array, ctypes.c_size_t(4)))
    if got.value != value:
        raise ArithmeticError(f"{what} gives {{got.value}} and not {{value}}")
"""
# The driver compiles it anew each time: CUDA_CACHE_DISABLE.
_COMPILE = """
ptx = b'''.version 6.0
.target sm_50
.address_size 64
.visible .entry ready(.param .u64 out) {{
    .reg .u64 %a;
    .reg .f32 %v;
    ld.param.u64 %a, [out];
    cvta.to.global.u64 %a, %a;
    ld.global.f32 %v, [%a];
    add.f32 %v, %v, 0f40000000;
    st.global.f32 [%a], %v;
    ret;
}}
'''
module, kernel, array = pointer(), pointer(), ones(1)
check(driver.cuModuleLoadData(ctypes.byref(module), ptx))
check(driver.cuModuleGetFunction(ctypes.byref(kernel), module, b"ready"))
arguments = (ctypes.c_void_p * 1)(ctypes.addressof(array))
check(driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, arguments, None))
expect(array, 3.0)
"""
_CUBLAS = """
library, handle, one, zero = ctypes.CDLL({library!r}), pointer(), ctypes.c_float(1), ctypes.c_float(0)
check(library.cublasCreate_v2(ctypes.byref(handle)))
a, b, c, n = ones(4096), ones(4096), ones(4096), ctypes.c_int(64)
check(library.cublasSgemm_v2(
    handle, 0, 0, n, n, n, ctypes.byref(one), a, n, b, n, ctypes.byref(zero), c, n,
))
expect(c, 64.0)
number = ctypes.c_int()
check(library.cublasGetVersion_v2(handle, ctypes.byref(number)))
told = f"cuBLAS {{number.value}} of {library}"
"""
_CUDNN = """
library, handle, one, zero = ctypes.CDLL({library!r}), pointer(), ctypes.c_float(1), ctypes.c_float(0)
check(library.cudnnCreate(ctypes.byref(handle)))
image, taps, how, ints = pointer(), pointer(), pointer(), ctypes.c_int
check(library.cudnnCreateTensorDescriptor(ctypes.byref(image)))
check(library.cudnnSetTensor4dDescriptor(image, 0, 0, 1, 16, 8, 8))
check(library.cudnnCreateFilterDescriptor(ctypes.byref(taps)))
check(library.cudnnSetFilter4dDescriptor(taps, 0, 0, 16, 16, 1, 1))
check(library.cudnnCreateConvolutionDescriptor(ctypes.byref(how)))
check(library.cudnnSetConvolution2dDescriptor(how, 0, 0, 1, 1, 1, 1, 1, 0))
x, w, y = ones(1024), ones(256), ones(1024)
check(library.cudnnConvolutionForward(
    handle, ctypes.byref(one), image, x, taps, w, how, 0, None, ctypes.c_size_t(0), ctypes.byref(zero), image, y,
))
expect(y, 16.0)
library.cudnnGetVersion.restype = ctypes.c_size_t
told = f"cuDNN {{library.cudnnGetVersion()}} of {library}"
"""
_BODIES = {
    "interpreter": "import sys\ntold = f'Python {{sys.version.split()[0]}} of {{sys.executable}}'\n",
    "context": _CONTEXT,
    "compile": _CONTEXT + _MEMORY + _COMPILE,
    "cublas": _CONTEXT + _MEMORY + _CUBLAS,
    "cudnn": _CONTEXT + _MEMORY + _CUDNN,
}
# A process says that it is ready before it ends, which takes a framework longer than much of what is started.
_READY = """
import time
begin_ns = time.monotonic_ns()
{body}
own_ns = time.monotonic_ns() - begin_ns
import os
os.write({pipe}, f"{{own_ns}} {{told}}".encode())
os._exit(0)
"""
_OPENED = """
{body}
import os, sys
paths = {{line[line.find("/"):] for line in open("/proc/self/maps") if "/" in line}}
for module in list(sys.modules.values()):
    paths |= {{str(getattr(module, "__dict__", {{}}).get(name)) for name in ("__file__", "__cached__")}}
with os.fdopen({pipe}, "wb") as pipe:
    pipe.write(b"\\0".join(os.fsencode(path.strip()) for path in paths))
os._exit(0)
"""


def ready(what: str, library: str | None, pipe: int) -> str:
    """A program that writes to a pipe, once ready, how many ns it took itself, and what it started."""
    return _READY.format(body=_body(what, library), pipe=pipe)


def opened(what: str, library: str | None, pipe: int) -> str:
    """A program that starts the same, and writes the files that it has opened to a pipe, each ended by a zero byte."""
    return _OPENED.format(body=_body(what, library), pipe=pipe)


def _body(what: str, library: str | None) -> str:
    return _BODIES.get(what, _PACKAGE).format(what=what, library=library)
