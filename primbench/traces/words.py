"""What there is to say of each part of a step: whoever adds a part adds a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from primbench.traces.bound import StepPart


class PartWords(NamedTuple):
    """What there is to say of a part of a step."""

    bounds: str
    """What bounds a step of which it is the most."""
    what: str
    """What was going on."""
    remedy: str
    """What to do first; {least} stands for how short the step may become by it at best."""
    study: str
    """How to find out whether two places differ in it."""


WORDS: Mapping[StepPart, PartWords] = {
    "kernels": PartWords(
        "the GPU's kernels bound {it}", "kernels ran",
        "without any wait it would still take {least}: make the kernels faster",
        "primbench capture SCRIPT.py -o step.toml",
    ),
    "collectives": PartWords(
        "collectives that nothing hides bound {it}", "collectives ran, and no kernel beside them",
        "begun earlier, or in larger pieces, beside kernels: {least} at best", "primbench allreduce --versus ARM",
    ),
    "copies": PartWords(
        "copies between host and GPU bound {it}", "copies between host and GPU ran, and nothing beside them",
        "from pinned memory, with non_blocking=True and on a stream of their own: {least} at best",
        "primbench memcpy --versus ARM",
    ),
    "operators": PartWords(
        "torch's operators bound {it}", "an operator of torch was under way",
        "faster operators, or fewer: without them it would take {least}",
        "primbench capture SCRIPT.py -o step.toml",
    ),
    "launches": PartWords(
        "the host's operators and launches bound {it}", "nothing ran: the host was in operators and launches",
        "as a CUDA graph, or compiled by torch.compile(mode='reduce-overhead'): {least} at best",
        "primbench launch --versus ARM",
    ),
    "waits": PartWords(
        "waits for the GPU bound {it}", "nothing ran: the host had waited for the GPU, as .item() does",
        "without these waits, or every so many steps: {least} at best", "primbench launch --versus ARM",
    ),
    "data": PartWords(
        "the data loader bounds {it}", "the data loader was waited for",
        "by more workers (num_workers, prefetch_factor): {least} at best", "primbench loader --versus ARM",
    ),
    "python": PartWords(
        "Python between operators bounds {it}", "nothing ran: the host was in Python, or idle",
        "as a CUDA graph, or with fewer calls: {least} at best", "primbench launch --versus ARM",
    ),
}  # fmt: skip
