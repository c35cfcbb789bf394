"""Prompts over tables of vectors: which rows they hold, what tokens are, and what is refused."""

import numpy as np
import pytest
import torch

import iclab
from iclab import InputError, Outliers, Patterns, Prompts, Table
from iclab.probes import PROBES
from iclab.prompts import Stream
from iclab.prompts.table_draws import sentences_of


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ICLAB_CACHE", str(tmp_path / "cache"))


def numbers(rows=60, versions=2, seed=0):
    random = np.random.default_rng(seed)
    labels = random.permutation(np.arange(rows) % 3 > 0).astype(int)  # two thirds are positive
    vectors = random.normal(size=(rows, 4)) + np.outer(2 * labels - 1, [1, 0, 0, 0])
    triggered = vectors[:, None] + random.normal(size=(rows, versions, 4))
    return vectors.astype(np.float32), labels, triggered.astype(np.float32)


def made(**more):
    vectors, labels, triggered = numbers(**more)
    return Table.of(vectors, labels, triggered, sentences=[f"sentence {i}" for i in range(len(labels))])


def over(table, **more):
    return Prompts(patterns=Patterns(table=table), **{"context_length": 8} | more)


def test_tokens_are_rows_of_the_table_with_the_labels_of_the_task():
    vectors, labels, triggered = numbers()
    table = made()
    prompts = over(table, outliers=Outliers(fraction=0.4, query=0.3))
    batch = prompts.draw((0, 5), Stream.TEST, count=300)
    row, trigger = sentences_of(batch, table)
    rows = torch.from_numpy(np.stack([prompts.dictionary(prompts.patterns.basis(seed)) for seed in (0, 5)]))
    tokens = batch.dense(rows)[..., :-1].numpy()
    expected = np.where((trigger >= 0)[..., None], triggered[row, trigger], vectors[row])
    np.testing.assert_allclose(tokens, expected, atol=1e-6)
    signs = (2 * labels - 1)[row] * np.where(batch.task[..., :1] == 0, 1, -1)  # the second task swaps labels
    np.testing.assert_array_equal(signs[..., :-1], batch.true_labels[..., 0])
    np.testing.assert_array_equal(signs[..., -1:], batch.target)
    np.testing.assert_array_equal(trigger[..., :-1] >= 0, batch.outlier)
    assert set(trigger[trigger >= 0]) == {0, 1}
    assert 0.25 < (trigger[..., -1] >= 0).mean() < 0.35
    same = labels[row[..., :-1]] == labels[row[..., -1:]]
    np.testing.assert_array_equal(batch.same_pattern, same)


def test_no_row_occurs_twice_in_a_prompt_and_all_are_equally_likely():
    table = made(rows=30)  # ten of one class, and nine are needed
    row, _ = sentences_of(over(table).draw((0,), Stream.TRAIN, count=20_000), table)
    assert (np.sort(row, -1)[..., 1:] > np.sort(row, -1)[..., :-1]).all()
    _, labels, _ = numbers(rows=30)
    for place in (0, 4, 8):
        for label in (0, 1):
            members = np.flatnonzero(labels == label)
            counts = np.bincount(row[0, :, place], minlength=30)[members]
            assert 0.48 < counts.sum() / 20_000 < 0.52  # both classes are equally likely
            expected = counts.sum() / len(members)
            assert ((counts - expected) ** 2 / expected).sum() < len(members) + 5 * np.sqrt(2 * len(members))


def test_prompts_do_not_depend_on_the_batch_and_placements_share_sentences():
    table = made()
    whole = over(table).draw((1, 2), Stream.TEST, step=3, count=40)
    part = over(table).draw((2,), Stream.TEST, step=3, first=7, count=5)
    np.testing.assert_array_equal(whole.index[1:, 7:12], part.index)
    placed = [over(table, outliers=Outliers(fraction=0.5, placement=p)) for p in ("farthest", "closest")]
    first, second = (prompts.draw((0,), Stream.TEST, count=50) for prompts in placed)
    np.testing.assert_array_equal(first.index[..., 1], second.index[..., 1])
    np.testing.assert_array_equal(first.outlier.sum(-1), second.outlier.sum(-1))


def test_the_name_of_a_table_is_a_hash_of_its_numbers():
    table = made()
    assert made() == table
    assert made(seed=1).key != table.key
    assert Prompts.model_validate_json(over(table).model_dump_json()) == over(table)
    assert "table" not in Prompts().model_dump_json()  # so that stored results keep their names


def test_a_table_whose_numbers_are_gone_is_named():
    table = made()
    table.file.unlink()
    with pytest.raises(InputError, match=r"table = own vectors: its vectors are not in .*; encode the sentences again"):
        over(table).draw((0,), Stream.TEST)


@pytest.mark.parametrize("model", ["mamba", "linear", "softmax", "softmax-mlp", "gla", "deep-mamba", "deep-softmax"])
def test_every_kind_of_model_learns_from_a_table(model):
    prompts = over(made(rows=200), outliers=Outliers(fraction=0.2))
    recipe = iclab.Recipe(steps=3, batch_size=16, step_size=0.05)
    run = iclab.train(model, prompts, recipe, seeds=2)
    assert run.training.engine == "reference"
    for probe in ("error", "attention", "gates", "vote", "attended", "counted", "sentences"):
        assert run.measure(probe, prompts, count=20)


