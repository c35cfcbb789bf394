"""T-fig3's claims: the paper's, and iclab's own about single seeds, GPT-2's attention and where errors come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from iclab.papers.nonlinear.fig3_settings import DOMAINS, SMALL, ShiftSettings, own_columns
from iclab.papers.nonlinear.settings import LARGEST_SUM, GPT2Paper
from iclab.probes import Row
from iclab.study.claims import Claim, Judgement, Point, every_above, every_below, every_within, judged, mean_point
from iclab.study.rows import error_points, errors, listed, paired_points, seed_points, values

UNSEEN = {"softmax-mlp": 0.005, "gpt2": SMALL}
"""The paper: in domain the error on unseen tasks goes to 0. Read as: below this. GPT-2, which no theorem is about, has
the margin that the paper gives out of domain."""
ATTENTION = 0.8
"""The paper: attention on examples with the query's pattern is 1 − Θ(M1^−C). Read as: above this, out of domain too."""


def claims_of(settings: ShiftSettings, model: str) -> list[Claim]:
    """Return every claim about one model: both sides of S1 = 1, unseen tasks, attention, the price of a small α'."""
    about = [
        *_sum_claims(settings, model),
        *_unseen_claims(settings, model),
        _attention_claim(settings, model),
        *_length_claims(settings, model),
    ]
    about = [replace(claim, models=(model,)) for claim in about]
    return [if_trained(claim, settings) for claim in about] if model == "gpt2" else about


def _sum_claims(settings: ShiftSettings, model: str) -> list[Claim]:
    above, below = [s for s in settings.sums if s >= 1], [s for s in settings.sums if s < 1]
    return [
        Claim(
            f"T-fig3.ood-small.{model}",
            "the out-of-domain error is < 0.01 when S1 ≥ 1",
            f"mean error < {SMALL} at S1 = {listed(above)}",
            judged(_sums(settings, model, above), every_below, SMALL),
        ),
        Claim(
            f"T-fig3.ood-rises.{model}",
            "the out-of-domain error deviates from 0 when S1 < 1, so (12) is necessary",
            f"error at S1 = {listed(below)} − error at the largest S1 > 0, paired by seed",
            judged(partial(_rises, settings=settings, model=model, sums=below), every_above, 0.0),
        ),
        Claim(
            f"T-fig3.ood-every-seed.{model}",
            "the out-of-domain error is < 0.01 when S1 ≥ 1, for every seed",
            f"error < {SMALL} for every seed at S1 = {listed(above)}",
            judged(partial(_seed_by_seed, settings=settings, model=model, sums=above), every_below, SMALL),
            ours=True,
        ),
    ]


def _unseen_claims(settings: ShiftSettings, model: str) -> list[Claim]:
    where: Row = {"model": model, "panel": "unseen", "probe": "error"}
    mean = partial(error_points, seeds=settings.seeds, cells=[("", where)])
    every = partial(seed_points, seeds=settings.seeds, **where)
    tested = f"< {UNSEEN[model]}, α' = {settings.relevant_fraction:g}"
    return [
        Claim(
            f"T-fig3.unseen.{model}",
            "in domain the trained model generalises to unseen tasks",
            f"mean error on unseen tasks {tested}",
            judged(mean, every_below, UNSEEN[model]),
        ),
        Claim(
            f"T-fig3.unseen-every-seed.{model}",
            "in domain every seed generalises to unseen tasks",
            f"error of every seed on unseen tasks {tested}",
            judged(every, every_below, UNSEEN[model]),
            ours=True,
        ),
    ]


def _attention_claim(settings: ShiftSettings, model: str) -> Claim:
    attention = mean_point(settings.seeds, partial(_attention, settings=settings, model=model))
    return Claim(
        f"T-fig3.attention.{model}",
        "attention concentrates on examples with the query's pattern, out of domain too (Corollary 4.3"
        + (", of the one-layer model)" if model == "gpt2" else ")"),
        f"attention on them > {ATTENTION}, mean over prompts and seeds, S1 = {LARGEST_SUM:.2f}, last layer",
        judged(attention, every_above, ATTENTION),
        ours=model == "gpt2",
    )


