"""Operators as torch dispatches them, recorded with their arguments. Nothing is timed meanwhile.

What torch.compile has compiled runs as it does by itself, its kernels recorded as they are launched. A torch before 2.9
takes no compiled code while a dispatch mode is on: there it runs as the operators that went into it. In inference_mode
an operator that is made of others arrives whole, and is taken apart here, unless its device has a kernel for it.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from typing import TYPE_CHECKING, Any

from primbench.decompose.compiled import following
from primbench.decompose.described import HIGHER_ORDER, described, is_of_torch, tree
from primbench.decompose.faults import fault_s
from primbench.decompose.helpers import following_helpers
from primbench.decompose.laps import lasting
from primbench.decompose.reuse import tensors_in, touched
from primbench.decompose.step_phases import StepPhases, compiled_graphs, is_in_backward
from primbench.decompose.written import CapturedStep
from primbench.problem.generated import GENERATED, digest, is_output, parameters
from primbench.problem.operands import Operand
from primbench.problem.operators import Call, Phase, Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from primbench.decompose.compiled import Launched

UNSEEN = ("profiler", "prim")  # namespaces of what computes nothing


@contextlib.contextmanager
def capture() -> Iterator[CapturedStep]:
    """``with primbench.capture() as step:`` records what torch does in it; then ``step.write("step.toml")``.

    One thread's operators, and those that autograd calls for it. The step should have run some times before, so that
    what is made once, such as an optimizer's state, is not in it.
    """
    step = CapturedStep()
    with recorder(step):
        yield step


def recorder(
    step: CapturedStep, is_apart: Callable[[], bool] = lambda: False, is_in_call: Callable[[], bool] = lambda: True
) -> Any:
    """A context in which calls are added to the step. is_apart: whether those of that moment are none of its own.
    is_in_call: whether a thread that the one that entered it starts at that moment computes for the step; one that is
    started in a backward pass always does.

    Its begin_module() is for who knows that one is called. Its abandon() is for another thread than the one that
    entered it, which has ended: a dispatch mode ends with it.
    """
    added, around = _Added(step, is_apart, is_in_call), contextlib.ExitStack()
    mode = _mode(added)

    class Recorder(mode):  # type: ignore[misc,valid-type]
        def begin_module(self) -> None:
            self.phases.begin()

        def __enter__(self) -> Any:
            if self.phases.follow():
                around.enter_context(_counting_replays(step))
                around.enter_context(as_compiled())
                around.enter_context(following(_launching(added, self.phases)))
                around.enter_context(following_helpers(step, added.is_its_own, mode))
            return super().__enter__()

        def __exit__(self, *raised: Any) -> None:
            super().__exit__(*raised)
            if self.phases.leave():
                self._close()
                _finish(step)

        def abandon(self) -> None:
            while not self.phases.leave():
                pass
            self._close()

        def _close(self) -> None:
            added.end()
            around.close()

    return Recorder()


def _mode(added: _Added) -> Any:
    """A kind of dispatch mode, each of one thread, in which calls are added."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):  # type: ignore[misc]
        ignore_compile_internals: Any = classmethod(sees_kernels)
        supports_higher_order_operators = True

        def __init__(self) -> None:
            super().__init__()
            self.phases = StepPhases()

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if not _are_plain(types):
                return NotImplemented  # tensors of a kind of their own call operators on what they are made of
            if func.namespace in UNSEEN or added.is_apart():
                return func(*args, **kwargs)
            whole = _taken_apart(self, func, args, kwargs)
            return _called(func, args, kwargs, added, self.phases) if whole is NotImplemented else whole

    return Mode


class _Added:
    """Calls of a step, which several threads may add until it is over, that are not apart from it."""

    def __init__(self, step: CapturedStep, is_apart: Callable[[], bool], is_in_call: Callable[[], bool]) -> None:
        self.step, self._is_apart, self._is_in_call = step, is_apart, is_in_call
        self._thread, self._one, self._is_over = threading.current_thread(), threading.Lock(), False

    def is_apart(self) -> bool:
        return self._is_over or self._is_apart()

    def is_its_own(self) -> bool:
        """Whether who asks computes for the step: the thread that entered it, in a call, or a backward pass."""
        is_own = threading.current_thread() is self._thread and self._is_in_call()
        return (is_own or is_in_backward()) and not self.is_apart()

    def add(self, call: Call) -> None:
        with self._one:
            if not self._is_over:
                self.step.calls.append(call)

    def end(self) -> None:
        with self._one:
            self._is_over = True


def _taken_apart(mode: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """What an operator that torch makes of others gives, these seen by the mode; NotImplemented where it is none."""
    if func.namespace == HIGHER_ORDER or _has_nested([*args, *kwargs.values()]):
        return NotImplemented
    on_gpu = any(each.is_cuda for each in tensors_in([*args, *kwargs.values()]))
    if _has_kernel(func, "CUDA" if on_gpu else "CPU"):  # which runs, though the operator could be made of others
        return NotImplemented
    with mode:
        return _of_others(func, args, kwargs)


def _has_kernel(func: Any, key: str) -> bool:
    """Whether torch has one for what it dispatches by this key."""
    import torch

    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key))  # noqa: SLF001


def _of_others(func: Any, args: Any, kwargs: Any) -> Any:
    """By what runs where no mode looks on, before what Python knows to be the same."""
    import torch

    implicit = torch._C.DispatchKey.CompositeImplicitAutograd  # noqa: SLF001
    if _has_kernel(func, implicit.name):
        return func._op_dk(implicit, *args, **kwargs)  # noqa: SLF001
    return func.decompose(*args, **kwargs)


