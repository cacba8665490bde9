"""Kernels that torch.compile has generated: recorded as they are launched, and again launched from a file of theirs."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

import primbench
from primbench import Method, suites
from primbench.backends import missing
from primbench.decompose.compiled import texts
from primbench.decompose.written import beside
from primbench.errors import UnsupportedCase
from primbench.problem.generated import TEXTS, is_changed, is_output, parameters
from primbench.registry import add_file

if TYPE_CHECKING:
    from pathlib import Path

QUICK = Method(min_time_s=0.002, max_time_s=0.02)
TRITON = """
import triton
from torch._inductor.async_compile import AsyncCompile
async_compile = AsyncCompile()
before = 1
triton_poi_fused_relu_0 = async_compile.triton('triton_poi_fused_relu_0', '''
@triton.jit
def _triton_helper_fn_add0(arg0_0, arg1_0):
    return arg0_0 + arg1_0

@triton_heuristics.pointwise(size_hints={'x': 4096}, filename=__file__, triton_meta={'signature': {}})
@triton.jit
def triton_poi_fused_relu_0(in_out_ptr0, in_ptr0, out_ptr1, ks0, xnumel, XBLOCK : tl.constexpr):
    pass
''', device_str='cuda')
async_compile.wait(globals())
del async_compile
def call(args): pass
"""


def test_of_a_module_that_inductor_has_written_each_kernel_has_a_text_of_its_own(tmp_path: Path) -> None:
    """Of a GPU's, which needs none to be read."""
    (tmp_path / "module.py").write_text(TRITON)
    ((name, text),) = texts(str(tmp_path / "module.py")).items()
    assert "triton_poi_fused_relu_0" == name
    assert "before = 1" in text
    assert "def call" not in text
    assert text.endswith("async_compile.wait(globals())\n")
    assert ["in_out_ptr0", "in_ptr0", "out_ptr1", "ks0", "xnumel", "XBLOCK"] == parameters(text)
    assert ["in_out_ptr0"] == [each for each in parameters(text) if is_changed(each)]
    assert ["out_ptr1"] == [each for each in parameters(text) if is_output(each)]
    assert ["in_out_ptr0", "x"] == parameters('extern "C"  void  kernel(float* in_out_ptr0,\n   const int64_t x)')


@pytest.mark.wheel
@pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, by its own modules
@pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor compiles by g++ on a CPU")
def test_kernels_of_a_compiled_function_are_parts_that_nobody_runs_who_has_not_named_their_file(
    tmp_path: Path,
) -> None:
    import torch

    compiled = torch.compile(lambda x, y: ((x @ y).relu() + 1).sum(0), fullgraph=True)
    x, y = torch.randn(64, 32), torch.randn(32, 64)
    with torch.no_grad():
        compiled(x, y)
        with primbench.capture() as step:
            found = compiled(x, y)
    assert torch.allclose(found, ((x @ y).relu() + 1).sum(0), atol=1e-4)
    product, fused = step.calls
    assert ("mm", 0) == (product.name, step.compiled)
    assert fused.name.startswith("cpp_fused_")
    path = tmp_path / "step.toml"
    step.write(path)
    (part,) = [each.problem for each in suites.read(path) if each.problem.primitive == "aten"]
    with pytest.raises(UnsupportedCase, match="primbench --kernels STEP"):
        primbench.measure(part, "torch", "cpu", method=QUICK)
    add_file(beside(path))
    measured = primbench.measure(part, "torch", "cpu", method=QUICK)
    assert measured.verified is None
    assert measured.missing["verified"] == "torch.compile has fused it of several operators"
    assert torch.allclose(_launched(part, x @ y), found, atol=1e-4)
    TEXTS.clear()


def _launched(part: Any, product: Any) -> Any:
    """What the kernel makes of the product."""
    import torch

    from primbench.kernels.aten._call import Call

    given = {(64, 64): product.reshape(-1), (64,): torch.zeros(64)}
    call = Call(part.called, "cpu", [given[each.shape] for each in part.called.operands])
    call()
    return torch.from_numpy(call.outputs()[-1]).float()
