"""Charts as data: what is declared is what is drawn, in files and on the page."""

import json

import pytest
import vl_convert

from iclab.papers.mamba.fig2 import BASELINES
from iclab.study.charts import (
    DIVERGING,
    OWN,
    PRINTED,
    Axis,
    Figure,
    Panel,
    Series,
    colour_of,
    draw,
    reference,
    series_of,
    shaded,
    shades,
)
from iclab.study.charts.look import VIRIDIS

MAMBA, LINEAR = Series("Mamba", "#0072B2"), Series("linear", "#D55E00")


def panel(**axes):
    return Panel("A", **{"x": Axis("step"), "y": Axis("error")} | axes)


def layers(panel, kind):
    """The layers of one kind of mark, those of panels behind included."""
    found = []
    for layer in panel.spec(100)["layer"]:
        found += layer.get("layer", [layer])
    return [layer for layer in found if layer["mark"] == kind or layer["mark"]["type"] == kind]


def values(layer):
    return layer["data"]["values"]


def test_a_curve_is_the_mean_over_living_seeds_in_a_band_from_lowest_to_highest():
    drawn = panel()
    drawn.curve(MAMBA, [1, 2, 3], [{0: 0.2, 1: 0.4}, {0: None, 1: None}, {0: 0.1, 1: None}])
    (line,), (area,) = layers(drawn, "line"), layers(drawn, "area")
    assert [(v["x"], v["y"]) for v in values(line)] == [(1, pytest.approx(0.3)), (3, 0.1)]
    assert [(v["x"], v["low"], v["high"]) for v in values(area)] == [(1, 0.2, 0.4), (3, 0.1, 0.1)]


def test_two_curves_of_one_series_are_not_joined():
    drawn = panel()
    drawn.line(MAMBA, [0, 1], [0.0, 1.0])
    drawn.line(MAMBA, [0, 1], [1.0, 0.0])
    (line,) = layers(drawn, "line")
    assert len({v["part"] for v in values(line)}) == 2


def test_a_curve_without_marks_can_still_be_hovered_over():
    drawn = panel()
    drawn.line(reference("a vote"), [0, 1], [0.5, 0.5])
    (point,) = layers(drawn, "point")
    assert point["mark"]["opacity"] == 0
    assert [tip["field"] for tip in point["encoding"]["tooltip"]] == ["series", "x", "y"]


def test_every_layer_with_a_series_can_be_hidden():
    drawn = panel()
    drawn.curve(MAMBA, [0, 1], [{0: 0.1, 1: 0.3}, {0: 0.2, 1: 0.3}])
    drawn.interval(LINEAR, 0.5, 0.5, 0.4, 0.6)
    drawn.bars(shaded("lengths", "#56B4E9"), [0, 1, 2], [3.0, 4.0])
    for layer in drawn.spec(100)["layer"]:
        if any("series" in value for value in values(layer)):
            assert layer["transform"] == [{"filter": "indexof(hidden, datum.series) < 0"}]


def test_hidden_series_are_gone_from_the_drawing():
    drawn = panel()
    drawn.line(MAMBA, [0, 1], [0.1, 0.2])
    drawn.line(LINEAR, [0, 1], [0.3, 0.4])
    spec = Figure([drawn]).page()["spec"]
    both = vl_convert.vegalite_to_svg(spec)
    one = vl_convert.vegalite_to_svg(spec | {"params": [{"name": "hidden", "value": ["linear"]}]})
    assert MAMBA.colour.lower() in both.lower()
    assert LINEAR.colour.lower() in both.lower()
    assert MAMBA.colour.lower() in one.lower()
    assert LINEAR.colour.lower() not in one.lower()


def test_hollow_marks_are_empty_and_the_papers_numbers_have_no_line():
    drawn = panel()
    drawn.points(PRINTED, [0], [0.5])
    drawn.points(MAMBA, [0, 1], [0.1, 0.1], hollow=True)
    (hollow,) = layers(drawn, "point")
    assert hollow["mark"]["fill"] == "#ffffff"
    assert not layers(drawn, "line")
    (entry,) = [s for s in Figure([drawn]).page()["legend"] if s["name"] == "the paper"]
    assert (entry["mark"], entry["line"], entry["hollow"]) == ("diamond", False, True)


def test_the_legend_of_a_file_shows_no_line_for_marks_alone():
    drawn = panel()
    drawn.points(PRINTED, [0], [0.5])
    _, legend = Figure([drawn]).to_dict()["vconcat"]
    assert [layer["mark"]["type"] for layer in legend["layer"]] == ["point", "text"]


def test_a_series_has_one_look_in_a_panel():
    drawn = panel()
    drawn.line(MAMBA, [0, 1], [0.1, 0.2])
    with pytest.raises(ValueError, match="Mamba"):
        drawn.line(Series("Mamba", "#000000"), [0, 1], [0.1, 0.2])


def test_the_legend_names_everything_once():
    one, two = panel(), panel()
    for drawn in (one, two):
        drawn.line(MAMBA, [0, 1], [0.1, 0.2])
    two.line(Series("unnamed", "#000000", legend=False), [0, 1], [0.1, 0.2])
    figure = Figure([one, two], more=[LINEAR])
    assert [series.name for series in figure.legend] == ["Mamba", "linear"]


