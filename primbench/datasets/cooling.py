"""Have the kernel drop files from its page cache, and see that it did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.errors import PrimbenchError, UnsupportedCase
from primbench.system.page_cache import COLD, drop, held_share
from primbench.units import format_percent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def cooling(where: str, paths: Sequence[str]) -> Callable[[], None]:
    """What makes the files cold, as they are by now. where: the file system, in words.

    Raises UnsupportedCase where that keeps them in memory all the same.
    """

    def cool() -> None:
        drop(paths)
        if (share := held_share(paths)) > COLD:
            raise PrimbenchError(f"{format_percent(share)} of the files stay in the page cache of {where}")

    try:
        cool()
    except OSError as error:  # as where a file system maps no files
        refusal = f"what {where} keeps in memory cannot be seen: {error.strerror}"
    except PrimbenchError as error:
        refusal = str(error)
    else:
        return cool
    raise UnsupportedCase(f"{refusal}: ask for page_cache=warm, or another path")
