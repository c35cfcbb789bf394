"""`iclab encode`: sentences of one's own as vectors, in a file and in the cache."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from iclab.config import InputError


def encode(options: argparse.Namespace) -> dict[str, Any]:
    """Encode a file or folder of labelled sentences, clean and with a trigger; write a file of vectors."""
    from rich.console import Console

    from iclab.text import encoder, insert, read
    from iclab.text.cache import vectors_of
    from iclab.text.files import write_vectors

    made, corpus = encoder(options.encoder), read(options.file)
    if made.obstacle:
        raise InputError(f"encoder = {made.name}: {made.obstacle}")
    labelled = {text: label for rows in corpus.splits.values() for text, label in zip(*rows, strict=True)}
    clean = list(labelled)
    triggered = [insert(text, options.trigger) for text in clean] if options.trigger else []
    train = corpus.splits["train"][0]
    identity = f"{made.identity}, fitted to {corpus.digest}" if made.fitted else made.identity
    encoded = 0
    with Console(stderr=True).status(f"loading {made.name}") as status:

        def tell(done: int, total: int) -> None:
            nonlocal encoded
            encoded = total
            status.update(f"{made.name} has encoded {done:,} of {total:,} sentences")
            if not sys.stderr.isatty():
                print(f"iclab: {made.name} has encoded {done:,} of {total:,} sentences", file=sys.stderr, flush=True)

        loaded: list[Any] = []

        def run(some: Any) -> Any:
            if not loaded:
                loaded.append(made.make(train))
            return loaded[0](some)

        vectors = vectors_of(identity, [*clean, *triggered], run, tell)
    out = Path(options.out or f"{Path(options.file).stem}-{made.name.rpartition('/')[2].replace(':', '-')}.parquet")
    flags = [False] * len(clean) + [True] * len(triggered)
    write_vectors(out, [*clean, *triggered], [*labelled.values()] * (2 if triggered else 1), flags, vectors)
    return {
        "sentences": len(clean),
        "positive": sum(labelled.values()),
        "encoder": made.name,
        "dimension": vectors.shape[1],
        "trigger": options.trigger,
        "encoded now": encoded,
        "file": str(out),
    }


def print_encoded(found: dict[str, Any], source: str) -> None:
    """Say what was encoded, and what can be done with it."""
    many = f"{found['sentences']:,} sentences ({found['positive']:,} positive)"
    trigger = f", each also with {found['trigger']!r} in its text" if found["trigger"] else ""
    print(
        f"{many} as {found['dimension']} numbers each by {found['encoder']}{trigger}; {found['encoded now']:,} were new"
    )
    print(f"wrote {found['file']}")
    print(f"next: iclab run M-tab6 M-tab7 --text-data {source} --encoder {found['encoder']}")
