"""T-fig4: in-context learning against classical learners fitted on the same examples."""

from __future__ import annotations

from functools import partial
from itertools import cycle
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from iclab.engines import Recipe, Training
from iclab.models import Model
from iclab.papers.nonlinear.settings import LARGEST_SUM, NonlinearPaper
from iclab.probes import Row
from iclab.prompts import Prompts
from iclab.study.charts import DASHED, DOTTED, FAINT, Axis, Figure, Panel, Series, colour_of, reference
from iclab.study.claims import Claim, Point, every_above, every_below, judged
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.rows import errors, mean_text, paired_points, proportion
from iclab.study.settings import Chosen, Different, Disclosed
from iclab.theory.bayes import bayes_error
from iclab.theory.contexts import guessed

ICL = "ICL"
CLEAR = 0.01
"""A clear win is read as: the error is smaller by more than this."""
LEARNER_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#222222")
GUESS = reference("pattern absent: a guess", DOTTED)
BAYES = reference("Bayes rule", DASHED, FAINT)
MIXTURES = 3
"""Patterns of T's prompts out of domain."""
DOMAINS = {"in": "in domain, unseen tasks", "out": "out of domain"}

Learner = dict[str, bool | float | str]


class LearnerSettings(NonlinearPaper):
    """Settings of T-fig4."""

    learners: Annotated[
        dict[str, Learner], Disclosed("the five of T Figure 4; T does not give their settings: scikit-learn's defaults")
    ] = {
        "logistic": {"learner": "logistic"},
        "SVM Gau.": {"learner": "svm-rbf"},
        "SVM Lin.": {"learner": "svm-linear"},
        "1-NN": {"learner": "1-nn"},
        "3-NN": {"learner": "3-nn"},
    }
    # `iclab run T-fig4 --quick --set 'lengths=[20]' --set test_prompts=100 --set tuned=…`, with all candidates.
    tuned: Annotated[
        dict[str, Learner],
        Chosen(
            "the best of C = 0.01, 0.1, 1, 10, 100, inputs as they are or divided by their length, and k = 1, 3, 5, 7, "
            "out of domain at l = 20; error at α' = 0.8 / 0.6, and of defaults in brackets. Logistic 0.040 / 0.085 "
            "(0.051 / 0.10), Gaussian SVM 0.14 / 0.18 (0.28 / 0.37), linear SVM 0.033 / 0.071 (0.035 / 0.079), 1-NN "
            "0.10 / 0.11 (0.16 / 0.21), 3-NN 0.019 / 0.025 (0.20 / 0.28), 5-NN 0.005 / 0.013 (0.30 / 0.34)"
        ),
    ] = {
        "logistic, tuned": {"learner": "logistic", "penalty": 100.0},
        "SVM Gau., tuned": {"learner": "svm-rbf", "penalty": 10.0, "cosine": True},
        "SVM Lin., tuned": {"learner": "svm-linear", "penalty": 0.1},
        "1-NN, cosine": {"learner": "1-nn", "cosine": True},
        "3-NN, cosine": {"learner": "3-nn", "cosine": True},
        "5-NN, cosine": {"learner": "5-nn", "cosine": True},
    }
    test_fractions: Annotated[
        tuple[Annotated[float, Field(gt=0, le=1)], ...], Field(min_length=2), Different, Disclosed("α', T Figure 4")
    ] = (0.8, 0.6)
    lengths: Annotated[
        tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1), Different, Chosen("l_ts, T Figure 4", grid=True)
    ] = (5, 10, 20, 40)
    domains: Annotated[
        tuple[Literal["in", "out"], ...],
        Field(min_length=1),
        Different,
        Chosen("T does not say which one Figure 4 shows", grid=True),
    ] = ("in", "out")
    test_prompts: Annotated[
        int, Field(ge=1), Chosen("per seed and point: each needs a fit of every learner", grid=True)
    ] = 500

    @model_validator(mode="after")
    def _named_once(self) -> Self:
        twice = self.learners.keys() & self.tuned.keys()
        if twice or ICL in self.learners | self.tuned:
            raise ValueError(f"learners and tuned: {', '.join(twice or [ICL])} is the name of another")
        return self

    def quick(self) -> Self:
        """Return the quick edition: out of domain alone, two lengths, fewer prompts."""
        return (
            super()
            .quick()
            .replace(
                domains=self.domains[-1:],
                lengths=tuple(n for n in self.lengths if n in (10, 20)) or self.lengths,
                test_prompts=min(self.test_prompts, 60),
            )
        )

    def training_of(self, name: str) -> Training:
        """Return the training of T's Transformer, or of a learner, which takes no steps."""
        if name == ICL:
            return self.training()
        options = (self.learners | self.tuned)[name]
        return Training(
            model=Model(name="classical", options=dict(options)),
            prompts=self.prompts(),
            recipe=Recipe(steps=0),
            engine=self.engine,
        )

    def prompts_in(self, domain: str, **changes: Any) -> Prompts:
        """Return prompts of unseen tasks in domain, or of all tasks out of domain at the largest S1."""
        if domain == "in":
            return self.prompts(tasks=self.unseen(), **changes)
        return self.out_of_domain(LARGEST_SUM, **changes)


