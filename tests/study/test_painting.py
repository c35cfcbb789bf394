"""The files of charts: drawn in another process, once, and never of another chart."""

from __future__ import annotations

from pathlib import Path

import pytest

from iclab.config import InputError
from iclab.study.charts import draw
from iclab.study.charts.painter import KINDS
from iclab.study.charts.painting import Painter, record_of

pytestmark = pytest.mark.slow


class Chart:
    """A chart of one point."""

    def __init__(self, y: float = 1.0, mark: str = "point") -> None:
        self.y, self.mark = y, mark

    def to_dict(self) -> dict:
        schema = "https://vega.github.io/schema/vega-lite/v6.json"
        encoding = {"y": {"field": "y", "type": "quantitative"}}
        return {"$schema": schema, "data": {"values": [{"y": self.y}]}, "mark": self.mark, "encoding": encoding}


def paint(chart: Chart, stem: Path) -> dict[str, tuple[int, bytes]]:
    """Draw a chart; return the time and the content of each file."""
    with Painter() as painter:
        painter.paint(chart, stem)
    files = {kind: Path(f"{stem}.{kind}") for kind in KINDS}
    return {kind: (file.stat().st_mtime_ns, file.read_bytes()) for kind, file in files.items()}


def test_the_other_process_draws_what_this_one_would(tmp_path: Path):
    found = paint(Chart(), tmp_path / "one")
    here = draw(Chart())
    assert {kind: found[kind][1] for kind in ("svg", "png")} == {kind: here[kind] for kind in ("svg", "png")}
    assert found["pdf"][1].startswith(b"%PDF")


def test_only_what_has_changed_is_drawn_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    first = paint(Chart(), tmp_path / "one")
    with monkeypatch.context() as patch:
        patch.setattr(Painter, "ready", lambda self: pytest.fail("started a process"))
        assert paint(Chart(), tmp_path / "one") == first
    other = paint(Chart(2.0), tmp_path / "one")
    assert other["svg"][1] != first["svg"][1]
    (tmp_path / "one.svg").write_text("edited")
    assert paint(Chart(2.0), tmp_path / "one")["svg"][1] == other["svg"][1]
    record_of(tmp_path / "one").write_text("[")
    assert paint(Chart(2.0), tmp_path / "one")["svg"][1] == other["svg"][1]


def test_a_chart_that_cannot_be_drawn_is_said_in_one_line_and_drawn_again_next_time(tmp_path: Path):
    with pytest.raises(InputError, match="one: cannot be drawn") as caught, Painter() as painter:
        painter.paint(Chart(mark="no such mark"), tmp_path / "one")
    assert len(str(caught.value).splitlines()) == 1
    assert not record_of(tmp_path / "one").exists()


def test_many_charts_are_drawn_while_this_process_goes_on(tmp_path: Path):
    with Painter() as painter:
        for number in range(20):
            painter.paint(Chart(float(number)), tmp_path / f"c{number}")
        painter.wait()
        assert all((tmp_path / f"c{number}.{kind}").stat().st_size for number in range(20) for kind in KINDS)


def test_an_error_elsewhere_does_not_wait_for_drawings(tmp_path: Path):
    def fail() -> None:
        with Painter() as painter:
            painter.paint(Chart(), tmp_path / "one")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert not record_of(tmp_path / "one").exists()


def test_a_painter_that_draws_nothing_starts_nothing():
    with Painter() as painter:
        assert painter._process is None
