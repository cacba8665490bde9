"""Files of tokens, as language models read them: numbers of two or four bytes, and nothing else."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from primbench.datasets.format import ExamplePlace, Extent, Format, Made, files_ending, within
from primbench.problem.examples import Tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from primbench.dtypes import Array

_NAME = "tokens.bin"


class TokenFiles(Format):
    contents = "files NAME.bin of two bytes a token, four of larger vocabularies"

    @property
    def _words(self) -> int:
        kind = self.network.on_disk
        assert isinstance(kind, Tokens)
        return kind.words

    @property
    def _dtype(self) -> str:
        return "<u2" if self._words <= 2**16 else "<u4"

    @property
    def _text_bytes(self) -> int:
        """Of a text and the token that follows it."""
        return (self.like[0].size + 1) * int(self._dtype[-1])

    def make(self, count: int) -> Iterator[Made]:
        import numpy as np

        for number, (text, following) in enumerate(self.drawn(count)):
            yield Made(f"{number:07}", np.append(text, following[-1]).astype(self._dtype).tobytes())

    def write(self, folder: str, made: Iterable[Made]) -> None:
        with open(os.path.join(folder, _NAME), "xb") as file:
            file.writelines(each.content for each in made)

    def find(self, folder: str) -> list[ExamplePlace]:
        """Texts that follow one another; what is left at a file's end is none."""
        return [
            ExamplePlace(f"{os.path.relpath(path, folder)}, byte {offset}", (Extent(path, offset, self._text_bytes),))
            for path in files_ending(folder, ".bin")
            for offset in range(0, os.path.getsize(path) - self._text_bytes + 1, self._text_bytes)
        ]

    def decode(self, content: bytes, label: int, number: int) -> tuple[Array, ...]:
        import numpy as np

        text = within(np.frombuffer(content, self._dtype), self._words, "token").astype(np.int64)
        return text[:-1], text[1:]
