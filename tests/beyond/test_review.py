"""M-review: verdicts on made-up rows, and the patterns and outliers that its checks are made of."""

import numpy as np
import pytest

from iclab.beyond.review_rows import SIGNATURES, gate_ratios, where
from iclab.beyond.review_settings import ReviewSettings
from iclab.catalog import find
from iclab.config import InputError
from iclab.theory.outliers import all_outliers

pytestmark = pytest.mark.filterwarnings("ignore::iclab.config.OutsideTheoremWarning")  # as `conditions` does

REVIEW = find("M-review")
SETTINGS = ReviewSettings(seeds=4)
CELLS = [dict(columns) for columns in {tuple(c.columns.items()) for c in REVIEW.conditions(SETTINGS)}]


def usual(check, model, curve, x, y):
    """Return an error about as iclab found it; without what no model can know."""
    if check == "dimension":
        return 0.1 if x < 20 else 0.0
    if check == "depth":
        return 0.1 * (x - 1) if "CQ" in curve else 0.0
    if check == "magnitude":
        enough = x >= 0.03 and 0.6 * x <= y
        return 0.0 if 0 < x <= 2 and enough else 0.4
    if check == "direction":
        return max(0.0, 0.3 - x)
    return 0.3 * x if check == "signature" and curve != "adjacent" else 0.0


def made_up(error=usual, gate=lambda depth, layer: 0.9):
    rows = []
    for columns in CELLS:
        if columns["check"] == "gates":
            rows += [
                columns
                | {"seed": seed, "layer": layer, "kind": kind, "place": place, "diverged": False}
                | {"gate": 0.5**place * (gate(int(columns["x"]), layer) + 1e-4 * seed if kind == "outlier" else 1.0)}
                for seed in range(4)
                for layer in range(1, int(columns["x"]) + 1)
                for kind in ("clean", "outlier")
                for place in range(1, 21)
            ]
            continue
        floor = 0.0
        if "α" in columns["curve"] and columns["check"] in ("direction", "length"):
            length = int(columns["x"]) if columns["check"] == "length" else SETTINGS.context_length
            floor = all_outliers(float(columns["curve"].removeprefix("α = ")), length)
        value = min(1.0, error(**columns) + floor)
        rows += [columns | {"seed": s, "error": value, "prompts": 10**7, "diverged": False} for s in range(4)]
    return rows


def verdicts(rows):
    return {c.id.removeprefix("M-review."): c.verdict(rows)["verdict"] for c in REVIEW.claims(SETTINGS)}


def test_what_rows_like_the_measured_ones_say():
    said = verdicts(made_up())
    assert said == {
        **{"coherence": "holds", "coherence-closed": "fails", "dimension": "fails", "dimension-wide": "holds"},
        **{"depth": "fails", "depth-label-only": "fails"},
        **{"depth-gates": "holds", "depth-gates-label-only": "holds"},
        **{"magnitude": "holds", "magnitude-strong": "holds", "magnitude-c": "fails", "magnitude-test": "fails"},
        **{"orthogonal": "fails", "orthogonal-share": "holds", "length": "holds", "length-count": "holds"},
        **{f"signatures.{name}": "fails" if name == "adjacent" else "holds" for name in SIGNATURES},
    }


@pytest.mark.parametrize(
    ("claim", "change", "verdict"),
    [
        ("coherence", lambda check, x, **_: 0.2 if check == "coherence" and x == 0.1 else None, "fails"),
        ("coherence-closed", lambda check, x, **_: x if check == "coherence" else None, "holds"),
        ("dimension", lambda check, **_: 0.0 if check == "dimension" else None, "holds"),
        ("dimension-wide", lambda check, x, **_: 0.1 if check == "dimension" and x == 60 else None, "fails"),
        ("depth", lambda check, **_: 0.0 if check == "depth" else None, "holds"),
        ("magnitude", lambda check, x, **_: 0.4 if check == "magnitude" and x < 1 else None, "fails"),
        ("magnitude-strong", lambda check, x, y, **_: 0.0 if check == "magnitude" and y > 100 else None, "fails"),
        ("magnitude-c", lambda check, x, **_: 0.4 if check == "magnitude" and x < 1 else None, "holds"),
        (
            "magnitude-test",
            lambda check, x, y, **_: (0.0 if 0 < x <= y * 0.3 else 0.4) if check == "magnitude" else None,
            "holds",
        ),
        ("orthogonal", lambda check, **_: 0.0 if check == "direction" else None, "holds"),
        ("orthogonal-share", lambda check, x, **_: 0.1 if check == "direction" and x == 1 else None, "fails"),
        (
            "length",
            lambda check, curve, x, **_: 0.1 if (check, x) == ("length", 320) and "α" in curve else None,
            "fails",
        ),
        ("length-count", lambda check, curve, **_: 0.1 if check == "length" and "α" not in curve else None, "fails"),
        ("signatures.weak", lambda check, **_: 0.3 if check == "signature" else None, "fails"),
    ],
)
def test_each_claim_depends_on_its_own_rows(claim, change, verdict):
    def error(**columns):
        return usual(**columns) if change(**columns) is None else change(**columns)

    assert verdicts(made_up(error))[claim] == verdict


