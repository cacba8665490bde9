"""What was seen of a script that ended before its step was captured, in one line, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

_BY_HAND = "`with primbench.capture() as step:` in the script"
_STARTED = (
    f"a step without torch.optim and backward() is captured by {_BY_HAND}; processes that it "
    "starts are not looked into: start it by torchrun, as torchrun -m primbench capture"
)
_WITH_GRADIENTS = (
    f"if it infers, call it within torch.no_grad() or torch.inference_mode(); any other step is captured by {_BY_HAND}"
)


def _several(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


@dataclass
class ScriptCounts:
    """Counts of what a script has done."""

    steps: int = 0
    """Steps of its optimizer, or updates without one."""
    passes: int = 0
    """Backward passes."""
    calls_to_learn: int = 0
    """Calls of outermost modules that keep gradients."""
    calls: int = 0
    """Calls of outermost modules that keep none, of the thread that made most of them."""
    all_calls: int = 0
    """The same of all threads."""
    has_stepped: bool = False
    """Whether an optimizer of torch has made a step."""
    has_optimizer: bool = False
    """Whether it has made an optimizer that was found to make no step."""

    def too_few(
        self, ended: str, number: int, without_any: str = "", *, has_raised: bool = False, is_prefill: bool = False
    ) -> str:
        """One line. ended: what became of the script. number: of the step that was asked for. without_any: what to do
        where it made no step at all. is_prefill: whether one that is given a prompt was.
        """
        seen, count = self._words()
        otherwise = _WITH_GRADIENTS if self.calls_to_learn and not self.passes else _STARTED
        hint = "" if has_raised and count <= 1 else self._hint(count, number, is_prefill=is_prefill)
        return f"{ended} after {seen}, before step {number} was captured: {hint or without_any or otherwise}"

    def _words(self) -> tuple[str, int]:
        """What it has done, and how many steps that were."""
        if not self.has_stepped and self.passes:
            updates = _several(self.steps, "update")
            return f"{_several(self.passes, 'call')} of backward() and {updates} after these", self.steps
        if not self.has_stepped and self.calls:
            others = f" in one thread, {self.all_calls} in all" * (self.all_calls > self.calls)
            return f"{_several(self.calls, 'call')} of a module without gradients{others}", self.calls
        steps = f"{_several(self.steps, 'step')} of an optimizer"
        if self.steps or not self.calls_to_learn:
            return steps, self.steps
        return f"{steps} and {_several(self.calls_to_learn, 'call')} of a module with gradients", 0

    def _hint(self, count: int, number: int, *, is_prefill: bool) -> str:
        """Where the script made so many steps; "" where it made none."""
        if self.has_optimizer and not self.has_stepped:
            return f"the script has an optimizer that made none; a step without is captured by {_BY_HAND}"
        if count == 1:
            return "a step lies between the ends of two: have the script make more"
        if count >= number and is_prefill:
            return "none from there on was given more than most are, as a prompt is: have the script generate again"
        if count >= number:
            return f"a step that does not begin and end in one thread is captured by {_BY_HAND}"
        return f"ask for --step {count} or less" if count else ""