def test_a_logarithmic_axis_has_a_tick_per_decade():
    y = panel(y=Axis("error", domain=(3e-6, 1.5), scale="log")).spec(100)["layer"][0]["encoding"]["y"]
    assert y["axis"]["values"] == pytest.approx([1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1])


def test_ticks_have_the_names_they_are_given():
    drawn = panel(x=Axis(domain=(-0.5, 1.5), ticks={0: "FQ", 1: "R 'quoted'"}))
    drawn.points(MAMBA, [0], [0.5])
    svg = vl_convert.vegalite_to_svg(Figure([drawn]).to_dict())
    assert "FQ" in svg
    assert "quoted" in svg


def test_a_panel_behind_has_an_axis_of_its_own_on_the_right():
    back = Panel(x=Axis("share"), y=Axis("length"))
    back.bars(shaded("lengths", "#56B4E9"), [0, 1, 2], [30.0, 40.0])
    front = Panel("A", x=Axis("share"), y=Axis("error"), behind=back)
    front.line(MAMBA, [0, 2], [0.1, 0.2])
    spec = front.spec(100)
    assert spec["resolve"] == {"scale": {"y": "independent"}}
    assert spec["layer"][0]["layer"][0]["encoding"]["y"]["axis"]["orient"] == "right"
    assert [series.name for series in Figure([front]).legend] == ["lengths", "Mamba"]
    looks = [
        layer["encoding"]["color"]["scale"]
        for part in spec["layer"]
        for layer in part["layer"]
        if "color" in layer["encoding"]
    ]
    assert looks == [looks[0]] * len(looks)  # Vega joins scales of layers, which must not disagree
    assert looks[0]["type"] == "ordinal"  # or widths and sizes are spread evenly


def test_a_heat_map_fills_every_cell_with_its_colour_and_sign():
    drawn = Panel("A", x=Axis(names=["as chosen", "steps = 4"]), y=Axis(names=["small"]))
    holds, fails = shaded("holds", "#009E73"), shaded("fails", "#D55E00")
    drawn.cell(holds, "as chosen", "small")
    drawn.cell(fails, "steps = 4", "small", "×")
    (rect,), (sign,) = layers(drawn, "rect"), layers(drawn, "text")
    assert len(values(rect)) == 2
    assert [v["mark"] for v in values(sign)] == ["×"]
    scale = rect["encoding"]["color"]["scale"]
    assert dict(zip(scale["domain"], scale["range"], strict=True)) == {"holds": "#009E73", "fails": "#D55E00"}


def test_an_empty_panel_and_a_figure_of_one_can_be_drawn():
    files = draw(Figure([panel()], heading=("M-fig2: nothing", "0 seeds")))
    assert files["svg"].startswith(b"<svg")
    assert files["png"].startswith(b"\x89PNG")
    assert files["pdf"].startswith(b"%PDF")


def test_the_same_figure_gives_the_same_picture():
    drawn = panel()
    drawn.curve(MAMBA, [0, 1], [{0: 0.1, 1: 0.3}, {0: 0.2, 1: 0.3}])
    first, second = draw(Figure([drawn])), draw(Figure([drawn]))
    assert first["svg"] == second["svg"]
    assert first["png"] == second["png"]


def test_numbers_are_kept_to_six_digits():
    drawn = panel()
    drawn.line(MAMBA, [0, 1], [1 / 3, 2 / 3])
    assert "0.3333333" not in json.dumps(Figure([drawn]).page())


@pytest.mark.parametrize("count", [1, 5, 6])
def test_shades_are_as_many_as_asked_and_all_different(count):
    assert len(set(shades(count))) == count
    assert set(shades(6)) == set(VIRIDIS)


def test_a_model_without_a_colour_takes_one_that_is_free():
    assert series_of("Mine").colour == OWN[0]
    assert colour_of("Mine", ["mamba", "Yours", "Mine"]) == OWN[1]
    assert colour_of("Mine", ["softmax", "Mine"]) == OWN[1]  # softmax attention declares the first


def test_a_model_without_a_colour_looks_like_no_built_in_curve_of_its_figure():
    curves = {series.colour for series in BASELINES.values()} | {colour_of(model) for model in ("mamba", "linear")}
    assert not curves & set(OWN)


def test_ticks_that_are_given_stay_on_a_logarithmic_axis():
    y = panel(y=Axis("error", domain=(1e-3, 10), scale="log", ticks=(0.5, 5))).spec(100)["layer"][0]["encoding"]["y"]
    assert y["axis"]["values"] == [0.5, 5]


def test_a_map_of_numbers_has_a_colour_for_each_and_text_that_can_be_read():
    shading = DIVERGING.spanning(8.0)
    assert (shading.domain, shading.colours) == ((-8.0, 0.0, 8.0), DIVERGING.colours)
    names = Axis("example", names=["a", "b"])
    drawn = Panel("A", x=names, y=names, shading=shading)
    drawn.tile("a", "b", 7.5, "7.5")
    drawn.tile("b", "b", -0.5)
    rects, texts = drawn.spec(200)["layer"]
    assert [record["value"] for record in rects["data"]["values"]] == [7.5, -0.5]
    assert rects["encoding"]["color"]["scale"]["domain"] == [-8.0, 0.0, 8.0]
    assert [record["text"] for record in texts["data"]["values"]] == ["7.5"]
    assert "datum.value > 6" in texts["encoding"]["color"]["condition"]["test"]  # white on dark blue
