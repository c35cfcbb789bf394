"""The samplers: pure functions of who asks, with every marginal and independence of M Definitions 1 and 2."""

import hashlib
import itertools

import numpy as np
import pytest
import torch
from drawn_prompts import (
    FRACTION,
    MIXTURES,
    PATTERNS,
    RULES,
    SCALE,
    assert_same,
    by_chance,
    by_lot,
    by_pattern,
    everything,
    make,
    observed,
    part,
    task_number,
)
from evenness import assert_distributed, assert_even, assert_independent, assert_shares, between
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from iclab.prompts import VERSION, Mixture, Outliers, Patterns, PromptBatch, Prompts, Stream
from iclab.prompts.counters import words

STREAMS = [Stream.TRAIN, Stream.TEST]
BIG = make(fraction=FRACTION)


@pytest.fixture(scope="module", params=STREAMS, ids=lambda stream: stream.name)
def big(request):
    """120 000 prompts of two seeds, 720 000 examples."""
    return BIG.draw([0, 1], request.param, step=5, count=60_000, dtype=np.float64)


# ---- purity ----------------------------------------------------------------------------------------------------------


VARIETIES = {
    "fraction": make(fraction=0.5),
    "count": make(count=2, labels="flip"),
    "stratified": make(fraction=0.5, balance="stratified"),
    "closest": make(fraction=0.5, placement="closest"),
    "mixtures": make(fraction=0.5, patterns=MIXTURES),
    "callables": make(fraction=0.5, placement=by_lot, labels=by_chance),
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


@pytest.mark.parametrize(
    "one, other",
    [
        ({"stream": Stream.TRAIN}, {"stream": Stream.TEST}),
        ({"seeds": [0]}, {"seeds": [1]}),
        ({"step": 0}, {"step": 1}),
        ({"first": 0}, {"first": 1}),
    ],
    ids=["streams", "seeds", "steps", "prompts"],
)
def test_neighbouring_prompts_are_independent(one, other):
    usual = {"seeds": [5], "stream": Stream.TRAIN, "count": 30_000}
    a, b = (observed(BIG.draw(**(usual | change)), BIG) for change in (one, other))
    for group in (0, 1):
        for name in a[group].keys() - {"position"}:
            assert_independent(a[group][name], b[group][name])


def test_neighbouring_examples_are_independent(big):
    _, of_examples, _ = observed(big, BIG)
    for name in of_examples.keys() - {"position"}:
        assert_independent(of_examples[name][..., :-1], of_examples[name][..., 1:])


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

    first_row, rows = (p.count, len(o.mixtures)) if o.mixtures else (p.relevant + p.irrelevant, p.outlier)
    index, coefficient, labels, truth = [], [], [], []
    for i, (w0, w1, w2, _) in enumerate(block):
        corrupted = i < length and flags[i]
        side = w0 >> 31 if i < length else query_side
        coin = -1 if w0 >> 30 & 1 else 1
        row = first_row + ((w0 & (2**30 - 1)) * rows >> 30) if corrupted else 0
        kappa = prompts.irrelevant_scale * ((2 * (w2 >> 8) + 1 - 2**24) / 2**24)
        index.append([task[side], p.relevant + (w1 * p.irrelevant >> 32), row])
        coefficient.append([1.0, kappa, o.scale if corrupted else 0.0])
        truth.append([1, -1][side])
        shown = {"random": coin, "flip": -truth[-1], "target": o.target}[o.labels] if corrupted else truth[-1]
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
    ],
    ids=["clean", "fraction", "farthest", "mixtures", "closest", "stratified"],
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


# ---- marginals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tasks, number", [("all", 20), ("ring:1", 5), ("unseen:ring:1", 15), ("3-1,0-4,1-3", 3)])
def test_every_task_is_equally_likely_and_no_other_occurs(tasks, number):
    prompts = make(length=1, tasks=tasks)
    assert len(prompts.pairs) == number
    assert_even(task_number(prompts.draw([0], Stream.TEST, count=150_000), prompts), number)


def test_prompt_marginals(big):
    of_prompts, _, _ = observed(big, BIG)
    assert_even(of_prompts["task"], 10)
    assert_even(of_prompts["query side"], 2)
    assert_even(of_prompts["query irrelevant"], 6)
    assert_distributed(big.coefficient[..., -1, 1], between(-SCALE, SCALE))