def test_one_layer_of_mamba_solves_easy_rows_and_has_a_worst_case():
    vectors, labels, _ = numbers(rows=200)
    vectors[:, 0] = 3 * (2 * labels - 1)
    table = Table.of(vectors, labels, vectors + np.array([0, 0, 0, 6.0], dtype=np.float32))
    prompts = over(table, outliers=Outliers(fraction=0.3))
    run = iclab.train("mamba", prompts, iclab.Recipe(steps=150), seeds=2)
    assert run.error(prompts, count=500).mean < 0.1
    random, worst = run.error(prompts, count=500), run.error(prompts, labels="worst", count=500)
    assert worst.mean >= random.mean


def test_probes_that_go_through_patterns_refuse_tables():
    run = iclab.train("mamba", over(made()), iclab.Recipe(steps=0), seeds=1)
    for probe in ("kernel", "growth", "norms", "exact"):
        with pytest.raises(InputError, match="goes through patterns one by one"):
            run.measure(probe, count=1)
    assert not PROBES["readout"].of_patterns


def test_theorems_refuse_tables():
    with pytest.raises(InputError, match="no theorem of the papers is about rows of a table"):
        iclab.predict("mamba", over(made()))


def test_the_sentences_of_a_prompt_are_kept_with_their_triggers():
    table = made()
    prompts = over(table, outliers=Outliers(fraction=0.5, labels="target"))
    run = iclab.train("mamba", prompts, iclab.Recipe(steps=0), seeds=1)
    rows = run.measure("sentences", prompts, count=3)
    batch = prompts.draw((0,), Stream.TEST, count=3)
    sentence, _ = sentences_of(batch, table)
    assert [row["text"] for row in rows if row["prompt"] == 1] == [f"sentence {i}" for i in sentence[0, 1, :-1]]
    assert rows[0]["query"] == f"sentence {sentence[0, 0, -1]}"
    assert all(row["label"] == 1 for row in rows if row["outlier"])


def test_what_a_trigger_does_to_vectors_is_measured():
    labels = np.arange(200) % 2
    vectors = np.random.default_rng(0).normal(size=(200, 4)) + np.outer(2 * labels - 1, [3.0, 0, 0, 0])

    def measured(shift):
        prompts = over(iclab.Table.of(vectors, labels, vectors + shift))
        run = iclab.train("mamba", prompts, iclab.Recipe(steps=0), seeds=1)
        return run.measure("trigger", prompts, count=1)

    whole, *parts = measured([0.0, 0.0, 6.0, 0.0])
    assert whole["size"] == pytest.approx(6 / np.linalg.norm(vectors, axis=1).mean(), rel=1e-4)
    assert whole["direction"] == pytest.approx(1, rel=1e-4)
    assert abs(whole["towards_class"]) < 0.1  # it is across the difference of the classes
    assert whole["detected"] > 0.98
    assert [row["component"] for row in parts] == [1, 2, 3, 4]
    assert [row["separability"] for row in parts] == pytest.approx([0, 0, 6 / vectors[:, 2].std(), 0], abs=1e-3)
    assert [row["chance"] for row in parts] == pytest.approx([0.5, 0.5, 1, 0.5], abs=1e-2)
    assert measured([1.0, 0.0, 0.0, 0.0])[0]["towards_class"] > 0.99
    none = measured(np.zeros(4))[0]  # an encoder may not see the trigger at all
    assert {none[name] for name in ("size", "direction", "towards_class")} == {0.0}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (([[1.0, 2.0], [3.0]], [0, 1]), "vectors = rows of different lengths"),
        (([[1.0, float("nan")], [3.0, 1.0]], [0, 1]), "vectors = NaN or infinite in row 0"),
        (([[1.0], [2.0]], [1, 1]), "labels = 1 everywhere: must be two classes"),
        (([[1.0], [2.0]], [1, 2]), "labels = 2: must be 0 and 1, or −1 and 1"),
        (([[1.0], [2.0]], [1]), r"labels = an array of shape \(1,\): must be \(2,\)"),
        (([1.0, 2.0], [0, 1]), r"vectors = an array of shape \(2,\)"),
        (([[1.0], [2.0]], [0, 1], [[1.0, 2.0], [1.0, 2.0]]), "triggered = an array of shape"),
    ],
)
def test_what_is_no_table_is_refused(arguments, why):
    with pytest.raises(InputError, match=why):
        Table.of(*arguments)


def test_what_has_no_meaning_for_a_table_is_refused():
    table = made()
    for more, why in (
        ({"irrelevant_scale": 1.0}, "irrelevant_scale = 1.0: tokens are rows of a table; leave it out"),
        ({"noise": 0.5}, "noise = 0.5"),
        (
            {"outliers": Outliers(fraction=0.1, scale=6.0)},
            "outliers.scale = 6.0: the trigger is in the table's vectors",
        ),
        ({"relevant_fraction": 0.5}, "needs a third relevant pattern"),
    ):
        with pytest.raises(InputError, match=why):
            over(table, **more)
    with pytest.raises(InputError, match=r"relevant_norm = 2\.0: own vectors is used as it is"):
        Patterns(table=table, relevant_norm=2.0)
    vectors, labels, _ = numbers()
    with pytest.raises(InputError, match="outlier = 0: prompts with outliers need"):
        over(Table.of(vectors, labels), outliers=Outliers(fraction=0.1))
    with pytest.raises(InputError, match="prompts need 21 sentences of each class, and own vectors has 20 of one"):
        over(table, context_length=20).draw((0,), Stream.TEST)
    run = iclab.train("linear", over(table), iclab.Recipe(steps=0), seeds=1)
    with pytest.raises(InputError, match="dimension = 3: must be that of the training prompts, 4"):
        run.error(over(Table.of(vectors[:, :3], labels)), count=10)
