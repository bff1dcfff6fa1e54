"""A model that speaks as its provider would, over HTTP with events: it has one shell command run, then says that it is done.

Two protocols: Responses (`/responses`) and Messages (`/messages`), each as far as a real client of it needs.
"""

from __future__ import annotations

import contextlib
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

from tests.support.fake_model import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

DONE = "I will update gauge and tidewatch; all is done."


@dataclass
class TalkingModel:
    """What it has run, where it is, and what it was asked: path, headers, and body as JSON values."""

    command: str
    url: str = ""
    asked: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)

    def answer(self, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the events that answer a request."""
        if path.endswith("/responses"):
            return _responses(body, self.command)
        return _messages(body, self.command)


def _responses(body: dict[str, Any], command: str) -> list[dict[str, Any]]:
    names = {tool.get("name") for tool in body.get("tools", [])}
    done = any(item.get("type", "").endswith("_call_output") for item in body["input"])
    if done or not names & {"exec_command", "shell_command", "shell"}:
        content = [{"type": "output_text", "text": DONE}]
        item: dict[str, Any] = {"type": "message", "role": "assistant", "id": "m1", "content": content}
    else:
        name, given = next(
            (name, given)
            for name, given in (
                ("exec_command", {"cmd": command}),
                ("shell_command", {"command": command}),
                ("shell", {"command": ["sh", "-c", command]}),
            )
            if name in names
        )
        item = {"type": "function_call", "id": "f1", "call_id": "c1", "name": name, "arguments": json.dumps(given)}
    usage = {"input_tokens": 1, "input_tokens_details": None, "output_tokens": 1, "output_tokens_details": None}
    return [
        {"type": "response.created", "response": {"id": "r1"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "r1", "usage": {**usage, "total_tokens": 2}}},
    ]


def _messages(body: dict[str, Any], command: str) -> list[dict[str, Any]]:
    last = body["messages"][-1]["content"]
    done = isinstance(last, list) and any(part.get("type") == "tool_result" for part in last)
    can = any(tool.get("name") == "Bash" for tool in body.get("tools", []))
    block: dict[str, Any] = {"type": "text", "text": ""}
    delta: dict[str, Any] = {"type": "text_delta", "text": DONE}
    if can and not done:
        block = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps({"command": command, "description": "do it"})}
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "content": []}
    why = "tool_use" if can and not done else "end_turn"
    return [
        {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": why, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]


class _Talk(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None: ...

    def do_GET(self) -> None:
        self._send(b'{"data": [], "models": []}', "application/json")

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        model: TalkingModel = self.server.model  # type: ignore[attr-defined]
        body, path = json.loads(data), self.path.partition("?")[0]
        model.asked.append((path, {name.lower(): text for name, text in self.headers.items()}, body))
        if path.endswith("/count_tokens"):
            self._send(b'{"input_tokens": 1}', "application/json")
            return
        events = model.answer(path, body)
        if body.get("stream"):
            text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
            self._send(text.encode(), "text/event-stream")
            return
        message = {
            **events[0].get("message", {}),
            "content": [{"type": "text", "text": DONE}],
            "stop_reason": "end_turn",
        }
        self._send(json.dumps(message).encode(), "application/json")

    def _send(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body)


@contextlib.contextmanager
def talking_model(command: str, base: str) -> Iterator[TalkingModel]:
    """Serve until the block is left; `base` is the path that everything lies below."""
    with Server(("127.0.0.1", 0), _Talk) as server:
        server.model = TalkingModel(command, f"http://127.0.0.1:{server.server_address[1]}{base}")
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.model
        finally:
            server.shutdown()
            thread.join()