def test_example_marginals(big):
    _, of_examples, of_outliers = observed(big, BIG)
    assert_even(of_examples["side"], 2)
    assert_even(of_examples["irrelevant"], 6)
    assert_distributed(big.coefficient[..., :-1, 1], between(-SCALE, SCALE))
    assert_shares(of_examples["outlier"], [1 - FRACTION, FRACTION])
    assert_even(of_outliers["pattern"][big.outlier], 3)
    assert_even(of_outliers["shown"][big.outlier], 2)


def test_every_seed_has_the_marginals(big):
    for s in range(2):
        of_prompts, of_examples, _ = observed(part(big, [s], slice(None)), BIG)
        assert_even(of_prompts["task"], 10)
        assert_even(of_examples["irrelevant"], 6)
        assert_shares(of_examples["outlier"], [1 - FRACTION, FRACTION])


def test_steps_with_one_prompt_each_have_the_marginals():
    batches = [BIG.draw([0], Stream.TRAIN, step=step) for step in range(4000)]
    of_prompts, of_examples, _ = observed(PromptBatch.join(batches), BIG)
    assert_even(of_prompts["task"], 10)
    assert_even(of_prompts["query side"], 2)
    assert_even(of_examples["irrelevant"], 6)
    assert_shares(of_examples["outlier"], [1 - FRACTION, FRACTION])


@pytest.mark.parametrize("fraction", [0.0, 0.05, 0.5, 0.9, 1.0])
def test_the_fraction_of_outliers(fraction):
    flags = make(fraction=fraction).draw([2], Stream.TEST, count=30_000).outlier
    if fraction in (0.0, 1.0):
        assert flags.mean() == fraction
    else:
        assert_shares(flags, [1 - fraction, fraction])
        number = stats.binom(6, fraction).pmf(range(7))
        common = number * 30_000 > 25  # the rest would be too rare to count
        totals = flags.sum(-1)
        assert_shares(
            np.searchsorted(np.flatnonzero(common), totals[common[totals]]), number[common] / number[common].sum()
        )


@pytest.mark.parametrize("k", [0.0, 0.2, 3.0])
def test_kappa_stays_inside_its_interval(k):
    prompts = Prompts(irrelevant_scale=k)
    kappa = prompts.draw([0], Stream.TRAIN, count=5000, dtype=np.float64).coefficient[..., 1]
    assert (abs(kappa) < k).all() if k else (kappa == 0).all()
    if k:
        assert abs(kappa).max() > 0.999 * k
        assert_distributed(kappa, between(-k, k))


# ---- independence ----------------------------------------------------------------------------------------------------


OF_PROMPTS = ["task", "query side", "query irrelevant", "query kappa"]
OF_EXAMPLES = ["position", "side", "irrelevant", "kappa", "outlier"]


@pytest.mark.parametrize("a, b", list(itertools.combinations(OF_PROMPTS, 2)))
def test_what_makes_a_prompt_is_independent(big, a, b):
    of_prompts, _, _ = observed(big, BIG)
    assert_independent(of_prompts[a], of_prompts[b])


@pytest.mark.parametrize("b", OF_EXAMPLES[1:])
def test_examples_do_not_depend_on_their_prompt_position_or_each_other(big, b):
    of_prompts, of_examples, _ = observed(big, BIG)
    for prompt_wide in of_prompts.values():
        assert_independent(prompt_wide[..., None], of_examples[b])
    for a in OF_EXAMPLES[: OF_EXAMPLES.index(b)]:
        assert_independent(of_examples[a], of_examples[b])


@pytest.mark.parametrize("b", ["pattern", "shown"])
def test_the_pattern_and_random_label_of_an_outlier_depend_on_nothing(big, b):
    of_prompts, of_examples, of_outliers = observed(big, BIG)
    of_prompts = {name: np.broadcast_to(value[..., None], big.outlier.shape) for name, value in of_prompts.items()}
    causes = of_prompts | of_examples | {"pattern": of_outliers["pattern"]}
    for a in causes.keys() - {"outlier", b}:
        assert_independent(causes[a][big.outlier], of_outliers[b][big.outlier])


# ---- queries and clean tokens ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("placement", ["random", "farthest", "closest", by_lot])
@pytest.mark.parametrize("patterns", ["training", MIXTURES], ids=["training", "mixtures"])
def test_queries_are_never_outliers_and_show_the_label_0(placement, patterns):
    batch = make(fraction=1.0, placement=placement, patterns=patterns).draw([0], Stream.TEST, count=200)
    assert batch.outlier.all()
    assert (batch.coefficient[..., -1, 2] == 0).all()
    assert (batch.labels[..., -1, 0] == 0).all()
    np.testing.assert_array_equal(batch.target[..., 0] > 0, batch.index[..., -1, 0] == batch.task[..., 0])


