"""The command."""

import json

from iclab.cli import main


def test_the_command_writes_one_file(tmp_path, capsys):
    main(["playground", "--out", str(tmp_path / "new"), "--json"])
    page = tmp_path / "new" / "playground.html"
    assert json.loads(capsys.readouterr().out) == {"playground": str(page)}
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["playground.html"]
    text = page.read_text()
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text
    assert len(text) < 150_000