class Learners(Experiment[LearnerSettings]):
    """Error against context length, for ICL and classical learners."""

    id = "T-fig4"
    title = "In-context learning against classical learners"
    paper = (
        "At α' = 0.8 the advance of ICL over other algorithms is not significant; at α' = 0.6 ICL is the most "
        "sample-efficient for a small error."
    )
    reading = (
        "The error of T's Transformer (ICL), and of classical learners fitted on the examples of each prompt, against "
        "the number of examples. Solid: scikit-learn's defaults, which the paper probably used. Dashed: the best "
        "setting of each for these prompts, which favours them. Dotted: a guess where no example shows the query's "
        "pattern, and no error elsewhere; grey dashes: the Bayes rule, the best that any learner can do. All see the "
        "same prompts."
    )
    settings = LearnerSettings

    def conditions(self, settings: LearnerSettings) -> list[Condition]:
        """Every learner on every kind of prompt."""
        found = []
        for name in (ICL, *settings.learners, *settings.tuned):
            training = settings.training_of(name)
            for domain, fraction, length in _places(settings):
                found += in_groups(
                    settings,
                    {"learner": name, "domain": domain, "fraction": fraction, "length": length},
                    training,
                    probe="error",
                    prompts=settings.prompts_in(domain, relevant_fraction=fraction, context_length=length),
                    count=settings.test_prompts,
                )
        return found

    def claims(self, settings: LearnerSettings) -> list[Claim]:
        """No clear win at the larger α', a clear win at the smaller."""
        easy, hard = max(settings.test_fractions), min(settings.test_fractions)
        length = _compared(settings)
        claims = []
        for domain in settings.domains:
            for group, others in (("default", settings.learners), ("tuned", settings.tuned)):
                if not others:
                    continue
                where: dict[str, Any] = {"settings": settings, "domain": domain, "names": tuple(others)}
                claims += [
                    Claim(
                        f"T-fig4.no-win.{group}.{domain}",
                        "when α' = 0.8 the advance of ICL over other algorithms is not significant",
                        f"error of the best learner ({group}) − error of ICL < {CLEAR} at every length, α' = {easy:g}, "
                        f"{DOMAINS[domain]}",
                        judged(partial(_gaps, fraction=easy, **where), every_below, CLEAR),
                    ),
                    Claim(
                        f"T-fig4.win.{group}.{domain}",
                        "when α' = 0.6 ICL is the most sample-efficient",
                        f"error of every learner ({group}) − error of ICL > {CLEAR} at l = {length}, α' = {hard:g}, "
                        f"{DOMAINS[domain]}, paired by seed",
                        judged(partial(_ahead, fraction=hard, **where), every_above, CLEAR),
                    ),
                ]
            where = {"settings": settings, "domain": domain, "names": (*settings.learners, *settings.tuned)}
            claims.append(
                Claim(
                    f"T-fig4.ahead.{domain}",
                    "ICL is more robust to random noise in labels than other learning algorithms",
                    f"error of every learner, tuned or not, − error of ICL > 0 at l = {length}, α' = {hard:g}, "
                    f"{DOMAINS[domain]}, paired by seed",
                    judged(partial(_ahead, fraction=hard, **where), every_above, 0.0),
                )
            )
        return claims

    def table(self, rows: list[Row], settings: LearnerSettings) -> list[dict[str, Any]]:
        """One line per learner and kind of prompt, one column per length."""
        lines = []
        for domain in settings.domains:
            for fraction in settings.test_fractions:
                for name in (ICL, *settings.learners, *settings.tuned):
                    line: dict[str, Any] = {"domain": domain, "α'": f"{fraction:g}", "learner": name}
                    for length in settings.lengths:
                        where = {"learner": name, "domain": domain, "fraction": fraction, "length": length}
                        p = proportion(rows, **where)
                        line[f"l = {length}"] = "–" if p is None else p.short()
                    longest = {"learner": name, "domain": domain, "fraction": fraction, "length": max(settings.lengths)}
                    hinge = (
                        mean_text(rows, "hinge", **longest) if name == ICL else ""
                    )  # the others' outputs have another scale
                    line["hinge loss, longest"] = hinge
                    lines.append(line)
        return lines

    def chart(self, rows: list[Row], settings: LearnerSettings) -> Figure:
        """One panel per domain and α'."""
        looks = _looks(settings)
        panels = [_panel(rows, settings, d, f, looks) for d in settings.domains for f in settings.test_fractions]
        return Figure(panels, columns=len(settings.test_fractions), width=340)


