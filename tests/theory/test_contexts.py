"""What a prompt can say at all, against prompts that were drawn."""

import pytest
from scipy.stats import binomtest

from iclab.prompts import Patterns, Prompts, Stream
from iclab.theory.contexts import lacking, length_for


@pytest.mark.parametrize(("fraction", "length"), [(1.0, 3), (0.8, 5), (0.4, 10)])
def test_prompts_lack_the_querys_pattern_as_often_as_said(fraction, length):
    prompts = Prompts(patterns=Patterns(outlier=0), tasks="all", relevant_fraction=fraction, context_length=length)
    lacks = ~prompts.draw([0, 1], Stream.TEST, count=10_000).same_pattern.any(-1)
    assert binomtest(int(lacks.sum()), lacks.size, lacking(fraction, length)).pvalue > 1e-4


def test_a_length_after_which_few_prompts_lack_it():
    assert lacking(0.6, 1) ** length_for(0.6, 0.02) == pytest.approx(0.02)
    assert length_for(0.4, 0.02) > length_for(0.8, 0.02)
