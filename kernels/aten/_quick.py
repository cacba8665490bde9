"""The way into an operator that costs least: torch's own function of its name, which reads arguments in C++.

torch.ops takes about 4 us more for each call on a CPU of 2021, which a step does not spend: its operators are called by
such functions, and by autograd from C++.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def quickest(operator: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """A function whose call with these arguments is the same call of the operator; itself where there is none.

    It is called some times to find out, and changes what it changes.
    """
    import torch

    if getattr(operator, "namespace", "") != "aten":
        return operator
    expected = _reaches(operator, arguments, keywords)
    name = operator._schema.name.partition("::")[2]  # noqa: SLF001 - nothing public tells
    for owner in (torch._C._VariableFunctions, torch._C._nn, torch.Tensor):  # noqa: SLF001
        found = getattr(owner, name, None)
        if found is not None and expected is not None and _are_same(_reaches(found, arguments, keywords), expected):
            return found
    return operator


def _reaches(function: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any]) -> list[Any] | None:
    """The operators that a call ends in, each followed by what it is given; None where it takes no such arguments."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_flatten

    seen: list[Any] = []

    class Seen(TorchDispatchMode):  # type: ignore[misc]
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            """No: torch would import torch.compile, for over a second, to leave alone what nobody compiles here."""
            return False

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            leaves, shape = tree_flatten((args, kwargs or {}))
            seen.extend([func, str(shape), *leaves])
            return func(*args, **(kwargs or {}))

    try:
        with Seen():
            function(*arguments, **keywords)
    except (TypeError, RuntimeError, ValueError, IndexError):  # whatever torch says of it, it says again when measured
        return None
    return seen


def _are_same(found: Sequence[Any] | None, expected: Sequence[Any]) -> bool:
    """Numbers as they are: 2 is another argument than 2.0."""
    if found is None or len(found) != len(expected):
        return False
    return all(
        one is other or (type(one) is type(other) and isinstance(one, int | float | str | bool) and one == other)
        for one, other in zip(found, expected, strict=True)
    )
