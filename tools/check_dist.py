"""Install the built wheel as a user would, and use it: ``python tools/check_dist.py dist``.

The wheel must hold every file of the package, and the source archive everything that tests and documentation need.
Then the wheel goes into a new environment, and a figure and the playground are made in a folder outside the clone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def files(folder: str) -> set[str]:
    """Return the files of a folder of the clone, relative to it, without what programs keep for themselves."""
    found = (path.relative_to(ROOT / folder) for path in (ROOT / folder).rglob("*") if path.is_file())
    kept = (path for path in found if not any(part.startswith((".", "__pycache__")) for part in path.parts))
    return {path.as_posix() for path in kept}


def check_contents(wheel: Path, archive: Path) -> None:
    """Require that nothing is missing."""
    held = set(zipfile.ZipFile(wheel).namelist())
    missing = files("src") - held
    assert not missing, f"not in {wheel.name}: {sorted(missing)}"
    with tarfile.open(archive) as opened:
        held = {name.partition("/")[2] for name in opened.getnames()}
    needed = {f"{folder}/{name}" for folder in ("src", "tests", "docs", "tools", "examples") for name in files(folder)}
    needed |= {"Makefile", "constraints.txt", "pyproject.toml", "zensical.toml", "README.md", "CHANGELOG.md", "LICENSE"}
    assert not needed - held, f"not in {archive.name}: {sorted(needed - held)}"
    print(f"{wheel.name} and {archive.name} are complete")


def check_use(wheel: Path, place: Path) -> None:
    """Install the wheel into a new environment, and make a figure and the playground there."""
    venv.create(place / "environment", with_pip=True)
    programs = place / "environment" / "bin"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ICLAB"))}
    environment |= {"PIP_CONSTRAINT": str(ROOT / "constraints.txt"), "ICLAB_CACHE": str(place / "cache")}

    def call(program: str, *words: str) -> str:
        print(f"running: {program} {' '.join(words)}", flush=True)
        finished = subprocess.run(
            [programs / program, *words], cwd=place, env=environment, stdout=subprocess.PIPE, text=True
        )
        assert finished.returncode == 0, f"{program} {words[0]} ended with exit code {finished.returncode}"
        return finished.stdout

    call("pip", "install", "--quiet", "--disable-pip-version-check", str(wheel))
    version = wheel.name.split("-")[1]
    assert call("iclab", "--version") == f"iclab {version}\n"
    found = json.loads(call("iclab", "run", "M-fig2", "--quick", "--json"))
    assert found["complete"]
    print("claims of M-fig2:", dict(Counter(claim["verdict"] for claim in found["claims"])))
    assert (place / found["figure"]).stat().st_size > 10_000
    page = place / json.loads(call("iclab", "playground", "--json"))["playground"]
    assert "</html>" in page.read_text("utf-8")


if __name__ == "__main__":
    dist = Path(sys.argv[1]).resolve()
    (wheel,), (archive,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    check_contents(wheel, archive)
    with tempfile.TemporaryDirectory() as folder:
        check_use(wheel, Path(folder))
