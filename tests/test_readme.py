"""The README's first example runs as it stands."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_first_example_is_short_and_runs(capsys):
    code = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL).group(1)
    assert len(code.strip().splitlines()) <= 20
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    mamba, linear, mine = capsys.readouterr().out.strip().splitlines()
    assert float(re.search(r"\) ([\d.e-]+) \(over seeds", mamba).group(1)) < 0.01
    assert float(re.search(r"\) ([\d.e-]+) \(over seeds", linear).group(1)) > 0.9
    assert mine.startswith("Run(Mine, 16 seeds")


def test_every_file_it_points_to_exists():
    for target in re.findall(r"\]\(([^)#:]+)\)", README.read_text()):
        assert (README.parent / target).exists(), target
