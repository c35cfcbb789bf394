"""Made-up rows, verdicts on them, and the data of a chart."""

from iclab.catalog import find


def judged(id_, rows, **changes):
    experiment = find(id_)
    settings = experiment.settings().replace(seeds=4, **changes)
    return {claim.id.removeprefix(f"{id_}."): claim.verdict(rows)["verdict"] for claim in experiment.claims(settings)}


def cells(accuracies, model, stage="trained", lost=()):
    """Make rows for ``accuracies[column] = (FQ, R, CQ)``, four seeds that hardly differ."""
    return [
        {
            "column": column,
            "model": model,
            "stage": stage,
            "placement": place,
            "seed": seed,
            "prompts": 100_000,
            "error": None if (column, seed) in lost else 1 - accuracy + 1e-4 * (seed - 1.5),
            "diverged": (column, seed) in lost,
        }
        for column, values in accuracies.items()
        for place, accuracy in zip(("FQ", "R", "CQ"), values, strict=True)
        for seed in range(4)
    ]


def attention(same, other, layers=(1, 2, 3), steps=(0, 500), lost=()):
    """Make rows with ``same[step]`` and ``other[step]`` in every layer."""
    rows = []
    for step in steps:
        for seed in range(4):
            gone = (step, seed) in lost
            for layer in (None,) if gone else layers:
                values = (
                    {"same": None, "other": None} if gone else {"same": same[step] + 0.01 * seed, "other": other[step]}
                )
                rows.append({"step": step, "seed": seed, "layer": layer, "diverged": gone, **values})
    return rows


def gates(stages, layer=1, fade=0.6):
    """Make rows of gates that decay by a factor; gates of outliers are ``stages[stage]`` times clean gates."""
    return [
        {
            "stage": stage,
            "seed": seed,
            "layer": layer,
            "kind": kind,
            "place": place,
            "gate": (share if kind == "outlier" else 1.0) * (0.2 + 0.001 * seed) * fade ** (place - 1),
            "diverged": False,
        }
        for stage, share in stages.items()
        for seed in range(4)
        for kind in ("clean", "outlier", "clean_rank")
        for place in range(1, 21)
    ]


def drawn(panel, series, **mark):
    """Return the data that a panel draws for one series with such a mark."""
    layers = [layer for layer in panel.spec(100)["layer"] if mark.items() <= layer["mark"].items()]
    return [value for layer in layers for value in layer["data"]["values"] if value.get("series") == series]
