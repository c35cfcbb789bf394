"""What experiments make before their cells are computed, such as vectors of sentences."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable

from rich.console import Console

from iclab.config import InputError
from iclab.lab import Store
from iclab.lab.progress import LINE_EVERY
from iclab.study.edition import Edition


def prepare(editions: Iterable[Edition], store: Store, *, quiet: bool = False) -> None:
    """Let experiments make what their cells read, unless the store has all of them.

    What is going on is shown on standard error: always on a terminal, elsewhere as a line every few seconds.
    """
    console, last = Console(stderr=True, quiet=quiet), time.monotonic()
    with console.status("") as status:

        def tell(text: str) -> None:
            nonlocal last
            status.update(text)
            if not (quiet or console.is_terminal) and time.monotonic() > last + LINE_EVERY:
                last = time.monotonic()
                print(f"iclab: {text}", file=sys.stderr, flush=True)

        for edition in editions:
            if edition.complete(store):
                continue
            if why := edition.experiment.obstacle(edition.settings):
                raise InputError(f"{edition.experiment.id}: {why}")
            with edition.experiment.guarded("preparations"):
                edition.experiment.prepare(edition.settings, tell)
