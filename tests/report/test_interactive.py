"""What Matplotlib drew is what Plotly is told."""

import json

import numpy as np
import pytest
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from iclab.report.interactive import interactive
from iclab.report.traces import CannotTellError


def drawn(draw, *size):
    figure = Figure(layout="constrained")
    panels = figure.subplots(*size or (1, 1), squeeze=False)
    draw(figure, *panels.flat)
    figure.draw_without_rendering()
    told = interactive(figure)
    json.dumps(told, allow_nan=False)
    return told


def test_a_curve_keeps_its_numbers_name_and_look():
    def draw(figure, axes):
        axes.plot([1, 2, 3], [0.1, np.nan, 0.3], color="#0072B2", marker="o", linestyle="dashed", label="Mamba")

    (curve,) = drawn(draw)["data"]
    assert (curve["x"], curve["y"]) == ([1, 2, 3], [0.1, None, 0.3])
    assert (curve["name"], curve["mode"], curve["line"]["color"]) == ("Mamba", "lines+markers", "#0072b2")
    assert curve["line"]["dash"] != "solid"
    assert curve["showlegend"]


def test_a_band_goes_with_the_curve_of_its_colour():
    def draw(figure, axes):
        axes.fill_between([0, 1], [0, 1], [1, 2], color="#D55E00", alpha=0.25)
        axes.plot([0, 1], [0.5, 1.5], color="#D55E00", marker="o", label="linear")

    band, curve = drawn(draw)["data"]
    assert band["fill"] == "toself"
    assert band["fillcolor"] == "rgba(213,94,0,0.25)"
    assert band["legendgroup"] == curve["legendgroup"] == "linear"
    assert not band["showlegend"]
    assert (min(band["y"]), max(band["y"])) == (0, 2)


def test_one_entry_of_the_legend_for_all_panels_and_the_plainest_mark_stands_for_it():
    def draw(figure, left, right):
        left.plot([1], [1], "o", color="#0072B2", markersize=2, alpha=0.3)
        right.plot([1], [1], "o", color="#0072B2", markersize=5)
        figure.legend(handles=[Line2D([], [], color="#0072B2", marker="o", linestyle="", label="Mamba")])

    faint, plain = drawn(draw, 1, 2)["data"]
    assert faint["name"] == plain["name"] == "Mamba"
    assert (faint["showlegend"], plain["showlegend"]) == (False, True)
    assert (faint["xaxis"], plain["xaxis"]) == ("x", "x2")


def test_axes_keep_ranges_scales_titles_and_ticks():
    def draw(figure, axes):
        axes.plot([1, 2], [0.001, 0.1])
        axes.set_yscale("log")
        axes.set_ylim(1e-4, 1)
        axes.set_xlim(0, 3)
        axes.set_xticks([1, 2], ["FQ", "CQ"], rotation=90)
        axes.set_xlabel("place")
        axes.set_title("as chosen", loc="left")

    layout = drawn(draw)["layout"]
    assert layout["yaxis"]["type"] == "log"
    assert layout["yaxis"]["range"] == pytest.approx([-4, 0])
    assert layout["xaxis"]["range"] == [0, 3]
    assert (layout["xaxis"]["tickvals"], layout["xaxis"]["ticktext"]) == ([1, 2], ["FQ", "CQ"])
    assert layout["xaxis"]["tickangle"] == -90
    assert layout["xaxis"]["title"]["text"] == "place"
    assert [note["text"] for note in layout["annotations"]] == ["<b>as chosen</b>"]


def test_a_scale_that_the_browser_does_not_know_keeps_its_places():
    def draw(figure, axes):
        axes.plot([1, 2, 3], [0.0, 0.01, 1.0], marker="o")
        axes.set_yscale("symlog", linthresh=0.01)
        axes.set_ylim(0, 1)
        axes.axhline(0.01)

    told = drawn(draw)
    (curve,) = told["data"]
    zero, threshold, one = curve["y"]
    assert curve["customdata"] == [0, 0.01, 1]  # what hovering tells
    assert zero == 0
    assert 0.2 < threshold / one < 0.5  # by far not 1 %
    assert told["layout"]["shapes"][0]["y0"] == pytest.approx(threshold, rel=1e-5)
    ticks = dict(zip(told["layout"]["yaxis"]["ticktext"], told["layout"]["yaxis"]["tickvals"], strict=True))
    assert ticks["0.01"] == pytest.approx(threshold, rel=1e-5)
    assert told["layout"]["yaxis"]["range"] == pytest.approx([0, one], rel=1e-5)