def test_prompts_without_outlier_patterns_can_be_drawn():
    prompts = Prompts(patterns=Patterns(outlier=0), context_length=4)
    batch = prompts.draw([0], Stream.TEST, count=100)
    assert not batch.outlier.any()
    assert not batch.coefficient[..., 2].any()
    assert prompts.dictionary(prompts.patterns.basis(0)).shape == (16, 30)


def test_which_examples_share_the_querys_pattern():
    batch = make().draw([0, 1], Stream.TEST, count=50)
    for s, b, i in np.ndindex(2, 50, 6):
        assert batch.same_pattern[s, b, i] == (batch.true_labels[s, b, i, 0] == batch.target[s, b, 0])
    assert batch.length == 6


# ---- balance ---------------------------------------------------------------------------------------------------------


def combinations_of(batch, prompts):
    return 2 * task_number(batch, prompts) + (batch.target[..., 0] < 0)


@pytest.mark.parametrize("tasks, number", [("all", 40), ("ring:1", 10), ("0-3", 2)])
def test_stratified_batches_hold_every_task_and_query_side_equally_often(tasks, number):
    prompts = make(tasks=tasks, balance="stratified")
    for first, times, extra in [(0, 1, 0), (0, 3, 1), (17, 2, number - 1)]:
        batch = prompts.draw([0, 1, 2], Stream.TRAIN, step=9, first=first, count=times * number + extra)
        for row in combinations_of(batch, prompts):
            counts = np.bincount(row, minlength=number)
            assert len(counts) == number
            assert sorted(counts) == [times] * (number - extra) + [times + 1] * extra


def test_stratified_batches_start_anywhere():
    prompts = make(balance="stratified", tasks="ring:1", length=1)
    starts = [
        combinations_of(prompts.draw(range(20), Stream.TRAIN, step=step), prompts)[:, 0].astype(int)
        for step in range(300)
    ]
    assert_even(starts, 10)
    assert_independent(starts[:-1], starts[1:])
    assert_independent(np.array(starts)[:, :-1], np.array(starts)[:, 1:])


def test_stratified_batches_differ_from_independent_ones_only_in_task_and_query_side():
    dealt, drawn = (
        make(fraction=0.5, balance=balance).draw([0], Stream.TRAIN, count=100)
        for balance in ("stratified", "independent")
    )
    for name in ("coefficient", "labels", "outlier", "true_labels"):
        np.testing.assert_array_equal(getattr(dealt, name), getattr(drawn, name))
    np.testing.assert_array_equal(dealt.index[..., 1:], drawn.index[..., 1:])
    assert (dealt.task != drawn.task).any()


# ---- dense view ------------------------------------------------------------------------------------------------------


def literal_tokens(batch, dictionaries):
    """The tokens (x; y), one sum at a time."""
    seeds, prompts, tokens, parts = batch.index.shape
    width = dictionaries.shape[-1]
    out = np.zeros((seeds, prompts, tokens, width + 1))
    for s, b, t in np.ndindex(seeds, prompts, tokens):
        for k in range(parts):
            out[s, b, t, :width] += batch.coefficient[s, b, t, k] * dictionaries[s, batch.index[s, b, t, k]]
        out[s, b, t, width] = batch.labels[s, b, t, 0]
    return out


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("patterns", ["training", MIXTURES], ids=["training", "mixtures"])
def test_the_dense_view_is_the_literal_sum(dtype, patterns):
    prompts, seeds = make(fraction=0.5, patterns=patterns), [0, 4, 9]
    dictionaries = np.stack([prompts.dictionary(PATTERNS.basis(seed)) for seed in seeds])
    batch = prompts.draw(seeds, Stream.TEST, count=5, dtype=np.float64)
    dense = batch.dense(torch.tensor(dictionaries, dtype=dtype))
    assert dense.dtype == dtype
    assert dense.shape == (3, 5, 7, 18)
    tolerance = {torch.float64: 1e-13, torch.float32: 1e-5}[dtype]
    np.testing.assert_allclose(dense.double().numpy(), literal_tokens(batch, dictionaries), atol=tolerance)


# ---- any valid setting -----------------------------------------------------------------------------------------------


