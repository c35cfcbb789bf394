"""Check the built site: ``python tools/docs/check_site.py site``.

Every link of every page leads to a file and an anchor that exist, and no page loads anything from another host.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src"}


class Page(HTMLParser):
    """What a page links to, what it loads, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.anchors = {"", "top"}
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Note what a tag says."""
        said = {name: value or "" for name, value in attributes}
        self.anchors |= {said[name] for name in ("id", "name") if name in said}
        if tag == "a" and "href" in said:
            self.links.add(said["href"])
        if tag in LOADS and LOADS[tag] in said and said.get("rel") != "canonical":
            self.loads.add(said[LOADS[tag]])


def problems(site: Path) -> list[str]:
    """Return a line for each dead link and each thing that is loaded from elsewhere."""
    pages = {path: Page(path.read_text("utf-8")) for path in site.rglob("*.html") if path.name != "404.html"}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site)
        for link in sorted(page.links | page.loads):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loads and parts.scheme != "data":
                    found.append(f"{name}: loads {link}")
                elif parts.scheme in ("http", "https") and not parts.netloc:
                    found.append(f"{name}: {link} names no host")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                found.append(f"{name}: {link} leads nowhere")
            elif (there := pages.get(target)) and unquote(parts.fragment) not in there.anchors:
                found.append(f"{name}: {link} has no such anchor")
    return found


if __name__ == "__main__":
    lines = problems(Path(sys.argv[1]).resolve())
    print("\n".join(lines) or "every link leads somewhere, and nothing is loaded from another host")
    sys.exit(bool(lines))
