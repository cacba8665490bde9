"""Variables of the environment that libraries read: those of a worker are the same in every arm."""

from __future__ import annotations

import re

from primbench.spec.confidential import is_secret

_VARIABLE = re.compile(
    r"(ATEN|BLIS|CUBLAS|CUBLASLT|CUDA|CUDNN|CUPY|DNNL|FLEXIBLAS|GOMP|GOTO|KMP|MALLOC|MKL|NCCL|NPY|NUMBA|NUMEXPR|NUMPY"
    r"|NVIDIA|NVSHMEM|OMP|ONEDNN|OPENBLAS|PRIMBENCH|PYTORCH|TCMALLOC|TORCH|TORCHINDUCTOR|TRITON|UCX)_.+"
    r"|FLEXIBLAS|GLIBC_TUNABLES|LD_(AUDIT|BIND_NOT|BIND_NOW|DEBUG|DYNAMIC_WEAK|LIBRARY_PATH|PRELOAD|PROFILE)|LRU_CACHE_CAPACITY|THP_MEM_ALLOC_ENABLE"
    r"|PYTHON(ASYNCIODEBUG|DEBUG|DEVMODE|DONTWRITEBYTECODE|DUMPREFS|MALLOC|MALLOCSTATS|OPTIMIZE|PATH|PERFSUPPORT|PROFILEIMPORTTIME|PYCACHEPREFIX|TRACEMALLOC|VERBOSE)|PYTHON_(GIL|JIT)"
)


def is_for_libraries(name: str) -> bool:
    """Whether a variable is of those that libraries read, and no secret."""
    return _VARIABLE.fullmatch(name) is not None and not is_secret(name)
