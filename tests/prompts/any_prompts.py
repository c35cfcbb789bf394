"""Descriptions of prompts with every field, at random."""

from drawn_prompts import RULES
from hypothesis import strategies as st

from iclab.prompts import Mixture, Outliers, Patterns, Prompts

CHANCE = st.sampled_from([0.0, 0.0, 1e-12, 0.3, 1.0]) | st.floats(0, 1)


@st.composite
def any_outliers(draw, patterns, length, rules=(), placements=(), together=False):
    """Describe outliers, also by users' functions if some are given."""
    if not patterns.outlier:
        return Outliers()
    amount = {"fraction": draw(CHANCE)} if draw(st.booleans()) else {"count": draw(st.integers(0, length))}
    outside = st.floats(0.5, 3.0) if patterns.count < patterns.dimension else st.just(0.0)
    weights = st.tuples(*[st.floats(0.1, 2.0)] * patterns.outlier)
    mixture = st.builds(Mixture, weights=weights, outside_norm=outside)
    return Outliers(
        **amount,
        query=draw(CHANCE),
        together=together,
        scale=draw(st.floats(0, 5)),
        placement=draw(st.sampled_from(["random", "farthest", "closest", *placements])),
        patterns=draw(st.just("training") | st.lists(mixture, min_size=1, max_size=3)),
        **draw(st.sampled_from([*RULES.values(), *({"labels": rule} for rule in rules)])),
    )


def mixtures_of(known, least):
    """Describe mixtures of ``known`` patterns: none, or at least so many."""
    one = st.tuples(*[st.floats(-2.0, 2.0)] * known)
    return st.just(()) | st.lists(one, min_size=least, max_size=known).map(tuple)


@st.composite
def any_prompts(draw, rules=(), placements=(), several=False):
    """Describe prompts of paper M, T or S, or of none."""
    relevant, irrelevant, outlier = draw(st.integers(2, 6)), draw(st.integers(1, 6)), draw(st.integers(0, 4))
    dimension = relevant + irrelevant + outlier + draw(st.integers(0, 4))
    patterns = Patterns(dimension=dimension, relevant=relevant, irrelevant=irrelevant, outlier=outlier)
    length = draw(st.integers(1, 23))
    mixtures = draw(mixtures_of(relevant, 2))
    shown = len(mixtures) or relevant
    shares = [{}]
    if shown > 2:
        count = st.integers(1, length).map(lambda count: {"relevant_count": count})
        shares += [draw(count), {"relevant_fraction": draw(st.sampled_from([1e-9, 0.6, 1.0]))}]
    vectors = {"label_dimension": draw(st.integers(1, 4)), "label_norm": draw(st.floats(0.1, 3.0))}
    levels = draw(st.integers(1, 3)) if several else 1
    kinds = [{}, {"label_values": "real"}, vectors][: 3 if levels == 1 else 2]
    signal = st.tuples(st.floats(0.1, 3.0), st.floats(0.1, 3.0)).map(lambda pair: tuple(sorted(pair)))
    return Prompts(
        patterns=patterns,
        tasks=draw(st.sampled_from(["all", f"ring:{draw(st.integers(1, shown - 1))}", "1-0", "unseen:0-1"])),
        context_length=length,
        irrelevant_scale=draw(st.floats(0, 4)),
        signal=draw(st.just((1.0, 1.0)) | signal),
        noise=draw(st.sampled_from([0.0, 0.0, 0.7])) if levels == 1 else 0.0,
        outliers=draw(any_outliers(patterns, length, rules, placements, levels > 1 and draw(st.booleans()))),
        levels=levels,
        balance=draw(st.sampled_from(["independent", "stratified"])),
        label_noise=draw(CHANCE),
        relevant_mixtures=mixtures,
        irrelevant_mixtures=draw(mixtures_of(irrelevant, 1)),
        **draw(st.sampled_from(shares)),
        **draw(st.sampled_from(kinds)),
    )
