"""Vectors of sentences on disk: one small database per encoder, by a hash of the text."""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from iclab.config import InputError
from iclab.prompts.tables import cache_folder
from iclab.threads import one_thread

Encode = Callable[[Sequence[str]], NDArray[np.floating]]
Tell = Callable[[int, int], None]
"""Called with the number of sentences that are done, and of all."""

VERSION = 2
"""Part of the name of every file of vectors. Raise it when the same encoder gives other vectors."""
CHUNK = 256
"""Sentences that are encoded, and then kept, at a time: after an interruption, no more than these are lost."""


def vectors_of(
    identity: str, sentences: Sequence[str], encode: Encode, tell: Tell = lambda done, total: None
) -> NDArray[np.float32]:
    """Return the vectors of sentences, (N, d): known ones from disk, the others from the encoder.

    A vector depends on the encoder and the sentence only: encoders have one thread and do not pad.

    Args:
        identity: the encoder with its version and pooling; another one has vectors of its own.
        sentences: what to encode; the same sentence is encoded once.
        encode: takes sentences, returns vectors.
        tell: called after every chunk.
    """
    with _database(file_of(identity)) as database:
        known = dict(_known(database, sentences))
        missing = sorted({text for text in sentences if _key(text) not in known}, key=len)  # alike in length, so faster
        for start in range(0, len(missing), CHUNK):
            some = missing[start : start + CHUNK]
            with threadpool_limits(1), one_thread():
                new = _checked(encode(some), some, identity)
            rows = [(_key(text), vector.tobytes()) for text, vector in zip(some, new, strict=True)]
            with database:
                database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
            known.update(rows)
            tell(min(start + CHUNK, len(missing)), len(missing))
    found = [known[_key(text)] for text in sentences]
    if len({len(vector) for vector in found}) > 1:
        raise InputError(f"encoder = {identity}: gives vectors of different lengths")
    return np.frombuffer(b"".join(found), dtype=np.float32).reshape(len(sentences), -1)


def file_of(identity: str) -> Path:
    """Return where the vectors of an encoder are kept."""
    short = re.sub(r"[^a-z0-9]+", "-", identity.lower())[:40].strip("-")
    told = f"{VERSION} {identity}"
    return cache_folder() / "vectors" / f"{short}-{hashlib.sha256(told.encode()).hexdigest()[:12]}.sqlite"


@contextmanager
def _database(file: Path) -> Iterator[sqlite3.Connection]:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(file, timeout=60)
        try:
            database.execute("CREATE TABLE IF NOT EXISTS vectors (text BLOB PRIMARY KEY, vector BLOB NOT NULL)")
            yield database
        finally:
            database.close()
    except (sqlite3.Error, OSError) as error:
        raise InputError(f"cache = {file}: cannot be used ({error}); remove it, or set ICLAB_CACHE") from None


def _known(database: sqlite3.Connection, sentences: Iterable[str]) -> Iterator[tuple[bytes, bytes]]:
    keys = list({_key(text) for text in sentences})
    for start in range(0, len(keys), 500):
        some = keys[start : start + 500]
        marks = ",".join("?" * len(some))
        yield from database.execute(f"SELECT text, vector FROM vectors WHERE text IN ({marks})", some)


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _checked(vectors: object, sentences: Sequence[str], identity: str) -> NDArray[np.float32]:
    """Return what an encoder gave, if it is one finite vector for each sentence."""
    try:
        array = np.asarray(vectors, dtype=np.float32)
    except (TypeError, ValueError):
        raise InputError(f"encoder = {identity}: gives vectors of different lengths, or no numbers") from None
    if array.ndim != 2 or len(array) != len(sentences) or not array.size:
        raise InputError(f"encoder = {identity}: gave shape {array.shape} for {len(sentences)} sentences")
    bad = ~np.isfinite(array).all(1)
    if bad.any():
        raise InputError(f"encoder = {identity}: gave NaN for {sentences[int(bad.argmax())][:60]!r}")
    return np.ascontiguousarray(array)
