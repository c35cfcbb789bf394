"""Encoders and the cache on disk, with encoders that need no weights or tiny ones made here."""

import hashlib

import made_up
import numpy as np
import pytest
from made_up import ENCODER, small_bert

from iclab import InputError
from iclab.text import encoder, insert, read
from iclab.text.cache import file_of, vectors_of
from iclab.text.encoders import pooled
from iclab.text.files import read_vectors, write_vectors

TEXTS = [text for text, _ in made_up.sentences()]


def test_vectors_are_encoded_once():
    asked = []

    def encode(texts):
        asked.extend(texts)
        return made_up.encode(texts)

    first = vectors_of("tiny", TEXTS[:50] + TEXTS[:10], encode)
    assert sorted(asked) == sorted(TEXTS[:50])  # each once
    again = vectors_of("tiny", TEXTS[40:60], encode)
    assert sorted(asked) == sorted(TEXTS[:60])
    np.testing.assert_array_equal(first[40:50], again[:10])
    np.testing.assert_allclose(again, made_up.encode(TEXTS[40:60]), rtol=1e-6)
    vectors_of("another encoder", TEXTS[:1], encode)
    assert len(asked) == 61


def test_what_was_encoded_before_an_interruption_is_kept(monkeypatch):
    monkeypatch.setattr("iclab.text.cache.CHUNK", 20)
    done = []

    def encode(texts):
        if len(done) == 40:
            raise KeyboardInterrupt
        done.extend(texts)
        return made_up.encode(texts)

    with pytest.raises(KeyboardInterrupt):
        vectors_of("tiny", TEXTS, encode)
    told = []
    vectors_of("tiny", TEXTS, made_up.encode, lambda some, total: told.append((some, total)))
    assert told[-1] == (160, 160)


def test_a_vector_depends_on_the_encoder_and_the_sentence_alone(tmp_path):
    import torch

    encode = pooled(small_bert(tmp_path / "small", 64), "mean", False, "small")
    some = [text for text in TEXTS[::9] for text in (text, insert(text, "James Bond"), f"{text} {text}")]
    alone = np.concatenate([vectors_of("alone", [text], encode) for text in some])
    np.testing.assert_array_equal(vectors_of("all at once", some, encode), alone)
    vectors_of("in two parts", some[::3], encode)
    np.testing.assert_array_equal(vectors_of("in two parts", some, encode), alone)
    before, _ = torch.get_num_threads(), torch.set_num_threads(2)
    try:
        np.testing.assert_array_equal(vectors_of("two threads", some[::-1], encode)[::-1], alone)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda texts: np.full((len(texts), 3), np.nan), "gave NaN for"),
        (lambda texts: np.zeros((1, 3)), r"gave shape \(1, 3\) for 2 sentences"),
        (lambda texts: [[1.0], [1.0, 2.0]], "vectors of different lengths"),
        (lambda texts: np.zeros(len(texts)), "gave shape"),
    ],
)
def test_what_is_no_vector_per_sentence_is_refused(made, why):
    with pytest.raises(InputError, match=why):
        vectors_of("broken", ["a", "b"], made)


def test_a_broken_cache_is_named():
    file = file_of("tiny")
    file.parent.mkdir(parents=True)
    file.write_bytes(b"no database" * 100)
    with pytest.raises(InputError, match=r"cache = .*sqlite: cannot be used .*; remove it"):
        vectors_of("tiny", ["a"], made_up.encode)


def test_a_function_is_an_encoder():
    made = encoder(ENCODER)
    assert made.dimension == 12
    np.testing.assert_allclose(made.make([])(TEXTS[:3]), made_up.encode(TEXTS[:3]))
    with pytest.raises(InputError, match="cannot be imported"):
        encoder("made_up:nothing")
    with pytest.raises(InputError, match=r"must return an array \(sentences, dimension\)"):
        encoder("builtins:len")


def test_unknown_encoders_are_refused():
    with pytest.raises(InputError, match="encoder = 'bert': must be one of minilm, distilbert"):
        encoder("bert")


def test_an_encoder_says_what_to_install(monkeypatch):
    monkeypatch.setattr("iclab.text.encoders.find_spec", lambda name: None)
    assert encoder("minilm").obstacle.endswith("pip install 'iclab[text]'")
    assert "onnxruntime" in encoder("distilbert-cased-int8").obstacle


def test_files_of_vectors(tmp_path):
    vectors = made_up.encode(TEXTS).astype(np.float32)
    path = tmp_path / "vectors.parquet"
    write_vectors(path, TEXTS, [0] * len(TEXTS), [False] * len(TEXTS), vectors)
    made = encoder(f"file:{path}")
    np.testing.assert_array_equal(made.make([])(TEXTS[5:8]), vectors[5:8])
    assert made.dimension == 12
    assert hashlib.sha256(path.read_bytes()).hexdigest()[:12] in made.identity
    with pytest.raises(InputError, match="has no vector for 'unheard of'"):
        made.make([])(["unheard of"])


def test_bad_files_of_vectors_are_refused(tmp_path):
    import pyarrow
    import pyarrow.parquet

    def written(**columns):
        pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "bad.parquet")
        return tmp_path / "bad.parquet"

    for columns, why in (
        ({"sentence": ["a", "b"], "vector": [[1.0, 2.0], [1.0]]}, "row 2 has 1 numbers, row 1 has 2"),
        ({"sentence": ["a", "b"], "vector": [[1.0, 2.0], [1.0, float("nan")]]}, "row 2 has NaN"),
        ({"sentence": ["a"], "vectors": [[1.0]]}, "has no column vector"),
    ):
        with pytest.raises(InputError, match=why):
            read_vectors(written(**columns))
    (tmp_path / "bad.parquet").write_text("no table")
    with pytest.raises(InputError, match="is no Parquet file"):
        read_vectors(tmp_path / "bad.parquet")
    with pytest.raises(InputError, match="there is no such file"):
        encoder(f"file:{tmp_path / 'nothing.parquet'}")


def test_tfidf_is_fitted_to_training_sentences(data):
    train = read(str(data)).splits["train"][0]
    encode = encoder("tfidf").make(train)
    vectors = encode(["her acting shines again", "unheard of"])
    assert vectors.shape == (2, 100)
    assert np.abs(vectors[0]).max() > 0
    assert not vectors[1].any()


def test_tfidf_refuses_sentences_without_words():
    for train, why in ((["a", "b"], "cannot be fitted"), (["fine a", "fine b"], "have 1 word; needs two or more")):
        with pytest.raises(InputError, match=f"encoder = tfidf: .*{why}"):
            encoder("tfidf").make(train)


def test_a_broken_folder_of_weights_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be loaded"):
        pooled(tmp_path, "mean", False, "distilbert")
