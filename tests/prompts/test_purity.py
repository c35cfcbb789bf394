"""A prompt depends only on its distribution, stream, seed, step and index, through the documented words."""

import hashlib
import itertools

import numpy as np
import pytest
from drawn_prompts import (
    MIXTURES,
    STREAMS,
    assert_same,
    by_chance,
    by_lot,
    everything,
    make,
    part,
)

from iclab.prompts import VERSION, PromptBatch, Stream
from iclab.prompts.counters import words

VARIETIES = {
    "fraction": make(fraction=0.5),
    "count": make(count=2, labels="flip"),
    "stratified": make(fraction=0.5, balance="stratified"),
    "closest": make(fraction=0.5, placement="closest"),
    "mixtures": make(fraction=0.5, patterns=MIXTURES),
    "callables": make(fraction=0.5, placement=by_lot, labels=by_chance),
    "label noise": make(fraction=0.3, label_noise=0.4),
    "outliers in the query": make(query=0.5, patterns=MIXTURES),
    "exact share of relevant patterns": make(relevant_count=4, label_noise=0.2),
}
varieties = pytest.mark.parametrize("prompts", VARIETIES.values(), ids=VARIETIES.keys())


@varieties
@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
def test_a_prompt_does_not_depend_on_the_company_it_is_drawn_in(prompts, stream):
    seeds = [0, 9, 2**32 - 1]
    whole = prompts.draw(seeds, stream, step=4, count=40)
    for first, count, chosen in [(0, 40, [1]), (7, 1, [0, 1, 2]), (13, 20, [2, 0]), (39, 1, [2])]:
        drawn = prompts.draw([seeds[s] for s in chosen], stream, step=4, first=first, count=count)
        assert_same(drawn, part(whole, chosen, slice(first, first + count)))


@varieties
def test_joined_slices_are_the_whole(prompts):
    whole = prompts.draw([3, 4], Stream.TRAIN, count=10)
    slices = [prompts.draw([3, 4], Stream.TRAIN, first=first, count=n) for first, n in [(0, 3), (3, 1), (4, 6)]]
    assert_same(PromptBatch.join(slices), whole)


@varieties
def test_both_precisions_see_the_same_prompt(prompts):
    single, double = (prompts.draw([0, 1], Stream.TEST, count=300, dtype=dtype) for dtype in (np.float32, np.float64))
    for name, array in everything(double).items():
        if name == "coefficient":
            np.testing.assert_allclose(single.coefficient, array, rtol=2.0**-22)
        else:
            np.testing.assert_array_equal(getattr(single, name), array)
    assert {single.coefficient.dtype, single.labels.dtype, single.target.dtype, single.true_labels.dtype} == {
        np.dtype(np.float32)
    }


def test_training_and_test_prompts_of_any_seed_and_step_share_no_draw():
    prompts = make(length=8)
    batches = [
        prompts.draw([0, 1], stream, step=step, count=2000, dtype=np.float64)
        for stream, step in itertools.product(STREAMS, [0, 1])
    ]
    kappas = np.concatenate([batch.coefficient[..., 1].reshape(-1, 9) for batch in batches])
    for position in (slice(0, 3), slice(6, 9)):
        assert len(np.unique(kappas[:, position], axis=0)) == len(kappas) == 16_000


def literal_prompt(prompts, seed, stream, step, number):
    """One prompt, word by word, as the module's introduction assigns them; plain Python integers."""
    p, o, length = prompts.patterns, prompts.outliers, prompts.context_length
    block = words([seed], stream, step=step, first=number, positions=length + 1)[0, 0].tolist()
    pairs = prompts.tasks.pairs(p.relevant)
    task, query_side = pairs[block[-1][3] * len(pairs) >> 32], block[-1][0] >> 31
    if prompts.balance == "stratified":
        start = int(words([seed], stream, step=step, slot=2)[0, 0, 0, 0]) * 2 * len(pairs) >> 32
        turn = (start + number) % (2 * len(pairs))
        task, query_side = pairs[turn // 2], turn % 2

    flags = []
    for i in range(length):
        if o.count is None:
            flags.append(block[i][3] < round(o.fraction * 2**32))
        else:
            flags.append(block[i][3] * (length - i) >> 32 < o.count - sum(flags))
    if o.placement == "farthest":
        flags = sorted(flags, reverse=True)
    elif o.placement == "closest":
        flags = sorted(flags)

    more = words([seed], stream + 6, step=step, first=number, positions=length + 1)[0, 0].tolist()
    first_row, rows = (p.count, len(o.mixtures)) if o.mixtures else (p.relevant + p.irrelevant, p.outlier)
    index, coefficient, labels, truth = [], [], [], []
    for i, (w0, w1, w2, _) in enumerate(block):
        corrupted = flags[i] if i < length else more[i][0] < round(o.query * 2**32)
        side = w0 >> 31 if i < length else query_side
        coin = -1 if w0 >> 30 & 1 else 1
        which = (w0 & (2**30 - 1)) * rows >> 30 if i < length else more[i][1] * rows >> 32
        row = first_row + which if corrupted else 0
        kappa = prompts.irrelevant_scale * ((2 * (w2 >> 8) + 1 - 2**24) / 2**24)
        index.append([task[side], p.relevant + (w1 * p.irrelevant >> 32), row])
        coefficient.append([1.0, kappa, o.scale if corrupted else 0.0])
        truth.append([1, -1][side])
        turned = -1 if more[i][0] < round(prompts.label_noise * 2**32) else 1
        shown = {"random": coin, "flip": -truth[-1], "target": o.target}[o.labels] if corrupted else turned * truth[-1]
        labels.append(shown if i < length else 0)
    return {
        "index": index,
        "coefficient": coefficient,
        "labels": np.reshape(labels, (-1, 1)),
        "target": [truth[-1]],
        "outlier": flags,
        "true_labels": np.reshape(truth[:-1], (-1, 1)),
        "task": task,
    }


@pytest.mark.parametrize(
    "prompts",
    [
        make(),
        make(fraction=0.6, scale=1.5),
        make(count=4, labels="flip", placement="farthest"),
        make(count=2, tasks="0-3", patterns=MIXTURES, length=3),
        make(fraction=0.5, labels="target", target=-1, placement="closest", tasks="unseen:ring:2"),
        make(fraction=1.0, balance="stratified"),
        make(fraction=0.3, label_noise=0.4, query=0.5, scale=1.5),
    ],
    ids=["clean", "fraction", "farthest", "mixtures", "closest", "stratified", "noise and query"],
)
def test_prompts_are_built_from_the_documented_words(prompts):
    seeds, step, first = [2, 77], 3, 5
    batch = prompts.draw(seeds, Stream.TRAIN, step=step, first=first, count=25, dtype=np.float64)
    for s, b in np.ndindex(2, 25):
        expected = literal_prompt(prompts, seeds[s], Stream.TRAIN, step, first + b)
        for name, array in everything(batch).items():
            np.testing.assert_array_equal(array[s, b], expected[name], err_msg=name)


def test_the_same_description_gives_the_same_prompts_until_the_version_changes():
    digest = hashlib.sha256()
    for prompts in (make(fraction=0.5), make(count=3, labels="flip", balance="stratified")):
        batch = prompts.draw([0, 1], Stream.TRAIN, step=2, count=20, dtype=np.float64)
        for name in ("index", "coefficient", "labels"):
            digest.update(getattr(batch, name).astype("<f8").tobytes())
    known = {1: "5cad14c2f4c86183"}
    assert known.get(VERSION) == digest.hexdigest()[:16], "other prompts than before: bump VERSION and add the digest"