def _looks(settings: LearnerSettings) -> dict[str, Series]:
    """Return how each learner is drawn: defaults solid, tuned ones dashed, ICL last and thick."""
    default = zip(settings.learners, cycle(LEARNER_COLOURS), strict=False)
    tuned = zip(settings.tuned, cycle(LEARNER_COLOURS), strict=False)
    looks = {name: Series(name, colour) for name, colour in default}
    looks |= {name: Series(name, colour).beside(name) for name, colour in tuned}
    return looks | {ICL: Series(ICL, colour_of("softmax-mlp"), width=3.0, size=45.0)}


def _panel(rows: list[Row], settings: LearnerSettings, domain: str, fraction: float, looks: dict[str, Series]) -> Panel:
    title = f"{DOMAINS[domain]}, α' = {fraction:g}"
    panel = Panel(title, x=Axis("examples in a prompt", zero=False), y=Axis("error"), height=250)
    for name, series in looks.items():
        where = {"learner": name, "domain": domain, "fraction": fraction}
        found = [errors(rows, **where, length=length) for length in settings.lengths]
        panel.curve(series, settings.lengths, found, band=name == ICL)
    shortest, longest = min(settings.lengths), max(settings.lengths)
    fine = [shortest + (longest - shortest) * i / 60 for i in range(61)]
    panel.line(GUESS, fine, [guessed(fraction, length) for length in fine])
    whole = sorted({round(length) for length in fine})
    patterns = settings.relevant if domain == "in" else MIXTURES
    panel.line(BAYES, whole, [bayes_error(patterns, fraction, length) for length in whole], marks=False)
    return panel


def _places(settings: LearnerSettings) -> list[tuple[str, float, int]]:
    return [(d, f, n) for d in settings.domains for f in settings.test_fractions for n in settings.lengths]


def _compared(settings: LearnerSettings) -> int:
    """Return the length at which learners are compared: that of the training prompts if it is measured."""
    return settings.context_length if settings.context_length in settings.lengths else max(settings.lengths)


def _ahead(
    rows: list[Row], settings: LearnerSettings, domain: str, names: tuple[str, ...], fraction: float
) -> list[Point] | None:
    """Return error of each learner − error of ICL, at the length of the training prompts."""
    where = {"domain": domain, "fraction": fraction, "length": _compared(settings)}
    ours = errors(rows, learner=ICL, **where)
    return paired_points(((name, errors(rows, learner=name, **where), ours) for name in names), settings.seeds)


def _gaps(
    rows: list[Row], settings: LearnerSettings, domain: str, names: tuple[str, ...], fraction: float
) -> list[Point] | None:
    """Return error of the best learner − error of ICL at every length; the best has the smallest mean."""
    pairs = []
    for length in settings.lengths:
        where = {"domain": domain, "fraction": fraction, "length": length}
        found = {name: proportion(rows, learner=name, **where) for name in names}
        means = {name: p.mean for name, p in found.items() if p is not None and p.mean is not None}
        if len(means) < len(names):
            return None
        best = min(means, key=lambda name: means[name])
        theirs, ours = (errors(rows, learner=name, **where) for name in (best, ICL))
        pairs.append((f"length {length}, {best}", theirs, ours))
    return paired_points(pairs, settings.seeds)