def _length_claims(settings: ShiftSettings, model: str) -> list[Claim]:
    return [
        Claim(
            f"T-fig3.length.{domain}.{model}",
            f"a longer testing context is needed when α' is smaller ({name})",
            "error at the smallest α' − error at the largest > 0 at every length up to that of training, on paired "
            "seeds",
            judged(partial(_lengths, settings=settings, model=model, domain=domain), every_above, 0.0),
        )
        for domain, name in DOMAINS.items()
    ]


def leak_claim(settings: ShiftSettings) -> Claim:
    """Return iclab's claim about where errors out of domain come from."""
    return Claim(
        "T-fig3.leak",
        "out of domain, errors come from attention on other patterns",
        f"error of the one-layer model − error of a vote weighted by its attention within ±{SMALL} at every S1 in "
        "[0, 1), where there are errors",
        judged(partial(_leaks, settings=settings), every_within, -SMALL, SMALL),
        models=("softmax-mlp",),
        ours=True,
    )


def if_trained(claim: Claim, settings: GPT2Paper) -> Claim:
    """Decide nothing about a GPT-2 with less than its whole training, as in the quick edition."""
    whole = GPT2Paper().gpt2_steps
    if settings.gpt2_steps >= whole:
        return claim

    def judge(rows: list[Row]) -> Judgement:
        found = claim.judge(rows)
        if found.verdict == "not run":
            return found
        short = f"after {settings.gpt2_steps} of {whole} steps"
        where = f"{found.where}; {short}" if found.where else short
        return replace(found, verdict="undecided", where=where, withheld=short)

    return replace(claim, judge=judge)


def _sums(settings: ShiftSettings, model: str, sums: Sequence[float]) -> Callable[[list[Row]], list[Point] | None]:
    own = own_columns(settings, model)
    cells = [(f"S1 = {s:g}", {**own, "panel": "sum", "sum": s, "probe": "error"}) for s in sums]
    return partial(error_points, seeds=settings.seeds, cells=cells)


def _rises(rows: list[Row], settings: ShiftSettings, model: str, sums: Sequence[float]) -> list[Point] | None:
    """Return error at each S1 − error at the largest, on paired seeds."""
    where = {**own_columns(settings, model), "panel": "sum", "probe": "error"}
    most = errors(rows, **where, sum=max(settings.sums))
    return paired_points(((f"S1 = {s:g}", errors(rows, **where, sum=s), most) for s in sums), settings.seeds)


def _seed_by_seed(rows: list[Row], settings: ShiftSettings, model: str, sums: Sequence[float]) -> list[Point] | None:
    points: list[Point] = []
    for total in sums:
        found = seed_points(rows, settings.seeds, **own_columns(settings, model), panel="sum", sum=total, probe="error")
        if found is None:
            return None
        points += found
    return points


def _leaks(rows: list[Row], settings: ShiftSettings) -> list[Point] | None:
    """Return error of the one-layer model − error of a vote weighted by its attention, at every S1 in [0, 1)."""
    pairs = []
    for total in (s for s in settings.sums if 0 <= s < 1):
        where = {**own_columns(settings, "softmax-mlp"), "panel": "sum", "sum": total}
        model, vote = (errors(rows, **where, probe=probe) for probe in ("error", "attended"))
        pairs.append((f"S1 = {total:g}", model, vote))
    return paired_points(pairs, settings.seeds)


def _attention(rows: list[Row], settings: ShiftSettings, model: str) -> dict[int, float | None]:
    layer = settings.gpt2_layers if model == "gpt2" else 1
    lost = values(rows, "same", model=model, probe="attention", diverged=True)
    return values(rows, "same", model=model, probe="attention", layer=layer) | lost


def _lengths(rows: list[Row], settings: ShiftSettings, model: str, domain: str) -> list[Point] | None:
    """Return error at the smallest α' − error at the largest, at every length up to that of training."""
    if len(settings.test_fractions) < 2:
        return None
    pairs = []
    for length in (n for n in settings.lengths if n <= settings.context_length):  # longer prompts leave no errors
        where = {"model": model, "probe": "error", "panel": "length", "domain": domain, "length": length}
        small, large = (
            errors(rows, **where, fraction=fraction)
            for fraction in (min(settings.test_fractions), max(settings.test_fractions))
        )
        pairs.append((f"length {length}", small, large))
    return paired_points(pairs, settings.seeds)
