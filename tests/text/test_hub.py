"""Weights and data of a hub: from its cache, from a hub on this machine, and without any hub."""

import socket
import time
from contextlib import ExitStack
from pathlib import Path

import made_up
import numpy as np
import pytest
from made_up import small_bert
from small_hub import COMMIT, serving

from iclab import InputError
from iclab.text import encoder, read
from iclab.text.encoders import DISTILBERT, pooled
from iclab.text.hub import is_whole


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Return a function that serves a folder as a hub whose cache is empty."""
    from huggingface_hub import constants

    def serve(folder: Path):
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache of the hub"))
        monkeypatch.delenv("HF_HUB_OFFLINE")
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        address, fetched = opened.enter_context(serving(folder))
        monkeypatch.setattr(constants, "ENDPOINT", address)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}"
        )
        return fetched

    with ExitStack() as opened:
        yield serve


@pytest.mark.slow
def test_distilbert_is_fetched_once_and_is_the_mean_of_the_last_hidden_states(tmp_path, monkeypatch, hub, capfd):
    import torch
    from transformers import AutoModel, AutoTokenizer

    place = small_bert(tmp_path / "small")
    (place / "pytorch_model.bin").write_bytes(b"the same again")
    fetched = hub(place)
    capfd.readouterr()
    encode = encoder("distilbert").make([])
    assert "vocab" not in "".join(capfd.readouterr())  # nothing about the weights of its head
    assert {"config.json", "tokenizer.json", "model.safetensors"} <= set(fetched)
    assert "pytorch_model.bin" not in fetched
    texts = ["this film shines", "the plot is flat and dull as ever"]
    tokenizer, model = AutoTokenizer.from_pretrained(place), AutoModel.from_pretrained(place)
    for row, text in zip(encode(texts), texts, strict=True):  # one by one: without padding
        with torch.no_grad():
            hidden = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        np.testing.assert_allclose(row, hidden.mean(0).numpy(), atol=1e-5)
        (first,) = pooled(place, "cls", False, "small")([text])
        np.testing.assert_allclose(first, hidden[0].numpy(), atol=1e-5)
    long, lower = encode([" ".join(["this film"] * 400), "this FILM shines"])
    np.testing.assert_array_equal(long, encode([" ".join(["this film"] * 500)])[0])  # cut to the model's length
    np.testing.assert_array_equal(lower, encode(texts)[0])
    before, _ = len(fetched), monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    np.testing.assert_array_equal(encoder("distilbert").make([])(texts), encode(texts))  # from the hub's own cache
    assert len(fetched) == before


def test_a_copy_without_weights_is_not_used(tmp_path, monkeypatch):
    from huggingface_hub import constants

    place = tmp_path / f"models--{DISTILBERT.replace('/', '--')}"
    for file, text in (("refs/main", COMMIT), (f"snapshots/{COMMIT}/config.json", "{}")):
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        (place / file).write_text(text)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(InputError, match="is not on this machine, and HF_HUB_OFFLINE forbids to fetch it"):
        encoder("distilbert").make([])


@pytest.mark.parametrize(
    ("kind", "files", "whole"),
    [
        ("model", ["config.json", "model.safetensors"], True),
        ("model", ["config.json", "model-00001-of-00002.safetensors"], False),
        ("dataset", ["data/train-00000-of-00001.parquet", "data/test-0.parquet", "data/validation-0.parquet"], True),
        ("dataset", ["data/train-00000-of-00001.parquet", "data/test-0.parquet"], False),
        ("dataset", ["train-00000-of-00002.parquet", "test-0.parquet", "validation-0.parquet"], False),
    ],
)
def test_a_copy_is_used_if_all_of_it_is_there(tmp_path, kind, files, whole):
    for file in files:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    assert is_whole(tmp_path, kind) is whole


def test_the_hub_is_not_waited_for():
    start = time.monotonic()
    with pytest.raises(InputError, match="is not on this machine, and HF_HUB_OFFLINE forbids to fetch it"):
        encoder("distilbert").make([])
    with pytest.raises(InputError, match="text_data = hub:stanfordnlp/sst2: is not on this machine"):
        read("hub:stanfordnlp/sst2")
    assert time.monotonic() - start < 30


def test_without_a_network_the_hub_fails_in_one_line(monkeypatch):
    import huggingface_hub

    def nobody(*args, **kwargs):
        raise OSError("no route to host")

    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr(huggingface_hub.HfApi, "repo_info", nobody)
    with pytest.raises(InputError, match=r"encoder = distilbert/.*: cannot be fetched \(OSError: no route to host\)"):
        encoder("distilbert").make([])


def test_data_of_a_hub_are_read_from_parquet(tmp_path, hub):
    import pyarrow
    import pyarrow.parquet

    rows = made_up.sentences()
    (tmp_path / "set" / "data").mkdir(parents=True)
    hidden = [(text, -1) for text, _ in rows[:5]]
    for name, some in (("train", rows[::2]), ("validation", rows[1::2]), ("test", hidden)):
        columns = {"sentence": [text for text, _ in some], "label": [label for _, label in some]}
        pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "set" / "data" / f"{name}-0.parquet")
    fetched = hub(tmp_path / "set")
    splits = read("hub:any/thing").splits
    assert set(splits["test"][0]) == {text for text, _ in rows[1::2]}  # the test labels are hidden
    assert {*splits["train"][0], *splits["dev"][0]} == {text for text, _ in rows[::2]}
    assert sorted(fetched) == [f"data/{name}-0.parquet" for name in ("test", "train", "validation")]


def test_a_hub_that_does_not_answer_is_given_up(monkeypatch):
    from huggingface_hub import constants

    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("iclab.text.hub.SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, and says nothing
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        start = time.monotonic()
        with pytest.raises(InputError, match=r"encoder = distilbert/.*: cannot be fetched \(ReadTimeout"):
            encoder("distilbert").make([])
        assert time.monotonic() - start < 5
