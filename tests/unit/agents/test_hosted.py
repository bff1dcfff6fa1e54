"""Requests through which a provider would reach the network for an agent are refused; its own tools are not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from packager.agents.hosted import hosted_wish

OWN_TOOL = "refused: the provider is asked to run a tool of its own: "
FETCH = "refused: the provider is asked to fetch "
REACHES = ", which reaches the network"


@pytest.mark.parametrize(
    ("plain", "reason"),
    [
        ({"tools": [{"type": "web_search"}]}, f"{OWN_TOOL}web_search"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, f"{OWN_TOOL}web_search_20250305"),
        ({"tools": [{"type": "function", "name": "f"}, {"type": "mcp", "server_url": "u"}]}, f"{OWN_TOOL}mcp"),
        ({"tools": [{"type": "code_interpreter"}]}, f"{OWN_TOOL}code_interpreter"),
        ({"tools": [{"type": "namespace", "tools": [{"type": "web_search"}]}]}, f"{OWN_TOOL}web_search"),
        ({"input": [{"type": "tool_search_output", "tools": [{"type": "mcp"}]}]}, f"{OWN_TOOL}mcp"),
        ({"tools": [{"google_search": {}}]}, f"{OWN_TOOL}None"),
        ({"tools": ["web_search"]}, f"{OWN_TOOL}web_search"),
        ({"tools": [{"type": ["function"]}]}, f"{OWN_TOOL}['function']"),
        (
            {"mcp_servers": [{"type": "url", "url": "https://x.example"}]},
            f"refused: the provider is asked for mcp_servers{REACHES}",
        ),
        ({"web_search_options": {"a": 1}}, f"refused: the provider is asked for web_search_options{REACHES}"),
        (
            {
                "messages": [
                    {"content": [{"type": "document", "source": {"type": "url", "url": "https://x.example/a"}}]}
                ]
            },
            f"{FETCH}https://x.example/a",
        ),
        (
            {"input": [{"content": [{"type": "input_image", "image_url": "http://x.example/i"}]}]},
            f"{FETCH}http://x.example/i",
        ),
        ({"messages": [{"content": [{"image_url": {"url": "//x.example/i"}}]}]}, f"{FETCH}//x.example/i"),
        ({"input": [{"type": "input_file", "file_url": "ftp://x.example"}]}, f"{FETCH}ftp://x.example"),
    ],
)
def test_what_reaches_the_network_is_refused(plain: dict[str, Any], reason: str) -> None:
    assert hosted_wish({}, json.dumps(plain).encode()) == reason


@pytest.mark.parametrize(
    "plain",
    [
        {},
        [],
        {"tools": []},
        {"tools": [{"type": "function", "name": "f", "parameters": {"properties": {"image_url": {"type": "string"}}}}]},
        {"tools": [{"name": "Edit", "input_schema": {"type": "object"}}, {"type": "custom", "name": "apply_patch"}]},
        {"tools": [{"type": "local_shell"}, {"type": "bash_20250124", "name": "bash"}]},
        {"mcp_servers": []},
        {"input": [{"content": [{"type": "input_image", "image_url": "data:image/png;base64,AA=="}]}]},
        {
            "messages": [
                {"content": [{"type": "tool_use", "input": {"tools": ["web_search"], "url": "https://x.example"}}]}
            ]
        },
        {"messages": [{"content": "see https://x.example/a with web_search"}]},
    ],
)
def test_what_the_agent_does_itself_is_not(plain: Any) -> None:
    assert hosted_wish({}, json.dumps(plain).encode()) == ""


@pytest.mark.parametrize(
    ("headers", "body", "reason"),
    [
        ({}, b"", ""),
        ({}, b" \n", ""),
        ({"content-encoding": "zstd"}, b"{}", "refused: a request whose body is encoded cannot be looked into"),
        ({"content-encoding": "identity"}, b"{}", ""),
        ({}, b"a=b&tools=web_search", "refused: a request whose body is no plain JSON"),
        ({}, b"[" * 100_000, "refused: a request whose body is no plain JSON"),
        ({}, b'{"tools": [{"type": "web_search"}], "tools": []}', "refused: a request whose body is no plain JSON"),
        ({}, b"\xff\xfe", "refused: a request whose body is no plain JSON"),
    ],
)
def test_what_cannot_be_looked_into_is_refused(headers: dict[str, str], body: bytes, reason: str) -> None:
    assert hosted_wish(headers, body) == reason
