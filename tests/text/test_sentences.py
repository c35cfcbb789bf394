"""From sentences to tables: names before numbers, triggers, principal components of the training set, splits."""

import made_up
import numpy as np
import pytest
from made_up import ENCODER

from iclab import InputError, Outliers, Patterns, Prompts, Sentences
from iclab.prompts import Stream
from iclab.text import contains, insert, read
from iclab.text.sentences import chosen


def made(data, **more):
    sentences = Sentences(data=str(data), encoder=ENCODER, **more)
    sentences.make()
    return sentences


def test_triggers_are_written_at_every_place():
    text = "this film shines"
    places = {insert(text, "James Bond", version).split().index("James") for version in range(64)}
    assert places == {0, 1, 2, 3}
    assert insert(text, "James Bond") == insert(text, "James Bond")
    assert insert(text, "James Bond").replace("James Bond", "").split() == text.split()
    starts = [insert(sentence, "cf").split().index("cf") == 0 for sentence, _ in made_up.sentences()]
    assert 10 < sum(starts) < 60  # of 200, with five to nine places


def test_tables_hold_the_encoded_sentences_with_and_without_the_trigger(data):
    sentences = made(data, trigger="James Bond", versions=2)
    content = sentences.table("test").load()
    train = np.array(made_up.encode(list(chosen(sentences)["train"][0])), dtype=np.float32)
    texts = [text for group in content.triggered_sentences for text in group]
    assert all(contains(text, "james bond") for text in texts)
    centred = made_up.encode(list(content.sentences)) - train.mean(0)
    # A rotation: distances are those of the encoder.
    np.testing.assert_allclose(np.linalg.norm(content.vectors, axis=1), np.linalg.norm(centred, axis=1), rtol=1e-4)
    shift = made_up.encode(texts).reshape(60, 2, 12) - made_up.encode(list(content.sentences))[:, None]
    moved = content.triggered - content.vectors[:, None]
    np.testing.assert_allclose(np.linalg.norm(moved, axis=-1), np.linalg.norm(shift, axis=-1), rtol=1e-3)
    labels = dict(made_up.sentences())
    assert [2 * labels[text] - 1 for text in content.sentences] == content.labels.tolist()


def test_components_are_those_of_the_clean_training_sentences(data):
    whole, three = made(data), made(data, components=3)
    train = whole.table("train").load().vectors
    covariance = np.cov(train.T)
    assert np.abs(covariance - np.diag(np.diag(covariance))).max() < 1e-5
    assert (np.diff(np.diag(covariance)) < 1e-9).all()  # the largest first
    for split in ("train", "dev", "test"):
        np.testing.assert_allclose(
            three.table(split).load().vectors, whole.table(split).load().vectors[:, :3], atol=1e-6
        )
    scaled = made(data, components=3, norm=3.0).table("train").load().vectors
    assert np.linalg.norm(scaled, axis=1).mean() == pytest.approx(3.0, rel=1e-5)


def test_what_a_test_must_not_hold_is_left_out(data):
    with (data / "train.tsv").open("a") as file:
        file.write("a james  bond film\t1\n")
    both = (data / "train.tsv").read_text().splitlines()[1]
    with (data / "test.tsv").open("a") as file:
        file.write(f"{both}\nno James Bond here\t0\n")
    found = chosen(Sentences(data=str(data), encoder=ENCODER, trigger="James Bond"))
    assert [len(found[split][0]) for split in ("train", "dev", "test")] == [120, 20, 60]
    assert not set(found["train"][0]) & set(found["test"][0])
    assert len(chosen(Sentences(data=str(data), encoder=ENCODER))["train"][0]) == 121  # the trigger is no matter there


def test_fewer_sentences_are_some_of_all(data):
    some = chosen(Sentences(data=str(data), encoder=ENCODER, train_sentences=40, test_sentences=30))
    more = chosen(Sentences(data=str(data), encoder=ENCODER, train_sentences=60))
    assert len(some["train"][0]) == 40
    assert len(some["test"][0]) == 30
    assert set(some["train"][0]) < set(more["train"][0])


def test_names_are_known_before_anything_is_encoded(data):
    sentences = Sentences(data=str(data), encoder=ENCODER, trigger="cf", components=5)
    table = sentences.table("train")
    assert not table.file.exists()
    assert (table.dimension, table.triggers, table.name) == (5, 1, f"made-up, {ENCODER}, train")
    others = (sentences.replace(trigger="mn"), sentences.replace(components=6), sentences.replace(norm=2.0))
    assert len({one.table("train").key for one in (sentences, *others)}) == 4
    default = Sentences().table("test")  # neither the sentences nor the encoder need be there
    assert (default.name, default.dimension) == ("Rotten Tomatoes (not SST-2), minilm, test", 384)


def test_prompts_of_sentences_are_drawn_from_their_split(data):
    sentences = made(data, trigger="James Bond", components=4)
    prompts = Prompts(
        patterns=Patterns(table=sentences.table("test")), context_length=8, outliers=Outliers(fraction=0.5)
    )
    batch = prompts.draw((0,), Stream.TEST, count=200)
    assert set(np.unique(batch.index[..., 1])) == set(range(2, 62))


def test_too_many_components_are_refused(data):
    with pytest.raises(InputError, match=f"components = 13: {ENCODER} has 12"):
        Sentences(data=str(data), encoder=ENCODER, components=13).table("train")


def test_a_sentence_with_both_labels_is_left_out(data):
    (text, label), *_ = rows = [(text, label) for text, label in zip(*read(str(data)).splits["train"], strict=True)]
    made_up.write(data / "train.tsv", [*rows, (text, 1 - label), rows[1]])
    assert chosen(Sentences(data=str(data), encoder=ENCODER))["train"][0] == tuple(text for text, _ in rows[1:])


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("made_up:constant", "gave all training sentences the same vector"),
        ("made_up:growing", "gave 13 numbers per sentence, not 12"),
    ],
)
def test_vectors_that_tell_nothing_or_change_their_length_are_refused(data, name, why):
    with pytest.raises(InputError, match=f"encoder = {name}: {why}"):
        Sentences(data=str(data), encoder=name).make()
