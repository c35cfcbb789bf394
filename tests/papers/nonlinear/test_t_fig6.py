"""T-fig6: the logic of its claims, and what is trained and tested."""

from iclab.catalog import find
from iclab.papers.nonlinear.fig6 import NeedSettings

FIGURE = find("T-fig6")
SETTINGS = NeedSettings(seeds=3, fractions=(0.25, 0.5, 0.75, 1.0), lengths=(5, 10, 40), watched=80, steps=800)


def verdicts(needed, length, long=lambda a: 4.0, drop=(), **fewer):
    """Rows of seeds that need so many iterations, and prompts so long, tested on the same length or on long ones."""
    rows = []
    for fraction in SETTINGS.fractions:
        for seed in range(3):
            where = {"fraction": fraction, "seed": seed, "prompts": 1_000, "hinge": 0.0, "diverged": False}
            wobble = 1 + 0.002 * seed
            for step in SETTINGS.kept_steps():
                asked = needed(fraction) if step < 800 else 800 * long(fraction) / 20
                error = 0.5 * 0.02 ** (step / asked / wobble)
                rows.append({**where, "length": 20, "test": "long", "step": step, "error": error})
            for n in SETTINGS.all_lengths():
                own, far = (0.5 * 0.02 ** (n / asked(fraction) / wobble) for asked in (length, long))
                rows.append({**where, "length": n, "test": "own", "step": 800, "error": own})
                if n != 20:
                    rows.append({**where, "length": n, "test": "long", "step": 800, "error": far})
    rows = [row for row in rows if row["seed"] not in drop]
    claims = FIGURE.claims(SETTINGS.replace(**fewer))
    return {claim.id.removeprefix("T-fig6."): claim.verdict(rows)["verdict"] for claim in claims}


def test_claims():
    def paper(a):
        return 200 * a ** (-2 / 3)

    good = verdicts(paper, lambda a: 4 / a, lambda a: 4 / a)
    assert good == dict.fromkeys(("iterations", "exponent", "straighter", "length", "training-length"), "holds")
    few = verdicts(paper, lambda a: 4 / a, lambda a: 4 / a, lengths=(10, 40))
    assert few == good | dict.fromkeys(("length", "training-length"), "not run")
    assert set(verdicts(paper, lambda a: 4 / a, fractions=(0.25, 0.5, 1.0)).values()) == {"not run", "fails"}
    squared = verdicts(lambda a: 45 * a**-2, lambda a: 8 / a)
    assert squared["exponent"] == "in direction"
    assert verdicts(lambda a: 200 * a, lambda a: 8 / a)["exponent"] == "fails"
    assert squared["iterations"] == "fails"
    assert verdicts(lambda a: 150 / a, lambda a: 8 / a)["straighter"] == "fails"
    assert verdicts(paper, lambda a: 8)["length"] == "fails"
    assert verdicts(paper, lambda a: 8 / a)["training-length"] == "fails"  # long tests ask for far less
    assert verdicts(paper, lambda a: 8 / a, lambda a: 8 / a)["exponent"] == "undecided"  # some never train
    assert set(verdicts(paper, lambda a: 8 / a, drop=(1,)).values()) == {"not run"}


def test_short_prompts_train_apart_and_everything_is_tested_on_unseen_tasks():
    found = FIGURE.conditions(SETTINGS.replace(watched=4))
    for condition in found:
        training, columns = condition.cell.training.training, condition.columns
        assert training.prompts.context_length == columns["length"]
        assert training.prompts.relevant_fraction == columns["fraction"]
        assert condition.cell.prompts.context_length == (columns["length"] if columns["test"] == "own" else 40)
        assert not set(map(tuple, condition.cell.prompts.pairs)) & set(map(tuple, training.prompts.pairs))
    assert len({c.cell.training.hash for c in found}) == 4 * 4


def test_lines_run_through_the_iterations_needed():
    rows = [
        {"fraction": a, "length": 20, "test": "long", "step": step, "seed": 0, "error": 0.5 * 0.02 ** (step / 200 * a)}
        for a in SETTINGS.fractions
        for step in SETTINGS.kept_steps()
    ]
    figure = FIGURE.chart(rows, SETTINGS)
    names = [series.name for series in figure.panels[0].series]
    assert names == ["iterations needed", "linear in α^(−2/3)", "linear in 1/α"]
    lines = [layer for layer in figure.panels[0].spec(100)["layer"] if layer["mark"]["type"] == "line"]
    ends = [v["y"] for v in lines[0]["data"]["values"] if v["series"] == "linear in 1/α"]
    assert (round(ends[0]), round(ends[-1])) == (800, 200)
    assert [series.name for series in FIGURE.chart(rows[:1], SETTINGS).panels[0].series] == []
