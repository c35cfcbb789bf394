"""The first steps: no command at all, and the Tab key."""

import shlex
import shutil
import subprocess

import pytest

from iclab.cli.guiding import script
from iclab.cli.help import BEGIN
from iclab.cli.parser import parser


def test_without_a_command_it_says_where_to_begin(cli):
    said = cli()
    assert (said.code, said.err) == (0, "")
    assert said.out.rstrip("\n") == BEGIN


def test_the_commands_to_begin_with_exist():
    lines = [line.strip().split("   ")[0] for line in BEGIN.splitlines() if line.startswith("  iclab ")]
    assert len(lines) >= 5
    for line in lines:
        parser().parse_args(shlex.split(line)[1:])


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    "words, expected",
    [
        ("run M-fig", {"M-fig2", "M-fig3", "M-fig4", "M-fig5", "M-fig6"}),
        ("train deep-l", {"deep-linear"}),
        ("store che", {"check"}),
        ("train --outlier-fr", {"--outlier-fraction"}),
    ],
    ids=["experiments", "models", "actions", "flags"],
)
def test_tab_completes_in_bash(tmp_path, words, expected):
    (tmp_path / "iclab.bash").write_text(script("bash"))
    *before, last = ["iclab", *words.split()]
    asked = (
        f"source {tmp_path}/iclab.bash; COMP_WORDS=(iclab {words}); COMP_CWORD={len(before)}; "
        f'_shtab_iclab iclab {last} {before[-1]}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    found = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    assert expected <= set(found.stdout.split())
