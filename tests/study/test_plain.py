"""The table and the chart that an experiment has if it does not bring its own."""

import json

from iclab.study.charts import OWN, PALETTE, colour_of, name_of
from iclab.study.plain import plain_chart, plain_table


def row(seed, error, **columns):
    diverged = error is None
    counts = {"prompts": None if diverged else 100, "right": None if diverged else round(100 * (1 - error))}
    return {**columns, "seed": seed, "error": error, "hinge": 0.5, "diverged": diverged, **counts}


ROWS = [
    row(seed, error, model=model, width=width)
    for model, width, errors in (("a", 8, (0.2, 0.4)), ("a", 4, (0.5, 0.7)), ("b", 8, (0.1, None)))
    for seed, error in enumerate(errors)
]


def drawn(chart):
    """Return what is drawn as points: the curve, x and the mean of each."""
    (panel,) = chart.to_dict()["vconcat"][0]["concat"]
    layers = [layer for layer in panel["layer"] if layer["mark"]["type"] == "point"]
    return {(d["series"], d["x"]): round(d["y"], 6) for layer in layers for d in layer["data"]["values"]}


def test_the_table_has_a_line_per_condition():
    lines = plain_table(ROWS, ["model", "width"])
    assert [(line["model"], line["width"]) for line in lines] == [("a", "8"), ("a", "4"), ("b", "8")]
    assert lines[0]["error"].startswith("0.3000 [")
    assert lines[2]["error"].endswith("1 diverged")


def test_the_chart_has_a_curve_per_model_and_the_means_over_seeds():
    chart = plain_chart(ROWS, ["model", "width"])
    assert drawn(chart) == {("a", 4.0): 0.6, ("a", 8.0): 0.3, ("b", 8.0): 0.1}
    assert [series.name for series in chart.legend] == ["a", "b"]
    assert chart.panels[0].x.title == "width"
    json.dumps(chart.page(), allow_nan=False)


def test_models_look_as_in_other_charts_if_that_tells_the_curves_apart():
    def looks(*models, widths=(4, 8), **more):
        rows = [row(0, 0.1, model=model, width=width, **more) for model in models for width in widths]
        rows += [row | {"rule": "random"} for row in rows if more]
        return [(s.name, s.colour) for s in plain_chart(rows, ["model", "width", *more]).legend]

    usual = [(name_of(model), colour_of(model)) for model in ("linear", "mamba")]
    assert looks("linear", "mamba", "Mine") == [*usual, ("Mine", OWN[0])]
    assert looks("mamba", "deep-mamba") == [("Mamba", PALETTE[0]), ("Mamba, several layers", PALETTE[1])]
    assert looks("mamba", "Mamba") == [("mamba", colour_of("mamba")), ("Mamba", OWN[0])]
    assert looks("mamba", rule="flip") == [("Mamba, flip", PALETTE[0]), ("Mamba, random", PALETTE[1])]
    assert looks("small: 2 layers", "mamba") == [("small: 2 layers", PALETTE[0]), ("mamba", PALETTE[1])]


def test_without_numbers_to_draw_against_there_is_a_mark_per_condition():
    rows = [row(seed, 0.1 * (place + 2 * seed), model=model) for place, model in enumerate("ab") for seed in range(2)]
    chart = plain_chart(rows, ["model"])
    assert drawn(chart) == {("error", 0.0): 0.1, ("error", 1.0): 0.2}
    assert chart.panels[0].x.ticks == {0: "a", 1: "b"}


def test_other_probes_have_their_own_columns():
    rows = [
        {"width": 4, "seed": seed, "layer": layer, "same": 0.5 + layer, "other": 0.25, "diverged": False}
        for seed in range(2)
        for layer in (0, 1)
    ] + [{"width": 4, "seed": 2, "layer": None, "same": None, "other": None, "diverged": True}]
    lines = plain_table(rows, ["width"])
    assert [line["layer"] for line in lines] == ["0", "1", "–"]
    assert lines[1]["same"] == "1.5000 (1.5000 to 1.5000)"
    assert drawn(plain_chart(rows, ["width"])) == {("layer 0", 4.0): 0.5, ("layer 1", 4.0): 1.5}


def test_rows_of_nothing_but_diverged_seeds_break_nothing():
    rows = [row(seed, None, width=4) for seed in range(2)]
    assert plain_table(rows, ["width"]) == [{"width": "4", "error": "none, 2 diverged"}]
    json.dumps(plain_chart(rows, ["width"]).page(), allow_nan=False)
