"""Tables of vectors with labels, such as sentences that an encoder has read: prompts are drawn from their rows.

A token is a sentence. In compact form it is the mean of its class, which plays the part of µ, what is left of its own
vector, that of κν, and, if a trigger is written into it, what this changes in the vector, that of κ_a v:

    clean:  mean + (vector − mean),     triggered:  mean + (vector − mean) + (triggered − vector).

So models and probes see a distribution like any other. A description holds a table's name, not its numbers: these are
in a file, in the folder of `cache_folder`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from iclab.config import Config, InputError

CLASSES = 2
"""The rows of a dictionary before those of sentences: the means of the classes, first that of label 1."""


def cache_folder() -> Path:
    """Return where tables and vectors are kept: ``$ICLAB_CACHE``, or ``iclab`` in the user's folder for caches."""
    if own := os.environ.get("ICLAB_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "iclab"


@dataclass(frozen=True)
class Content:
    """The numbers of a table, and its sentences: N of them, with R triggered versions each."""

    vectors: NDArray[np.float32]
    """(N, d)"""
    labels: NDArray[np.int8]
    """(N,) ±1"""
    triggered: NDArray[np.float32]
    """(N, R, d)"""
    sentences: tuple[str, ...] = ()
    triggered_sentences: tuple[tuple[str, ...], ...] = ()
    """R for each sentence."""

    @cached_property
    def dictionary(self) -> NDArray[np.float64]:
        """(2 + N + N R, d) the class means, what is left of each sentence, and what triggers change."""
        vectors = self.vectors.astype(np.float64)
        means = np.stack([vectors[members].mean(0) for members in self.members])
        own = vectors - means[(self.labels < 0).astype(int)]
        shifts = (self.triggered - vectors[:, None]).reshape(-1, vectors.shape[1])
        rows = np.concatenate([means, own, shifts])
        rows.setflags(write=False)
        return rows

    @cached_property
    def members(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The sentences with label 1, and with label −1."""
        return np.flatnonzero(self.labels > 0), np.flatnonzero(self.labels < 0)

    def text(self, sentence: int, trigger: int | None) -> str:
        """Return a sentence, with one of its triggers if ``trigger`` is given; empty if the texts are not known."""
        if not self.sentences:
            return ""
        return self.sentences[sentence] if trigger is None else self.triggered_sentences[sentence][trigger]


class Table(Config):
    """The name of a table of vectors and labels.

    `Table.of` makes one of numbers of your own:

        >>> table = Table.of([[1.0, 2.0], [0.5, 1.0], [-1.0, 0.0], [-2.0, 1.0]], [1, 1, 0, 0])  # doctest: +SKIP
        >>> Prompts(patterns=Patterns(table=table), context_length=1)  # doctest: +SKIP
    """

    key: Annotated[str, Field(pattern=r"[0-9a-f]{20}")]
    """A hash of the numbers, or of all that they were made from."""
    name: str
    """What people call it: data, encoder, split."""
    dimension: Annotated[int, Field(ge=1)]
    """d, the length of a vector."""
    triggers: Annotated[int, Field(ge=0)] = 0
    """R, how many versions with a trigger each sentence has."""

    @classmethod
    def of(
        cls,
        vectors: ArrayLike,
        labels: ArrayLike,
        triggered: ArrayLike | None = None,
        *,
        sentences: Sequence[str] = (),
        name: str = "own vectors",
    ) -> Table:
        """Keep a table of your own, and return its name.

        Args:
            vectors: (N, d), one row per example.
            labels: (N,), 0 and 1, or −1 and 1.
            triggered: (N, d) or (N, R, d), what examples become as outliers.
            sentences: N texts, for people to read.
            name: what to call it.
        """
        content = checked(vectors, labels, triggered, sentences)
        numbers = (content.vectors, content.labels, content.triggered)
        told = json.dumps([list(content.sentences), [array.shape for array in numbers]])
        key = hashlib.sha256(b"".join([told.encode(), *(array.tobytes() for array in numbers)])).hexdigest()[:20]
        table = cls(key=key, name=name, dimension=content.vectors.shape[1], triggers=content.triggered.shape[1])
        table.keep(content)
        return table

    @property
    def file(self) -> Path:
        """Where its numbers are."""
        return cache_folder() / "tables" / f"{self.key}.safetensors"

    def keep(self, content: Content) -> None:
        """Write the numbers, if nobody has."""
        if self.file.exists():
            return
        texts = {"sentences": content.sentences, "triggered_sentences": content.triggered_sentences}
        new = self.file.with_suffix(f".{os.getpid()}")
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            save_file(
                {"vectors": content.vectors, "labels": content.labels, "triggered": content.triggered},
                new,
                metadata={name: json.dumps(text, ensure_ascii=False) for name, text in texts.items()},
            )
            new.replace(self.file)
        except (OSError, SafetensorError) as error:
            raise InputError(f"cache = {cache_folder()}: cannot be written ({error}); set ICLAB_CACHE") from None

    def load(self) -> Content:
        """Return the numbers."""
        return _load(self.file, self.name)

    def __repr__(self) -> str:
        return f"Table({self.name!r})"

    __str__ = __repr__


@lru_cache(maxsize=16)
def _load(file: Path, name: str) -> Content:
    try:
        with safe_open(file, framework="numpy") as kept:
            texts = {key: json.loads(text) for key, text in kept.metadata().items()}
            arrays = {key: kept.get_tensor(key) for key in ("vectors", "labels", "triggered")}
    except FileNotFoundError:
        raise InputError(
            f"table = {name}: its vectors are not in {file.parent}; encode the sentences again, or set ICLAB_CACHE"
        ) from None
    except (OSError, SafetensorError, ValueError) as error:
        raise InputError(f"table = {name}: {file} cannot be read ({error}); remove it") from None
    triggered = tuple(map(tuple, texts["triggered_sentences"]))
    return Content(**arrays, sentences=tuple(texts["sentences"]), triggered_sentences=triggered)


def checked(
    vectors: ArrayLike,
    labels: ArrayLike,
    triggered: ArrayLike | None = None,
    sentences: Sequence[str] = (),
    triggered_sentences: Sequence[Sequence[str]] = (),
) -> Content:
    """Return the numbers of a table; refuse what cannot be one, in one line."""
    rows = _numbers(vectors, "vectors")
    if rows.ndim != 2 or not rows.size:
        raise InputError(f"vectors = an array of shape {rows.shape}: must be (examples, dimension)")
    signs = np.asarray(labels)
    if signs.shape != rows.shape[:1]:
        raise InputError(f"labels = an array of shape {signs.shape}: must be {rows.shape[:1]}, one for each vector")
    found = set(np.unique(signs).tolist())
    if not (found <= {0, 1} or found <= {-1, 1}):
        wrong = sorted(found - {-1, 0, 1})
        raise InputError(f"labels = {wrong[0] if wrong else '−1, 0 and 1'}: must be 0 and 1, or −1 and 1")
    if len(found) < 2:
        raise InputError(f"labels = {found.pop()} everywhere: must be two classes")
    out = rows[:, None][:, :0] if triggered is None else _numbers(triggered, "triggered")
    out = out[:, None] if out.ndim == 2 else out
    if out.shape[::2] != rows.shape:
        raise InputError(f"triggered = an array of shape {out.shape}: must be (examples, versions, dimension)")
    if len(sentences) not in (0, len(rows)):
        raise InputError(f"sentences = {len(sentences)} of them: must be one for each of the {len(rows)} vectors")
    whole = tuple(map(tuple, triggered_sentences)) or tuple((text,) * out.shape[1] for text in sentences)
    return Content(rows, np.where(signs > 0, 1, -1).astype(np.int8), out, tuple(sentences), whole)


def _numbers(values: Any, name: str) -> NDArray[np.float32]:
    """Return finite numbers as an array of float32."""
    try:
        array = np.asarray(values)
    except ValueError:
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "iuf":
        raise InputError(f"{name} = rows of different lengths, or no numbers: must be real numbers, all rows as long")
    array = np.ascontiguousarray(array, dtype=np.float32)
    if not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0, 0])
        raise InputError(f"{name} = NaN or infinite in row {row}: must be finite")
    return array
