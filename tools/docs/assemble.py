"""Gather the pages of the site: ``python tools/docs/assemble.py FOLDER``.

The pages are read on GitHub as they stand, so they link to files of the repository. Here every such file gets a page:
those of docs/, some from elsewhere, executed notebooks, and a listing for each source file or folder that a page points
to. A link to a file that does not exist ends the build.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import sys
from pathlib import Path

from notebooks import rendered

ROOT = Path(__file__).resolve().parents[2]
ELSEWHERE = {
    "README.md": "index.md",  # the home page takes its place
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "src/iclab/report/choices.md": "choices.md",
}
LINK = re.compile(r"(?P<text>\]\()(?P<target>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")
FENCED = re.compile(r"(```.*?```)", re.S)


class Site:
    """The site's pages while they are gathered, and where each file of the repository has its page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.listings: list[str] = []

    def gather(self) -> None:
        """Write all pages."""
        shutil.rmtree(self.folder, ignore_errors=True)
        for source in sorted((ROOT / "docs").rglob("*")):
            path = source.relative_to(ROOT).as_posix()
            if source.suffix == ".md":
                self.write(path, source.read_text("utf-8"))
            elif source.suffix == ".py":
                self.write(path, rendered(source, self.folder / "notebooks"))
            elif source.suffix in (".png", ".css"):
                target = self.folder / source.relative_to(ROOT / "docs")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
        for path in list(ELSEWHERE)[1:]:
            self.write(path, (ROOT / path).read_text("utf-8"))
        for path in self.listings:  # grows while it is read: a folder's page links to those of its files
            self.write(path, listing(path))

    def write(self, path: str, text: str) -> None:
        """Write the page of a file, with its links turned to the pages of what they point to."""
        page = self.page(path)
        parts = FENCED.split(text)
        parts[::2] = [LINK.sub(lambda link: self.turned(link, path, page), part) for part in parts[::2]]
        (self.folder / page).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / page).write_text("".join(parts), "utf-8")

    def turned(self, link: re.Match[str], path: str, page: str) -> str:
        """Return a link to a file of the repository as one to its page."""
        if (self.folder / page).parent.joinpath(link["target"]).is_file() and path.endswith(".py"):
            return link[0]  # a picture that a notebook has drawn
        folder = path if (ROOT / path).is_dir() else os.path.dirname(path)
        target = os.path.normpath(os.path.join(folder, link["target"]))
        if not (ROOT / target).exists():
            sys.exit(f"{path}: {link['target']} does not exist")
        to = os.path.relpath(self.page(target), os.path.dirname(page) or ".")
        return f"{link['text']}{to}{link['anchor'] or ''})"

    def page(self, path: str) -> str:
        """Return where a file of the repository is on the site."""
        if path in ELSEWHERE:
            return ELSEWHERE[path]
        if path.startswith("docs/"):
            return re.sub(r"\.py$", ".md", path.removeprefix("docs/"))
        if path not in self.listings:
            self.listings.append(path)
        return f"source/{path.removeprefix('src/')}" + ("/index.md" if (ROOT / path).is_dir() else ".md")


def listing(path: str) -> str:
    """Return a source file, or a folder's files with what each says of itself, as a page."""
    source = ROOT / path
    title = f"# `{path.removeprefix('src/')}`\n\n"
    if source.is_file():
        kind = {".py": "python", ".js": "javascript"}.get(source.suffix, "text")
        return f"{title}````{kind}\n{source.read_text('utf-8')}````\n"
    files = [file for file in sorted(source.iterdir()) if file.name != "__pycache__" and file.name != "__init__.py"]
    return title + "\n".join(f"- [`{file.name}`]({file.name}){said(file)}" for file in files) + "\n"


def said(file: Path) -> str:
    """Return the first line of a module's docstring."""
    source = file / "__init__.py" if file.is_dir() else file
    if source.suffix != ".py" or not source.exists():
        return ""
    text = ast.get_docstring(ast.parse(source.read_text("utf-8"))) or ""
    return f": {text.splitlines()[0]}" if text else ""


if __name__ == "__main__":
    Site(Path(sys.argv[1])).gather()
