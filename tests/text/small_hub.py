"""A hub on this machine: the few requests that fetching a model or a data set makes, answered from a folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Serve a folder as whatever repository is asked for; yield the address, and the files that were fetched."""
    files = {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    fetched: list[str] = []

    class Hub(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(False)

        def do_GET(self) -> None:
            self._answer(True)

        def _answer(self, body: bool) -> None:
            path = unquote(urlsplit(self.path).path)
            if "/resolve/" in path:
                name = path.split("/resolve/")[1].split("/", 1)[1]
                content = files[name]
                if body:
                    fetched.append(name)
            elif "/tree/" in path:
                about = ({"type": "file", "path": n, "size": len(c), "oid": _oid(c)} for n, c in files.items())
                content = json.dumps(list(about)).encode()
            else:
                content = json.dumps({"id": "any/thing", "sha": COMMIT, "siblings": []}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("ETag", f'"{_oid(content)}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.end_headers()
            if body:
                self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", fetched
    finally:
        server.shutdown()
        server.server_close()


def _oid(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
