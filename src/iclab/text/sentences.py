"""From sentences to tables of vectors: read, write triggers into them, encode, project on principal components, scale.

A `Sentences` is a description: the names of its tables follow from it before anything is read or encoded.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from threadpoolctl import threadpool_limits

from iclab.config import Config, InputError
from iclab.prompts.tables import Table, checked
from iclab.text.cache import Encode, Tell, vectors_of
from iclab.text.encoders import Encoder, encoder
from iclab.text.sources import ROTTEN_TOMATOES, SPLITS, SplitName, identity, obstacle, read
from iclab.text.triggers import contains, insert

VERSION = 2
"""Part of the name of every table. Raise it when the same description gives other numbers."""


class Sentences(Config):
    """Sentences as vectors: where they come from, what encodes them, and what is done with the vectors."""

    data: str = ROTTEN_TOMATOES
    """A folder, a file, ``rotten-tomatoes``, or ``hub:OWNER/NAME``."""
    encoder: str = "minilm"
    components: Annotated[int | None, Field(ge=1)] = None
    """How many principal components to keep; they are those of the clean training vectors. By default all."""
    norm: Annotated[float | None, Field(gt=0)] = None
    """β: vectors are multiplied by one number, so that clean training vectors have this mean norm. By default they stay
    as long as the encoder makes them."""
    trigger: str = ""
    """What outliers have in their text. Sentences that have it by themselves are then left out."""
    versions: Annotated[int, Field(ge=1, le=16)] = 1
    """In how many places the trigger is tried in each sentence."""
    train_sentences: Annotated[int | None, Field(ge=2)] = None
    """How many training sentences to use; by default all."""
    test_sentences: Annotated[int | None, Field(ge=2)] = None
    """How many sentences of dev, and of test, to use; by default all."""

    @property
    def obstacle(self) -> str:
        """What to install before this can be read and encoded; empty if nothing."""
        return obstacle(self.data) or (f"encoder {self.encoder} {why}" if (why := self._encoder.obstacle) else "")

    @property
    def name(self) -> str:
        """What results call it: the data and the encoder."""
        return f"{identity(self.data)[0]}, {self.encoder}"

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        whole = self._encoder.dimension
        if self.components is not None and self.components > whole:
            raise InputError(f"components = {self.components}: {self.encoder} has {whole}")
        return self.components or whole

    @property
    def _encoder(self) -> Encoder:
        return _encoder(self.encoder)

    def table(self, split: SplitName) -> Table:
        """Return the name of the table of a split; nothing is read but files that the user names."""
        fields = self.model_dump(mode="json") | {"data": identity(self.data)[1], "encoder": self._encoder.identity}
        told = json.dumps([VERSION, fields, split], sort_keys=True, ensure_ascii=False)
        key = hashlib.sha256(told.encode()).hexdigest()[:20]
        triggers = self.versions if self.trigger else 0
        return Table(key=key, name=f"{self.name}, {split}", dimension=self.dimension, triggers=triggers)

    def make(self, tell: Tell = lambda done, total: None) -> None:
        """Make all tables that are not there yet."""
        if all(self.table(split).file.exists() for split in SPLITS):
            return
        if why := self.obstacle:
            raise InputError(f"{self.name}: {why}")
        with threadpool_limits(1):  # so that components do not depend on the number of cores
            self._make(_encoded(self.replace(components=None, norm=None), tell))

    def _make(self, encoded: EncodedCorpus) -> None:
        """Project the vectors of all splits on principal components, scale them, and keep them."""
        axes, mean = encoded.axes[: self.components], encoded.mean
        train = (encoded.splits["train"].vectors - mean) @ axes.T
        factor = 1.0 if self.norm is None else self.norm / np.linalg.norm(train, axis=1).mean()
        for split, found in encoded.splits.items():
            clean, triggered = (factor * ((part - mean) @ axes.T) for part in (found.vectors, found.triggered))
            whole = checked(clean, found.labels, triggered, found.sentences, found.triggered_sentences)
            self.table(split).keep(whole)


class Encoded(NamedTuple):
    """The sentences of one split as an encoder gives them."""

    sentences: tuple[str, ...]
    labels: tuple[int, ...]
    triggered_sentences: tuple[tuple[str, ...], ...]
    vectors: NDArray[np.float64]
    """(N, d)"""
    triggered: NDArray[np.float64]
    """(N, R, d)"""


@dataclass(frozen=True)
class EncodedCorpus:
    """All splits, and the principal components of the clean training vectors."""

    splits: dict[SplitName, Encoded]
    mean: NDArray[np.float64]
    """(d,)"""
    axes: NDArray[np.float64]
    """(d, d) the principal components, the largest first."""


@lru_cache(maxsize=64)
def _encoder(name: str) -> Encoder:
    return encoder(name)


@lru_cache(maxsize=2)
def _encoded(which: Sentences, tell: Tell) -> EncodedCorpus:
    parts = chosen(which)
    texts = {split: (sentences, triggered_of(sentences, which)) for split, (sentences, _) in parts.items()}
    every = [text for clean, triggered in texts.values() for group in (clean, *triggered) for text in group]
    made, name = _encoder(which.encoder), _encoder(which.encoder).identity
    if made.fitted:
        name += f", fitted to {hashlib.sha256(json.dumps(parts['train'][0]).encode()).hexdigest()[:12]}"

    loaded: list[Encode] = []

    def encode(some: Iterable[str]) -> NDArray[np.floating]:
        if not loaded:  # only if there is anything to encode
            loaded.append(made.make(parts["train"][0]))
        return loaded[0](list(some))

    known = vectors_of(name, every, encode, tell).astype(np.float64)
    if known.shape[1] != made.dimension:
        raise InputError(f"encoder = {which.encoder}: gave {known.shape[1]} numbers per sentence, not {made.dimension}")
    if not np.ptp(known[: len(parts["train"][0])], axis=0).any():
        raise InputError(f"encoder = {which.encoder}: gave all training sentences the same vector")
    vectors = iter(known)
    splits: dict[SplitName, Encoded] = {}
    for split, (clean, triggered) in texts.items():
        rows = np.stack([next(vectors) for _ in clean])
        out = np.array([[next(vectors) for _ in group] for group in triggered])
        out = out.reshape(len(clean), -1, rows.shape[1])
        splits[split] = Encoded(clean, parts[split][1], triggered if which.trigger else (), rows, out)
    train = splits["train"].vectors
    mean = train.mean(0)
    _, axes = np.linalg.eigh((train - mean).T @ (train - mean))
    axes = axes[:, ::-1].T
    signs = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(1)])  # so that every machine has the same signs
    return EncodedCorpus(splits, mean, axes * signs[:, None])


def triggered_of(sentences: tuple[str, ...], which: Sentences) -> tuple[tuple[str, ...], ...]:
    """Return the versions of each sentence with the trigger; none if there is no trigger."""
    versions = range(which.versions if which.trigger else 0)
    return tuple(tuple(insert(text, which.trigger, version) for version in versions) for text in sentences)


def chosen(which: Sentences) -> dict[SplitName, tuple[tuple[str, ...], tuple[int, ...]]]:
    """Return the sentences and labels of each split.

    Left out are sentences with the trigger, sentences with both labels, sentences for tests that also occur in
    training, and those beyond the number that is asked for, by the order of their hashes.
    """
    corpus = read(which.data)
    found: dict[SplitName, tuple[tuple[str, ...], tuple[int, ...]]] = {}
    train = set(corpus.splits["train"][0])
    for split in SPLITS:
        pairs = dict.fromkeys(zip(*corpus.splits[split], strict=True))  # each sentence once
        rows = {text: label for text, label in pairs if (text, 1 - label) not in pairs}
        kept = [text for text in rows if split == "train" or text not in train]
        if which.trigger:
            kept = [text for text in kept if not contains(text, which.trigger)]
        limit = which.train_sentences if split == "train" else which.test_sentences
        if limit is not None:
            few = set(sorted(kept, key=lambda text: hashlib.sha256(text.encode()).digest())[:limit])
            kept = [text for text in kept if text in few]
        labels = tuple(rows[text] for text in kept)
        if len(set(labels)) < 2:
            raise InputError(f"{corpus.name}: its {split} split has {len(kept)} sentences of one class; needs two")
        found[split] = tuple(kept), labels
    return found
