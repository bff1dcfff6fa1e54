"""Serves what a task's steps fetch, to builds by other engines; copied into contexts, so it needs Python alone.

Run: python3 replay/serve.py [PORT]. It is a proxy for plain HTTP on loopback and knows nothing but answers.json.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_PORT = 3128
_UNKNOWN = 599


class Answers(BaseHTTPRequestHandler):
    """Answers requests for absolute URLs as the lock does."""

    protocol_version = "HTTP/1.1"
    rows: tuple[dict[str, str], ...] = ()

    def do_GET(self) -> None:
        """Send the answer that fits the URL and, if there are several, what the client accepts."""
        fitting = [row for row in self.rows if row["url"] == self.path]
        accept = self.headers.get("Accept", "")
        row = next((row for row in fitting if row["accept"] == accept), fitting[0] if fitting else None)
        body = b"not recorded\n" if row is None else (_HERE / row["body"]).read_bytes()
        self.send_response(_UNKNOWN if row is None else int(row["status"]))
        self.send_header("Content-Type", "text/plain" if row is None else row["type"])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - the base class's name

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""


def main() -> None:
    """Serve until it is stopped."""
    Answers.rows = tuple(json.loads((_HERE / "answers.json").read_text()))
    port = int(sys.argv[1]) if len(sys.argv) > 1 else _PORT
    ThreadingHTTPServer(("127.0.0.1", port), Answers).serve_forever()


if __name__ == "__main__":
    main()
