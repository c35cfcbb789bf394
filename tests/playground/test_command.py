"""The command, and the link from the report."""

import json

import pytest

from iclab.cli import main
from iclab.lab import Store
from iclab.report.content import collect
from iclab.report.page import render


def test_the_command_writes_one_file(tmp_path, capsys):
    main(["playground", "--out", str(tmp_path / "new"), "--json"])
    page = tmp_path / "new" / "playground.html"
    assert json.loads(capsys.readouterr().out) == {"playground": str(page)}
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["playground.html"]
    text = page.read_text()
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text
    assert len(text) < 150_000


@pytest.mark.slow
def test_the_report_links_to_a_playground_beside_it(tmp_path):
    content = collect(Store(tmp_path))
    assert 'href="playground.html"' in render(content, playground=True)
    assert 'href="playground.html"' not in render(content)
