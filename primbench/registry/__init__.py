"""What primitives and kernels there are, by name; what defines them is imported when it is asked for."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

from primbench.errors import FileError, InvalidRequest, UnsupportedCase, near
from primbench.registry import sources

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from primbench.problem import Problem, Setup, Value
    from primbench.problem.operators import Rule

_OPERATORS = ".operators"
_named: dict[str, str] = {}  # path -> SHA-256


def add_file(path: str, sha256: str | None = None) -> None:
    """Import a file that defines primitives or kernels: ``--kernels FILE.py``.

    path: is made absolute, and passed on to workers. sha256: what the file is to hold, where another process named it.
    Raises FileError where it cannot be read, imported, is another, or defines nothing.
    """
    try:
        path = os.path.abspath(path)
    except FileNotFoundError:
        raise FileError(f"--kernels {path}: the folder that this was started in is not there any more") from None
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):  # a pipe would be waited for
        raise FileError(f"--kernels {path}: no regular file")
    found = _sha256(path)
    if sha256 not in (None, found):
        raise FileError(f"--kernels {path}: the file of this name is another one here")
    if _named.get(path) == found:
        return
    from contextlib import redirect_stdout

    with redirect_stdout(sys.stderr):  # an export may go to stdout
        has_defined = _import(f"--kernels {path}", lambda: sources.import_file(path))
    if not has_defined:
        raise FileError(
            f"--kernels {path}: defines no primitive (a subclass of Problem), no kernel (@kernel) and no Network"
        )
    _named[path] = found


def named_files() -> dict[str, str]:
    """Path -> SHA-256 of the files added, which a worker is to add, too."""
    return dict(_named)


def _sha256(path: str) -> str:
    import hashlib

    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError as error:
        raise FileError(f"--kernels {path}: {error.strerror}") from None


def _import(source: str, load: Callable[[], object]) -> bool:
    """Whether it defined anything. Raises FileError where it cannot be imported, or defines what is there already.

    What it defined by then is taken back.
    """
    from primbench.problem import KERNELS, PROBLEMS
    from primbench.problem.generated import TEXTS
    from primbench.problem.network import NETWORKS
    from primbench.registry import networks as shipped

    problems, kernels, networks, texts = set(PROBLEMS), set(KERNELS), set(NETWORKS), set(TEXTS)
    try:
        load()
        new = (PROBLEMS.keys() - problems) | {primitive for primitive, *_ in KERNELS.keys() - kernels}
        for primitive in new & sources.folders().keys():
            _load_folder(primitive)  # so that a definition that exists twice is found now
        for name in PROBLEMS.keys() - problems:
            _refuse_unfinished(PROBLEMS[name])
        shipped.refuse_again(NETWORKS.keys() - networks)
        for primitive, *_ in KERNELS.keys() - kernels:
            _refuse_unknown(primitive)
    except (Exception, SystemExit) as error:
        _take_back(PROBLEMS, problems)
        _take_back(KERNELS, kernels)
        _take_back(NETWORKS, networks)
        for each in TEXTS.keys() - texts:
            del TEXTS[each]
        raise FileError(f"{source}: cannot be imported: {type(error).__name__}: {error}") from error
    return bool(new or NETWORKS.keys() - networks or TEXTS.keys() - texts)


def _refuse_unknown(primitive: str) -> None:
    """Raises TypeError for a kernel that nothing would ever call."""
    from primbench.problem import PROBLEMS

    known = {*PROBLEMS, *sources.folders()}
    if primitive not in known:
        raise TypeError(f"kernel for {primitive!r}: {near(primitive, known)}no primitive of this name is known")


def _refuse_unfinished(problem: type[Problem]) -> None:
    """Raises TypeError for a primitive of which no problem could be made."""
    missing = [f"{name}()" for name in sorted(problem.__abstractmethods__)]
    if missing:
        raise TypeError(f"{problem.__name__} has no {', '.join(missing)}, which every primitive has")


def _take_back(defined: dict[Any, Any], before: set[Any]) -> None:
    """What primbench itself defined meanwhile stays: it is not imported a second time."""
    for key in defined.keys() - before:
        if not defined[key].__module__.startswith((f"{sources.PACKAGE}.", "primbench.suites.")):
            del defined[key]


@functools.cache
def _load_others() -> None:
    """Import what does not tell what it defines before it is imported.

    An installed package that cannot be imported is left out, with a line that says so: nobody may have asked for it.
    """
    for name in sources.files():
        importlib.import_module(name)
    for each in sources.installed():
        package = each.dist.name if each.dist else "?"
        try:
            _import(f"{sources.GROUP} of the installed package {package}, {each.value}", each.load)
        except FileError as error:
            import logging  # takes a few milliseconds

            logging.getLogger(__name__).warning("left out: %s", " ".join(str(error).splitlines()))


@functools.cache
def _load_folder(primitive: str) -> None:
    """All but its operators, which are asked for where a step is taken apart: they define no kernel."""
    for name in sources.modules_in(primitive):
        if not name.endswith(_OPERATORS):
            importlib.import_module(name)


def summaries() -> dict[str, str]:
    """Primitive -> what it computes in a line, in alphabetical order. Imports nothing from the folders in kernels/."""
    _load_others()
    others = {name: (cls.__doc__ or "").strip().partition("\n")[0] for name, cls in _defined().items()}
    return dict(sorted((others | {name: folder.summary for name, folder in sources.folders().items()}).items()))


def _defined() -> dict[str, type[Problem]]:
    """Primitives defined by what is imported by now; none before primbench.problem is, which listing does without."""
    module = sys.modules.get("primbench.problem")
    return module.PROBLEMS if module else {}


def primitives() -> dict[str, type[Problem]]:
    """Every primitive by name, in alphabetical order."""
    return {name: problem_class(name) for name in summaries()}


def problem_class(primitive: str) -> type[Problem]:
    """The class of a primitive. Raises InvalidRequest naming those there are."""
    if (found := _defined().get(primitive)) is not None:  # asked of every record of a file, again and again
        return found
    from primbench.problem import PROBLEMS

    if primitive not in PROBLEMS and sources.has_folder(primitive):
        importlib.import_module(f"{sources.PACKAGE}.{primitive}")
    if primitive not in PROBLEMS:
        known = summaries()
        if primitive not in known:
            raise InvalidRequest(f"primitive {primitive!r}: {near(primitive, known)}there are {', '.join(known)}")
    return PROBLEMS[primitive]


def backends_of(primitive: str) -> list[str]:
    """Names of the backends that have a kernel for a primitive. Imports nothing from the folders in kernels/."""
    return sorted({backend for backend, _ in _kernels_of(primitive)})


def kernels_of(primitive: str, backend: str) -> list[str]:
    """Names of the kernels that a backend has for a primitive, "" first. Imports nothing from the folders."""
    return sorted(name for there, name in _kernels_of(primitive) if there == backend)


def _kernels_of(primitive: str) -> set[tuple[str, str]]:
    """Backends, each with the name of a kernel."""
    _load_others()
    module = sys.modules.get("primbench.problem")
    found = {(backend, name) for of, backend, name in module.KERNELS if of == primitive} if module else set()
    return found | sources.kernels_in(primitive) if primitive in sources.folders() else found


def setup_of(primitive: str, backend: str, name: str = "") -> Setup:
    """The setup function of a kernel. Raises UnsupportedCase naming the backends, or the kernels, there are."""
    from primbench.problem import KERNELS

    _load_kernels(primitive)
    if (primitive, backend, name) not in KERNELS:
        raise UnsupportedCase(why_no_kernel(primitive, backend, name))
    return KERNELS[primitive, backend, name]


def why_no_kernel(primitive: str, backend: str, name: str) -> str:
    """What there is in place of a kernel."""
    if not name or not (known := kernels_of(primitive, backend)):
        return f"{primitive} has no kernel for backend {backend!r}: it has {', '.join(backends_of(primitive))}"
    having = ", ".join(filter(None, known)) or "none but the usual one"
    return f"{primitive} has no kernel {name!r} for backend {backend!r}: {near(name, known)}it has {having}"


def _load_kernels(primitive: str) -> None:
    """An import error in one of them is raised, not hidden."""
    _load_others()
    if primitive in sources.folders():
        _load_folder(primitive)


@functools.cache
def operators() -> Mapping[str, Rule]:
    """Operator of torch, by its name without overload -> the rule by which it is a case of a primitive."""
    from primbench.problem.operators import OPERATORS

    _load_others()
    for primitive in sources.folders():
        for name in sources.modules_in(primitive):
            if name.endswith(_OPERATORS):
                importlib.import_module(name)
    return OPERATORS


def build(primitive: str, parameters: Mapping[str, Value]) -> Problem:
    """Make a problem from a record's or a suite's fields. Raises InvalidRequest naming the field."""
    from primbench.problem import fields_of

    cls = problem_class(primitive)
    fields = {field.name: field for field in fields_of(cls)}
    unknown = sorted(set(parameters) - set(fields))
    if unknown:
        meant = near(unknown[0], fields)
        raise InvalidRequest(f"{primitive} has no field {unknown[0]!r}: {meant}its fields are {', '.join(fields)}")
    missing = [name for name in required(cls) if name not in parameters]
    if missing:
        raise InvalidRequest(f"{primitive} needs {', '.join(missing)}")
    return cls(**parameters)


def required(cls: type[Problem]) -> list[str]:
    """The fields without which there is no problem."""
    import dataclasses

    from primbench.problem import fields_of

    return [field.name for field in fields_of(cls) if field.default is dataclasses.MISSING]