def _called(func: Any, args: Any, kwargs: Any, added: _Added, phases: StepPhases) -> Any:
    tensors = [*tensors_in([*args, *kwargs.values()])]
    call = described(
        func, args, kwargs, phases.now(func.name(), tensors)
    )  # before it is called: it may change what it is given
    if is_of_torch(call):
        result = func(*args, **kwargs)
    else:  # this may be all that there is ever to know of it
        result, seconds = lasting(lambda: func(*args, **kwargs))
        call = call._replace(seconds=seconds)
    call = call if call.host_only else _touching(call, tensors, result)
    if call.touched and not call.touched.made and not _are_plain(map(type, tensors_in(result))):
        call = call._replace(host_only=True)  # a tensor of a kind of its own around what was given
    added.add(call)
    return result


def _are_plain(types: Iterable[type]) -> bool:
    """Whether none is of tensors that are made of others."""
    import torch

    return all(each in (torch.Tensor, torch.nn.Parameter) for each in types)


def _launching(added: _Added, phases: StepPhases) -> Launched:
    """Has a launch of a generated kernel recorded, unless it is none of the step's own."""
    from torch.utils._python_dispatch import _disable_current_modes

    def launched(name: str, text: str, arguments: tuple[Any, ...], launch: Callable[[], Any]) -> Any:
        with _disable_current_modes():
            if not added.is_apart():
                added.add(_launch(added.step, name, text, arguments, phases.now()))
            return launch()

    return launched


def _launch(step: CapturedStep, name: str, text: str, arguments: tuple[Any, ...], phase: Phase) -> Call:
    """Of what a kernel writes without reading it, what was there says nothing."""
    named = digest(text)
    step.generated[named] = text
    tensors: list[Any] = []
    given = [tree(each, tensors) for each in arguments]
    for number, parameter in enumerate(parameters(text)[: len(given)]):
        if is_output(parameter) and isinstance(given[number], Operand):
            given[number] = given[number]._replace(values="")
    return _touching(Call(f"{GENERATED}.{name}.{named}", given, {}, phase), [*tensors_in([*arguments])], [])


@contextlib.contextmanager
def outlasting_inference() -> Iterator[None]:
    """Inside, a recorder that was entered or left within torch.inference_mode is on or off after it, too.

    At its end inference_mode puts back whether operators reached a mode at its beginning, not which modes there are:
    one that began within would see nothing more, and without the one that ended within torch would fail.
    """
    import torch

    original = torch.inference_mode.__exit__
    keys = torch._C.DispatchKey.Python, torch._C.DispatchKey.PythonTLSSnapshot  # noqa: SLF001

    @functools.wraps(original)
    def leave(mode: Any, *raised: Any) -> None:
        original(mode, *raised)
        has_modes = torch._C._len_torch_dispatch_stack() > 0  # noqa: SLF001
        for key in keys:
            torch._C._dispatch_tls_set_dispatch_key_included(key, has_modes)  # noqa: SLF001

    torch.inference_mode.__exit__ = leave
    try:
        yield
    finally:
        torch.inference_mode.__exit__ = original


def _touching(call: Call, given: list[Any], result: Any) -> Call:
    import torch

    device = "cuda" if torch.cuda.is_initialized() else "cpu"  # whose caches are meant
    return call._replace(touched=touched(given, tensors_in(result), device))


def _has_nested(arguments: Iterable[Any]) -> bool:
    """Nested tensors have no sizes, without which nothing that is given them can be taken apart."""
    return any(
        _has_nested(each) if isinstance(each, list | tuple) else getattr(each, "is_nested", False) for each in arguments
    )


def _finish(step: CapturedStep) -> None:
    import torch

    step.torch, step.threads = str(torch.__version__), torch.get_num_threads()
    on_gpu, ranks = torch.cuda.is_initialized(), 1
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        ranks = torch.distributed.get_world_size()
    step.settings = Settings(
        on_gpu=on_gpu,
        tf32_gemm=on_gpu and _allows_tf32(torch.backends.cuda.matmul),
        tf32_conv=on_gpu and _allows_tf32(torch.backends.cudnn),
        cudnn_benchmark=on_gpu and torch.backends.cudnn.benchmark,
        ranks=ranks,
    )
    step.compiled = 0 if sees_kernels() else compiled_graphs()
    step.fault_s = None if on_gpu else fault_s()


def _allows_tf32(library: Any) -> bool:
    """Where a script has set fp32_precision, torch refuses to tell by the older name."""
    try:
        return bool(library.allow_tf32)
    except RuntimeError:
        return str(getattr(library, "fp32_precision", "")) == "tf32"


@contextlib.contextmanager
def _counting_replays(step: CapturedStep) -> Iterator[None]:
    """Of CUDA graphs, of which no operator reaches the dispatcher."""
    import torch

    original = torch.cuda.CUDAGraph.replay

    def replay(graph: Any) -> None:
        step.cuda_graphs += 1
        original(graph)

    torch.cuda.CUDAGraph.replay = replay
    try:
        yield
    finally:
        torch.cuda.CUDAGraph.replay = original


def as_compiled() -> contextlib.AbstractContextManager[object]:
    """Nothing is compiled while a step is recorded. A torch that takes no compiled code meanwhile would refuse what was
    compiled with fullgraph=True.
    """
    set_stance = getattr(sys.modules.get("torch._dynamo"), "set_stance", None)  # since torch 2.6
    try:
        return set_stance("eager_on_recompile" if sees_kernels() else "force_eager") if set_stance else _NOTHING
    except RuntimeError:  # a function that is compiled has called what begins a step
        return _NOTHING


_NOTHING = contextlib.nullcontext()


def sees_kernels(*_: object) -> bool:
    """Whether compiled code runs in a dispatch mode, as since torch 2.9."""
    from torch.utils._python_dispatch import TorchDispatchMode

    return hasattr(TorchDispatchMode, "ignore_compile_internals")