@st.composite
def some_outliers(draw, patterns, length):
    if not patterns.outlier:
        return Outliers()
    amount = draw(st.sampled_from(["fraction", "count"]))
    value = draw(st.floats(0, 1)) if amount == "fraction" else draw(st.integers(0, length))
    weight = st.floats(0.1, 2.0)
    outside = st.floats(0.5, 3.0) if patterns.count < patterns.dimension else st.just(0.0)
    mixture = st.builds(Mixture, weights=st.tuples(*[weight] * patterns.outlier), outside_norm=outside)
    return Outliers(
        **{amount: value},
        scale=draw(st.floats(0, 5)),
        placement=draw(st.sampled_from(["random", "farthest", "closest", by_lot])),
        patterns=draw(st.just("training") | st.lists(mixture, min_size=1, max_size=3)),
        **draw(st.sampled_from([*RULES.values(), {"labels": by_pattern}])),
    )


@st.composite
def some_prompts(draw):
    relevant, irrelevant, outlier = draw(st.integers(2, 6)), draw(st.integers(1, 6)), draw(st.integers(0, 4))
    dimension = relevant + irrelevant + outlier + draw(st.integers(0, 4))
    patterns = Patterns(dimension=dimension, relevant=relevant, irrelevant=irrelevant, outlier=outlier)
    length = draw(st.integers(1, 9))
    steps = draw(st.integers(1, relevant - 1))
    return Prompts(
        patterns=patterns,
        tasks=draw(st.sampled_from(["all", f"ring:{steps}", "1-0", "unseen:0-1"])),
        context_length=length,
        irrelevant_scale=draw(st.floats(0, 4)),
        outliers=draw(some_outliers(patterns, length)),
        balance=draw(st.sampled_from(["independent", "stratified"])),
    )


@settings(deadline=None, derandomize=True, max_examples=150)
@given(prompts=some_prompts(), seed=st.integers(0, 2**32 - 1), step=st.integers(0, 2**32 - 1))
def test_invariants_of_any_valid_setting(prompts, seed, step):
    p, o, length = prompts.patterns, prompts.outliers, prompts.context_length
    batch = prompts.draw([seed, 1], Stream.TEST, step=step, first=3, count=7, dtype=np.float64)
    relevant, irrelevant, extra = np.moveaxis(batch.index, -1, 0)
    one, kappa, strength = np.moveaxis(batch.coefficient, -1, 0)
    assert relevant.shape == (2, 7, length + 1)

    tasks = set(prompts.tasks.pairs(p.relevant))
    assert {tuple(pair) for pair in batch.task.reshape(-1, 2).tolist()} <= tasks
    positive = relevant == batch.task[..., :1]
    assert (positive ^ (relevant == batch.task[..., 1:])).all()
    truth = np.where(positive, 1.0, -1.0)
    np.testing.assert_array_equal(truth[..., :-1], batch.true_labels[..., 0])
    np.testing.assert_array_equal(truth[..., -1:], batch.target)
    assert ((irrelevant >= p.relevant) & (irrelevant < p.relevant + p.irrelevant)).all()

    assert (one == 1.0).all()
    assert (abs(kappa) <= prompts.irrelevant_scale).all()
    np.testing.assert_array_equal(strength[..., :-1], np.where(batch.outlier, o.scale, 0.0))
    assert (strength[..., -1] == 0).all()

    low = p.count if o.mixtures else p.relevant + p.irrelevant
    high = p.count + len(o.mixtures)
    corrupted_rows = extra[..., :-1][batch.outlier]
    assert ((corrupted_rows >= low) & (corrupted_rows < high)).all()
    assert prompts.dictionary(p.basis(seed)).shape == (high, p.dimension)
    if o.count is not None:
        assert (batch.outlier.sum(-1) == o.count).all()
    if o.placement == "farthest":
        assert (batch.outlier[..., :-1] >= batch.outlier[..., 1:]).all()
    if o.placement == "closest":
        assert (batch.outlier[..., :-1] <= batch.outlier[..., 1:]).all()

    shown = batch.labels[..., 0]
    np.testing.assert_array_equal(shown[..., :-1][~batch.outlier], batch.true_labels[..., 0][~batch.outlier])
    assert (abs(shown[..., :-1]) == 1).all()
    assert (shown[..., -1] == 0).all()

    alone = prompts.draw([seed], Stream.TEST, step=step, first=5, count=2, dtype=np.float64)
    assert_same(alone, part(batch, [0], slice(2, 4)))
