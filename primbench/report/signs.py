"""Verdicts by a sign and a colour, of which either is enough: ratios of times are above 1, below it, or like it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

    from primbench.compare.ratio import Verdict
    from primbench.report.document import Tone

SIGNS: dict[Verdict, str] = {
    "slower": ">",
    "faster": "<",
    "different-about-the-margin": "~",
    "different-but-small": "~",
    "equivalent": "=",
    "equivalent-at-full-speed": "=",
    "equivalent-in-these-runs": "=",
    "inconclusive": "?",
}
_TONES: dict[Tone, str] = {"worse": "bold red", "fine": "bold green", "open": "bold yellow"}
_ANSWER = r"\A.+(\n  .+)*"  # with what goes on in the next lines
_CELL = r" .+(\n {10,}\S+( \S+)*$)*"  # the last one of a row, with what goes on in the next lines
_STYLES = {
    rf"(?<=  )>{_CELL}": "bold red",
    rf"(?<=  )<{_CELL}": "bold blue",
    rf"(?<=  )={_CELL}": "green",
    rf"(?<=  )([~?]|not compared){_CELL}": "yellow",
    r"^! .+(\n  .+)*$": "yellow",
}


def painted(text: str, tone: Tone | None = None) -> Text:
    """The text of a comparison with its verdicts and its answer in colour. tone: of the answer, which is first."""
    import re

    from rich.text import Text

    found = Text(text)
    for pattern, style in (_STYLES | ({_ANSWER: _TONES[tone]} if tone else {})).items():
        found.highlight_regex(re.compile(pattern, re.MULTILINE), style)
    return found
