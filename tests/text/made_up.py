"""200 sentences that were made up for the tests, and an encoder without weights: sums of random vectors of words."""

from __future__ import annotations

import hashlib
import warnings
from itertools import product
from pathlib import Path

import numpy as np

ENCODER = "made_up:encode"
"""What iclab calls the encoder below."""

WHO = ("the plot", "this film", "her acting", "the music", "every scene")
GOOD = ("is a delight", "shines", "is moving and warm", "charms us")
BAD = ("is a bore", "drags", "is flat and dull", "annoys us")
WHEN = ("from start to end", "at last", "in the second half", "again", "as ever")


def sentences() -> list[tuple[str, int]]:
    """Return labelled sentences, 100 of each class."""
    return [
        (f"{who} {what} {when}", label)
        for label, said in ((1, GOOD), (0, BAD))
        for who, what, when in product(WHO, said, WHEN)
    ]


def write(path: Path, rows: list[tuple[str, int]]) -> Path:
    """Write labelled sentences as a TSV file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("sentence\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows), "utf-8")
    return path


def folder(place: Path) -> Path:
    """Write train.tsv, dev.tsv and test.tsv: 120, 20 and 60 sentences."""
    rows = sentences()
    order = np.random.default_rng(0).permutation(len(rows))
    for name, some in (("train", order[:120]), ("dev", order[120:140]), ("test", order[140:])):
        write(place / f"{name}.tsv", [rows[i] for i in some])
    return place


def encode(texts: list[str]) -> np.ndarray:
    """Return a vector of 12 numbers per sentence: the mean over its words."""
    return np.stack([np.mean([_word(word) for word in text.lower().split()], axis=0) for text in texts])


def _word(word: str) -> np.ndarray:
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big")
    return np.random.default_rng(seed).normal(size=12)


def constant(texts: list[str]) -> np.ndarray:
    """Return the same vector for every sentence."""
    return np.ones((len(texts), 12))


def growing(texts: list[str]) -> np.ndarray:
    """Return longer vectors if there are more sentences."""
    return np.eye(len(texts), 12 if len(texts) == 1 else 13)


def small_bert(folder: Path, dim: int = 24) -> Path:
    """Write a DistilBERT of one layer with random weights and, like the real one, a head that guesses words."""
    from transformers import DistilBertConfig, DistilBertForMaskedLM, DistilBertTokenizer

    words = sorted({word for text, _ in sentences() for word in text.split()} | {"james", "bond"})
    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))
    with warnings.catch_warnings():  # transformers 5.12 makes its tokenizer in a way that tokenizers advises against
        warnings.simplefilter("ignore", DeprecationWarning)
        tokenizer = DistilBertTokenizer(str(folder / "vocab.txt"))
    tokenizer.save_pretrained(folder)
    config = DistilBertConfig(vocab_size=len(tokenizer), dim=dim, n_layers=1, n_heads=2, hidden_dim=16)
    DistilBertForMaskedLM(config).save_pretrained(folder)
    return folder