def test_gates_that_do_not_compound_are_noticed():
    rows = made_up(gate=lambda depth, layer: 0.5 if depth == 1 else 0.9)
    assert verdicts(rows)["depth-gates"] == "fails"
    assert gate_ratios(rows, "full", 2, 2)[0] == pytest.approx(0.9)


def test_nothing_is_judged_without_rows():
    assert set(verdicts([]).values()) == {"not run"}


def test_random_patterns_are_more_than_dimensions_and_as_long_as_the_papers():
    patterns = SETTINGS.random_patterns(12, 1)
    assert (patterns.count, patterns.rank) == (19, 12)
    np.testing.assert_allclose(patterns.norms, 3.0)
    assert patterns == SETTINGS.random_patterns(12, 1)
    assert patterns != SETTINGS.random_patterns(12, 2)


@pytest.mark.parametrize("cosine", [0.0, 0.3, 1.0])
def test_test_outliers_have_the_angle_they_are_said_to_have(cosine):
    prompts = SETTINGS.turned(cosine, 0.6)
    basis = prompts.patterns.basis(3)
    outliers = prompts.dictionary(basis)[-3:]
    np.testing.assert_allclose(np.linalg.norm(outliers, axis=1), 3.0)
    cosines = outliers @ basis.vectors.T / 9
    np.testing.assert_allclose(cosines[:, :-3], 0, atol=1e-12)
    np.testing.assert_allclose(cosines[:, -3:], cosine * np.eye(3), atol=1e-12)


def test_layers_that_write_only_labels_have_no_norm():
    """One such layer is the one-layer model."""
    options = SETTINGS.deep_training(1, "label-only").model.options
    assert (options["stream"], options["norm"]) == ("label", "none")
    assert SETTINGS.deep_training(3, "full").model == SETTINGS.deep(3).training("deep-mamba").model  # M-tab1's


def test_maps_share_the_cells_of_the_phase_diagram():
    phase = find("phase-diagram")
    theirs = {c.cell.hash for c in phase.conditions(phase.settings().quick())}
    ours = [c for c in REVIEW.conditions(ReviewSettings().quick()) if c.columns["check"] == "magnitude"]
    assert all(c.cell.hash in theirs for c in ours if c.columns["x"] not in (0.003, 0.01))


@pytest.mark.parametrize("coherence", [1.0, 1.5, -0.2])
def test_a_coherence_that_cannot_be_is_refused_in_one_line(coherence):
    with pytest.raises(InputError, match="coherences") as caught:
        ReviewSettings(coherences=(0.0, coherence))
    assert "\n" not in str(caught.value)


def test_signatures_lie_on_both_sides_of_their_bounds():
    for name, signature in SIGNATURES.items():
        inside, outside = signature(SETTINGS, 0), signature(SETTINGS, 1)
        assert inside != outside, name
    fractions = [SIGNATURES["fraction"](SETTINGS, side)[1].outliers.fraction for side in (0, 1)]
    assert fractions[0] < 0.6 * 20 / 80 < fractions[1]
    strengths = [SIGNATURES[name](SETTINGS, 1)[0].prompts.outliers.scale for name in ("weak", "strong")]
    assert strengths[0] < 3 / 81
    assert strengths[1] > 3 * 3 * 0.4 / 0.6 / 0.01
    assert where("depth", "mamba", "", 1)["x"] == 1.0