@pytest.mark.parametrize(
    ("draw", "what"),
    [
        (lambda figure, axes: (axes.plot([0.1, 0.9], [0.1, 0.9]), axes.set_yscale("logit")), "logit"),
        (lambda figure, axes: (axes.plot([0.1, 0.9], [0.1, 0.9]), axes.set_xscale("symlog")), "symlog"),
        (lambda figure, axes: axes.barh([1, 2], [3, 4]), "BarContainer"),
        (lambda figure, axes: axes.axvspan(1, 2), "Rectangle"),
        (lambda figure, axes: axes.pcolormesh([[1, 2], [3, 4]]), "QuadMesh"),
        (lambda figure, axes: axes.pie([1, 2]), "Wedge"),
        (lambda figure, axes: axes.plot([0, 1], [0, 1], transform=axes.transAxes), "Line2D"),
        (lambda figure, axes: axes.text(9, 9, "here", transform=None), "here"),
        (lambda figure, axes: axes.set_visible(False), "no panel"),
    ],
)
def test_what_nobody_thought_of_is_refused_and_never_left_out(draw, what):
    with pytest.raises(CannotTellError, match=what):
        drawn(draw)


def test_names_on_an_axis_and_notes_in_shares_of_a_panel():
    def draw(figure, axes):
        axes.plot(["FQ", "R"], [0.1, 1.0], marker="o")
        axes.set_yscale("log")
        axes.text(0.5, 0, "below", transform=axes.transAxes)

    told = drawn(draw)
    assert (told["data"][0]["x"], told["data"][0]["y"]) == ([0, 1], [0.1, 1])
    assert (told["layout"]["xaxis"]["tickvals"], told["layout"]["xaxis"]["ticktext"]) == ([0, 1], ["FQ", "R"])
    (note,) = told["layout"]["annotations"]
    assert (note["xref"], note["x"], note["yref"], note["y"]) == ("x domain", 0.5, "y domain", 0)


def test_a_band_in_pieces_stays_so():
    (band,) = drawn(
        lambda figure, axes: axes.fill_between([0, 1, 2, 3, 4], 0, 1, where=[True, True, False, True, True])
    )["data"]
    assert band["x"].count(None) == 1
    gap = band["x"].index(None)
    assert (max(band["x"][:gap]), min(band["x"][gap + 1 :])) == (1, 3)


def test_what_has_no_line_is_switched_by_its_entry_of_the_legend():
    def draw(figure, axes):
        axes.scatter([1, 2], [0.0, 1.0], color="#0072B2", label="marks")
        axes.bar([1, 2], [1, 1], color="#D55E00", label="bars")
        axes.set_yscale("symlog", linthresh=0.01)
        axes.legend()

    told = drawn(draw)
    groups = {name: [t for t in told["data"] if t.get("legendgroup") == name] for name in ("marks", "bars")}
    assert [sorted(t["showlegend"] for t in group) for group in groups.values()] == [[False, True]] * 2
    (marks,) = [trace for trace in told["data"] if trace.get("mode") == "markers" and len(trace["x"]) == 2]
    assert marks["customdata"] == [0, 1]  # what hovering tells: the values, not their places
    assert marks["y"] != marks["customdata"]


def test_rules_notes_and_arrows():
    def draw(figure, axes):
        axes.set_yscale("log")
        axes.set_ylim(0.001, 1)
        axes.axvline(0.5, color="#8a8a8a")
        axes.axhline(0.01)
        axes.annotate("paper", (0.2, 0.01), ha="right")
        axes.annotate("", (0.6, 0.0), (0.6, -0.1), xycoords=("data", "axes fraction"), arrowprops={"arrowstyle": "->"})

    told = drawn(draw)
    up, across = told["layout"]["shapes"]
    assert (up["x0"], up["x1"], up["yref"]) == (0.5, 0.5, "y domain")
    assert (across["y0"], across["xref"]) == (0.01, "x domain")
    note, arrow = told["layout"]["annotations"]
    assert (note["text"], note["x"], note["xanchor"]) == ("paper", 0.2, "right")
    assert note["y"] == pytest.approx(-2)  # as Plotly wants it on a logarithmic axis
    assert arrow["showarrow"]
    assert (arrow["yref"], arrow["y"]) == ("y domain", 0)
    assert told["data"] == []


def test_a_second_scale_lies_over_the_first():
    def draw(figure, axes):
        axes.plot([0, 1], [0, 1], label="curve")
        behind = axes.twinx()
        behind.bar([0.25, 0.75], [3, 4], 0.5, color="#56B4E9", alpha=0.25)
        axes.set_zorder(behind.get_zorder() + 1)

    told = drawn(draw)
    bars, curve = told["data"]
    assert bars["type"] == "bar"
    assert (bars["x"], bars["y"], bars["marker"]["opacity"]) == ([0.25, 0.75], [3, 4], 0.25)
    assert told["layout"]["yaxis"]["side"] == "right"
    assert told["layout"]["yaxis2"]["overlaying"] == "y"
    assert (bars["yaxis"], curve["yaxis"]) == ("y", "y2")


