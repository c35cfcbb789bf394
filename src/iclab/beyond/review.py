"""M-review: the checks and failure signatures that a review of paper M names, and length and direction beside them."""

from __future__ import annotations

import warnings
from typing import Any

from iclab.beyond.review_chart import draw
from iclab.beyond.review_claims import claims
from iclab.beyond.review_rows import PLACES, SIGNATURES, where
from iclab.beyond.review_settings import ReviewSettings
from iclab.config import OutsideTheoremWarning
from iclab.engines import Training
from iclab.probes import Row
from iclab.prompts import Prompts
from iclab.study.charts import Figure, name_of
from iclab.study.claims import Claim
from iclab.study.experiment import Condition, Experiment, in_groups
from iclab.study.rows import proportion

MODELS = ("mamba", "linear")


class Review(Experiment[ReviewSettings]):
    """What a review asked of paper M."""

    id = "M-review"
    title = "The review's checks: overlap, depth, magnitude, and where it fails"
    paper = (
        "A review of the paper proposes to relax the orthogonality of patterns step by step, to compare two layers "
        "with one (do the gates' benefits compound or diminish?), and to vary the outliers' magnitude beyond its "
        "bounds. It lists failure signatures: α beyond p_a l_tr/l_ts, outliers next to the query, too few iterations, "
        "κ_a outside [V β⁻⁴, Θ(ε⁻¹)]."
    )
    reading = (
        "Errors of one layer are exact worst cases over all labels of the outliers, and those of several layers are "
        "under flipped labels (in I under random ones, as in the paper's Table 1). Lines are means over seeds, bands "
        "run from the lowest to the highest. A, B: patterns that overlap. C, D: layers of Mamba, their errors and "
        "gates. E, F: strengths of outliers in training and tests, with the frontiers that theory names. G: test "
        "outliers from orthogonal to parallel to those of the training. H: prompts from a quarter to 16 times the "
        "training's length. I: each failure signature inside and outside its bound."
    )
    caption = "mean and 95 % interval of the error; gates: see the figure"
    theorems = ("M-thm1", "M-thm2", "M-thm4")
    settings = ReviewSettings

    def conditions(self, settings: ReviewSettings) -> list[Condition]:
        """Return all checks, one after another."""
        checks = (_overlap, _depth, _magnitude, _direction, _length, _signatures)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OutsideTheoremWarning)  # these leave the theorems on purpose
            return [condition for check in checks for condition in check(settings)]

    def claims(self, settings: ReviewSettings) -> list[Claim]:
        """Return one claim or more per check."""
        return claims(settings)

    def table(self, rows: list[Row], settings: ReviewSettings) -> list[dict[str, Any]]:
        """Return one line per condition."""
        lines = []
        for columns in {tuple(c.columns.items()): c.columns for c in self.conditions(settings)}.values():
            if columns["check"] == "gates":
                continue
            p = proportion(rows, **columns)
            line = {"check": columns["check"], "model": name_of(columns["model"]), "curve": columns["curve"]}
            lines.append(line | {"x": f"{columns['x']:g}", "y": f"{columns['y']:g}", "error": p.short() if p else "–"})
        return lines

    def chart(self, rows: list[Row], settings: ReviewSettings) -> Figure:
        """Draw one panel or two per check."""
        return draw(rows, settings)


def _worst(
    settings: ReviewSettings, columns: dict[str, Any], training: Training, prompts: Prompts, probe: str = "worst"
) -> list[Condition]:
    return in_groups(settings, columns, training, prompts=prompts, probe=probe)


def _overlap(settings: ReviewSettings) -> list[Condition]:
    """Train and test on patterns with a common angle, and on random ones."""
    found = []
    usual = settings.training("mamba").prompts.patterns
    sets = [("coherence", c, 0, usual.replace(coherence=c)) for c in settings.coherences]
    sets += [
        ("dimension", float(d), draw, settings.random_patterns(d, draw))
        for d in settings.dimensions
        for draw in range(settings.draws)
    ]
    for check, x, y, patterns in sets:
        for model in MODELS:
            training = settings.overlapping(model, patterns)
            for fraction in settings.fractions:
                prompts = settings.tests(fraction=fraction).replace(patterns=patterns)
                found += _worst(settings, where(check, model, f"α = {fraction:g}", x, y), training, prompts)
    return found


def _depth(settings: ReviewSettings) -> list[Condition]:
    """Measure so many layers of Mamba under flipped labels at each placement, and their gates."""
    found = []
    for stream in settings.streams:
        for depth in settings.depths:
            deep, training = settings.deep(depth), settings.deep_training(depth, stream)
            for labels in ("random", "flip"):
                for place, name in PLACES.items():
                    prompts = deep.replace(outlier_labels=labels).placed(place)
                    columns = where("depth", "deep-mamba", f"{stream}, {labels}, {name}", depth)
                    found += in_groups(settings, columns, training, prompts=prompts)
            columns = where("gates", "deep-mamba", stream, depth)
            found += in_groups(settings, columns, training, prompts=deep.placed("random"), probe="gates")
    return found


def _magnitude(settings: ReviewSettings) -> list[Condition]:
    """Return the maps over strengths of phase-diagram, with its own cells."""
    found, phase = [], settings.phase()
    for model, scales in (("mamba", settings.mamba_scales), ("linear", settings.linear_scales)):
        for trained in settings.train_scales:
            training = phase.training(model, trained)
            for tested in scales:
                prompts = phase.prompts(tested, phase.outlier_fraction, settings.context_length)
                found += _worst(settings, where("magnitude", model, "", trained, tested), training, prompts)
    return found


def _direction(settings: ReviewSettings) -> list[Condition]:
    found = []
    for model in MODELS:
        training = settings.training(model)
        for cosine in settings.cosines:
            for fraction in settings.fractions:
                columns = where("direction", model, f"α = {fraction:g}", cosine)
                found += _worst(settings, columns, training, settings.turned(cosine, fraction))
    return found


def _length(settings: ReviewSettings) -> list[Condition]:
    found = []
    for model in MODELS:
        training = settings.training(model)
        for length in settings.lengths:
            amounts: list[tuple[str, dict[str, Any]]] = [(f"α = {f:g}", {"fraction": f}) for f in settings.fractions]
            if settings.outlier_count <= length:
                amounts.append((f"{settings.outlier_count} outliers", {"count": settings.outlier_count}))
            for name, amount in amounts:
                prompts = settings.tests(**amount).replace(context_length=length)
                found += _worst(settings, where("length", model, name, length), training, prompts)
    return found


def _signatures(settings: ReviewSettings) -> list[Condition]:
    """Measure Mamba inside (0) and outside (1) each bound."""
    found = []
    for name, signature in SIGNATURES.items():
        for side in (0, 1):
            training, prompts, probe = signature(settings, side)
            columns = where("signature", training.model.label, name, side)
            found += in_groups(settings, columns, training, prompts=prompts, probe=probe)
    return found
