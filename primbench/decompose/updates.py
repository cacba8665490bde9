"""Updates that no optimizer of torch tells of: by hand, by an optimizer of one's own, or by torch.func.

A step lies between the beginnings of two backward passes that each follow an update: a write to what had gradients, or
new tensors in its place. Writes reach torch's dispatcher alone, so that the first passes are looked at until it is
known how many of them one update follows. From then on they are counted, and run as they do by themselves.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

from primbench.decompose.recording import as_compiled, sees_kernels
from primbench.decompose.reuse import made_of
from primbench.decompose.step_phases import is_in_backward

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class Updates:
    """Backward passes, and which of them begin after an update.

    passes: how many began by now. every: how many of them a step has; None is not known yet. are_seen: whether there
    are updates; where none was in as many passes as may be looked at, each pass counts as a step.
    """

    def __init__(self, most: int) -> None:
        """most: passes that may be looked at without an update."""
        self._most = most
        self.passes = self._since = 0
        self.every: int | None = None
        self.are_seen = False
        self._had_gradients: set[int] = set()  # addresses, of the passes since the last update
        self._first: set[int] = set()  # addresses that the first update has written
        self._by_shapes: dict[Any, set[int]] = {}  # addresses of the last pass of what has these shapes
        self._watched: Any = None

    @property
    def between(self) -> str:
        """What a step lies between, in words."""
        if self.are_seen:
            return "between the beginnings of two backward() that follow an update of what had gradients"
        return "between the beginnings of two backward(), none of which an update of parameters follows"

    def begin(self, leaves: Callable[[], Iterable[Any]]) -> bool:
        """A pass begins. leaves: what it gives gradients to. Whether it is the first one after an update."""
        is_first = self._since == self.every if self.every else self._is_after_update([*leaves()])
        self._since = 1 if is_first else self._since + 1
        self.passes += 1
        return is_first

    def look(self) -> None:
        """From the end of a pass to the beginning of the next one, at what is written."""
        if self.every is None and self._watched is None:
            self._watched = _watching_writes()
            self._watched.__enter__()

    def leave(self) -> set[int]:
        """Look no more. The addresses that were written."""
        watched, self._watched = self._watched, None
        if watched is None:
            return set()
        watched.__exit__(None, None, None)
        found: set[int] = watched.written
        return found

    def _is_after_update(self, leaves: list[Any]) -> bool:
        written = self.leave() & self._had_gradients
        addresses = {address for each in leaves for address in addresses_of(each)}
        is_new = self._is_replaced(leaves, addresses)
        is_update = bool(written & (self._first or written)) or is_new
        if is_update:
            if self.are_seen:
                self.every = self._since
            self.are_seen, self._first = True, self._first or written
            self._had_gradients = set()
        elif self._since >= self._most:
            self.every, self.are_seen = 1, False
        self._had_gradients |= addresses
        return is_update or self.every is not None

    def _is_replaced(self, leaves: list[Any], addresses: set[int]) -> bool:
        """Whether all of it is new since the last pass that had gradients of the same shapes."""
        shapes = tuple(sorted(tuple(map(int, each.shape)) for each in leaves))
        before, self._by_shapes[shapes] = self._by_shapes.get(shapes), addresses
        return bool(before) and addresses.isdisjoint(before or ()) and not self._first


@contextlib.contextmanager
def following_passes(begin: Callable[[Callable[[], Iterable[Any]]], None], end: Callable[[], None]) -> Iterator[None]:
    """Inside, begin(leaves) is called before each backward pass, and end() after it.

    One of torch.compile()'s own, or within another pass, is none.
    """
    import torch

    def followed(original: Any, leaves: Callable[..., Iterable[Any]]) -> Any:
        @functools.wraps(original)
        def call(*arguments: Any, **named: Any) -> Any:
            if torch.compiler.is_compiling() or is_in_backward():
                return original(*arguments, **named)
            begin(lambda: leaves(*arguments, **named))
            try:
                return original(*arguments, **named)
            finally:
                end()

        return call

    originals = torch.autograd.backward, torch.autograd.grad
    setattr(torch.autograd, "backward", followed(originals[0], _of_backward))  # noqa: B010 - mypy refuses assigning
    setattr(torch.autograd, "grad", followed(originals[1], _of_grad))  # noqa: B010
    try:
        yield
    finally:
        setattr(torch.autograd, "backward", originals[0])  # noqa: B010
        setattr(torch.autograd, "grad", originals[1])  # noqa: B010


def _of_backward(tensors: Any, *_: Any, inputs: Any = None, **__: Any) -> Iterator[Any]:
    return _tensors(inputs) if inputs is not None else _reached(_tensors(tensors))


def _of_grad(outputs: Any, inputs: Any, *_: Any, **__: Any) -> Iterator[Any]:
    return _tensors(inputs)


def _tensors(value: Any) -> Iterator[Any]:
    import torch

    several = [value] if isinstance(value, torch.Tensor) else value
    return (each for each in several if isinstance(each, torch.Tensor))


def _reached(outputs: Iterable[Any]) -> Iterator[Any]:
    """The leaves of the graph that autograd has of them."""
    ahead = [each.grad_fn for each in outputs if each.grad_fn is not None]
    seen = set(ahead)
    while ahead:
        node = ahead.pop()
        if (leaf := getattr(node, "variable", None)) is not None:
            yield leaf
        before = {each for each, _ in node.next_functions if each is not None} - seen
        seen |= before
        ahead += before


def addresses_of(tensor: Any) -> Iterator[int]:
    """Of the memory that a tensor stands for."""
    import torch

    return (
        address
        for each in made_of(tensor)
        if each.layout == torch.strided and (address := each.untyped_storage().data_ptr())
    )


def _watching_writes() -> Any:
    """A mode; its ``written`` are the addresses of all that operators write to."""
    from torch.utils._python_dispatch import TorchDispatchMode

    around = contextlib.ExitStack()

    class Writes(TorchDispatchMode):  # type: ignore[misc]
        supports_higher_order_operators = True
        ignore_compile_internals: Any = classmethod(sees_kernels)

        def __init__(self) -> None:
            super().__init__()
            self.written: set[int] = set()

        def __enter__(self) -> Any:
            around.enter_context(as_compiled())
            return super().__enter__()

        def __exit__(self, *raised: Any) -> None:
            super().__exit__(*raised)
            around.close()

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            for each in _written(func, args, kwargs):
                self.written.update(addresses_of(each))
            return func(*args, **kwargs)

    return Writes()


def _written(func: Any, args: Any, kwargs: Any) -> Iterator[Any]:
    """Those among its arguments that it writes to, as its schema says; of a higher-order operator none is known."""
    from primbench.decompose.reuse import tensors_in

    for number, each in enumerate(getattr(getattr(func, "_schema", None), "arguments", ())):
        if each.alias_info is not None and each.alias_info.is_write:
            yield from tensors_in(kwargs.get(each.name) if each.name in kwargs else args[number : number + 1])