def test_a_heat_map_stands_the_right_way_up_and_names_its_cells():
    def draw(figure, axes):
        colours = ListedColormap(["#D55E00", "#E8D27A", "#009E73"])
        axes.imshow([[0, 1, 2], [2, 1, 0]], cmap=colours, vmin=0, vmax=2, aspect="auto")
        axes.set_xticks(range(3), ["a", "b", "c"])
        axes.set_yticks(range(2), ["top", "bottom"])
        figure.legend(handles=[Patch(color="#009E73", label="holds")])

    told = drawn(draw)
    heat, swatch = told["data"]
    assert (heat["z"][0], heat["y"]) == ([0, 1, 2], [0, 1])
    assert heat["text"][0][2] == "top<br>c<br><b>holds</b>"
    low, high = told["layout"]["yaxis"]["range"]
    assert low > high  # row 0 on top
    assert (swatch["name"], swatch["marker"]["color"]) == ("holds", "#009e73")


def test_lines_of_a_panel_go_with_its_marks_and_not_with_a_curve_elsewhere():
    def draw(figure, left, right):
        left.plot([0, 1, 2], [0, 1, 2], color="#0072B2", marker="o", label="curve")
        left.legend()
        right.scatter([1, 2], [3, 4], color="#0072B2", label="marks")
        right.plot([0, 1, 2], [0, 1, 2], color="#0072B2", marker="o")
        right.legend()

    traces = [trace for trace in drawn(draw, 1, 2)["data"] if len(trace["x"]) > 1]
    assert [trace["name"] for trace in traces if trace["xaxis"] == "x"] == ["curve"]
    assert {trace["name"] for trace in traces if trace["xaxis"] == "x2"} == {"marks"}


def test_a_tall_figure_does_not_lose_its_panels_to_the_gaps():
    figure = Figure(figsize=(6, 40))
    for panel in figure.subplots(8, 1):
        panel.plot([0, 1])
    told = interactive(figure)
    domains = [told["layout"][f"yaxis{n}"]["domain"] for n in ("", *range(2, 9))]
    assert min(high - low for low, high in domains) > 0.09


def test_a_heat_map_of_plain_numbers_tells_them():
    (heat,) = drawn(lambda figure, axes: axes.imshow(np.arange(12).reshape(3, 4) / 10))["data"]
    assert heat["text"][2][3] == "<b>1.1</b>"


def test_marks_and_bundles_of_lines():
    def draw(figure, axes):
        axes.scatter([1, 2], [3, 4], color="#CC79A7")
        axes.vlines([1, 2], 0, [3, 4])

    marks, lines = drawn(draw)["data"]
    assert (marks["mode"], marks["x"], marks["y"]) == ("markers", [1, 2], [3, 4])
    assert lines["x"] == [1, 1, None, 2, 2, None]
    assert lines["y"] == [0, 3, None, 0, 4, None]


def test_panels_fill_the_width_and_stand_one_below_the_other_where_it_is_narrow():
    told = drawn(lambda figure, *panels: [panel.plot([0, 1]) for panel in panels], 2, 2)
    across = [told["layout"][f"xaxis{n}"]["domain"] for n in ("", 2, 3, 4)]
    up = [told["layout"][f"yaxis{n}"]["domain"] for n in ("", 2, 3, 4)]
    assert across[0][0] == 0
    assert across[1][1] == 1
    assert across[0][1] < across[1][0]
    assert up[2][0] == 0
    assert up[0][1] == 1
    assert up[2][1] < up[0][0]
    narrow = told["narrow"]
    assert all(narrow[f"xaxis{n}.domain"] == [0, 1] for n in ("", 2, 3, 4))
    tops = [narrow[f"yaxis{n}.domain"][1] for n in ("", 2, 3, 4)]
    assert tops == sorted(tops, reverse=True)


def test_entries_that_look_alike_are_told_apart_by_their_panels():
    figure = Figure()
    left, right = figure.subplots(1, 2)
    for axes, letter, name in ((left, "A", "steps"), (right, "B", "lengths")):
        axes.set_title(f"{letter}  a panel", loc="left")
        axes.plot([1, 2, 3], [1, 2, 3], color="#0072B2", label=name)
        axes.plot([1, 2, 3], [3, 2, 1], color="#D55E00", label="in both")
        axes.legend()
    traces = [trace for trace in interactive(figure)["data"] if "name" in trace]
    assert {trace["name"] for trace in traces} == {"A: steps", "B: lengths", "in both"}
    assert all(trace["name"] == trace["legendgroup"] for trace in traces)
    right.lines[0].set_color("#009E73")
    right.legend()
    assert {trace["name"] for trace in interactive(figure)["data"]} == {"steps", "lengths", "in both"}


def test_a_curve_stands_for_its_name_rather_than_single_marks():
    figure = Figure()
    axes = figure.subplots()
    axes.plot([1, 2, 3], [1, 2, 3], "o", color="#0072B2", markerfacecolor="white", markersize=9)
    axes.plot([1, 2, 3], [1, 2, 3], color="#0072B2", marker="o", markersize=4, label="Mamba")
    axes.legend()
    (shown,) = [trace for trace in interactive(figure)["data"] if trace["showlegend"]]
    assert (shown["name"], shown["mode"]) == ("Mamba", "lines+markers")
