"""By how much results of random shapes are off, as a share of what is tolerated: of primitives with a backward pass.

With --every-mode of all that a primitive computes, such as attention to a cache in pages, and sizes that suit tiles.

A share above 1 is a failure; one that never comes near it is a tolerance that would let a wrong result pass. Sizes are
drawn evenly on a logarithmic scale, options among all that a field allows. What follows names primitives.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from primbench.backends import Backend, devices_of, missing, open_backend
from primbench.devices import Device
from primbench.errors import InvalidRequest, UnsupportedCase, VerificationError
from primbench.problem import Problem, Reference, fields_of
from primbench.problem.fields import Value
from primbench.registry import backends_of, build, primitives, setup_of
from primbench.timing.verify import count_unwritten, error_of, on_host, rewritten

BACKWARD = ("backward", "train", "bwd_data", "bwd_weights")
MOST_SIZE = 1024
MOST_BYTES, MOST_FLOP = {"cpu": 2**22, "cuda": 2**26}, {"cpu": 2**28, "cuda": 2**33}
FEW = 3  # of what is no size, such as a stride or layers
GRAINS = (1, 16, 128, 512)  # that all sizes of a problem are multiples of, with --every-mode


def has_backward(cls: type[Problem]) -> bool:
    fields = fields_of(cls)
    is_drawn = not any("names" in field.metadata for field in fields) and not cls.example_fields
    return is_drawn and any(set(BACKWARD) & set(field.metadata.get("choices", ())) for field in fields)


def drawn(rng: np.random.Generator, field: dataclasses.Field[Any]) -> Value:
    choices = [choice for choice in field.metadata.get("choices", ()) if choice]
    if choices:
        return str(rng.choice([choice for choice in choices if choice in BACKWARD] or choices))
    if isinstance(field.default, bool):
        return bool(rng.integers(2))
    if field.metadata.get("size"):
        return any_size(rng)
    if isinstance(field.default, int) and rng.random() < 0.5:
        return int(rng.integers(field.metadata["least"] or 0, FEW + 1))
    found: Value = field.default  # type: ignore[assignment]
    return found


def drawn_of_all(rng: np.random.Generator, field: dataclasses.Field[Any], grain: int) -> Value:
    """As drawn(), of every choice, sizes that are multiples, and numbers of tokens as large as sizes."""
    choices = field.metadata.get("choices", ())
    if choices:
        return str(rng.choice(choices))
    if field.metadata.get("size"):
        return -(-any_size(rng) // grain) * grain
    if type(field.default) is int and rng.random() < 0.3:
        return any_size(rng)
    return drawn(rng, field)


def any_size(rng: np.random.Generator) -> int:
    return round(math.exp(rng.uniform(0, math.log(MOST_SIZE))))


def problems(primitive: str, rng: np.random.Generator, device: Device, *, every_mode: bool) -> Iterator[Problem]:
    """Without end."""
    fields = fields_of(primitives()[primitive])
    while True:
        grain = int(rng.choice(GRAINS))
        given = {field.name: drawn_of_all(rng, field, grain) if every_mode else drawn(rng, field) for field in fields}
        try:
            problem = build(primitive, given).on(device)
        except InvalidRequest:
            continue  # options that exclude each other
        if problem.memory_bytes() <= MOST_BYTES[device.kind] and (problem.flop() or 0) <= MOST_FLOP[device.kind]:
            yield problem


def share(backend: Backend, problem: Problem, seed: int) -> float:
    """Of the tolerance; infinite where an element is no number. Raises UnsupportedCase."""
    rng, inputs = np.random.default_rng(seed + 1), problem.inputs(np.random.default_rng(seed))
    checked = problem.check_inputs(rng, inputs)
    step = setup_of(problem.primitive, backend.name)(backend, problem, *map(backend.put, checked))
    found, reference = on_host(backend, rewritten(backend, step)), problem.reference(rng, *checked)
    if count_unwritten(found) or not isinstance(reference, Reference):
        return math.inf
    exact, scale = reference.expected, reference.scale
    off = np.abs(np.where(found[reference.index] == exact, 0.0, found[reference.index].astype(np.float64) - exact))
    sizes = np.divide(off, scale, out=np.where(off > 0, math.inf, 0.0), where=np.broadcast_to(scale, off.shape) > 0)
    found_share = float(sizes.max(initial=0.0)) / problem.tolerance()
    try:
        error_of(found, problem, reference)
    except VerificationError:
        return max(found_share, math.nextafter(1.0, 2.0))
    return found_share


def measure(primitive: str, name: str, asked: argparse.Namespace) -> None:
    rng, backend = np.random.default_rng(1), open_backend(name, asked.device)
    ends, count = time.monotonic() + asked.budget, asked.count
    shares: dict[str, list[float]] = defaultdict(list)
    tried = 0
    for problem in problems(primitive, rng, Device.parse(asked.device), every_mode=asked.every_mode):
        tried += 1
        if sum(map(len, shares.values())) >= count or tried > 50 * count or time.monotonic() > ends:
            break
        seed = int(rng.integers(2**31))
        try:
            found = share(backend, problem, seed)
        except UnsupportedCase:
            continue
        shares[str(problem.parameters().get("dtype"))].append(found)
        if found > 1:
            print(f"  {found:.3g} of the tolerance on {name}: {problem!r}, seed {seed}", flush=True)
    for dtype, of in sorted(shares.items()):
        median, most = (np.quantile(of, q) for q in (0.5, 1.0))
        print(
            f"{primitive:12} {name:8} {dtype:9} {len(of):5} shapes: median {median:.3f}, largest {most:.3f}", flush=True
        )
    backend.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("primitives", nargs="*", help="default: all that have a backward pass")
    parser.add_argument("--device", default="cpu", help="or cuda:N")
    parser.add_argument("--count", type=int, default=500, help="shapes of each primitive on each backend")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for each primitive on each backend")
    parser.add_argument(
        "--every-mode", action="store_true", help="all choices of all fields, and multiples of 16 to 512"
    )
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    named = asked.primitives or [name for name, cls in primitives().items() if has_backward(cls)]
    for primitive in named:
        for name in backends_of(primitive):
            if missing(name) is None and Device.parse(asked.device).kind in devices_of(name):
                measure(primitive, name, asked)


if __name__ == "__main__":
    main()
