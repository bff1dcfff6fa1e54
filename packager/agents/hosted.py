"""What a request must not ask of a model's provider: to reach the network, or a computer of its own, for the agent.

Providers offer tools that they run themselves (search, fetching pages, remote MCP servers, code) and take files by
address. Either would be a way around the cut network, so that only tools are passed on that the agent itself runs.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_OWN_TOOLS = re.compile(
    r"function|custom|local_shell|shell|apply_patch|namespace|tool_search|bash_\d+|text_editor_\d+|memory_\d+"
    r"|tool_search_tool_(bm25|regex)(_\d+)?"
)
_KEYS = ("mcp_servers", "web_search_options", "plugins", "extra_body")
_ADDRESSES = ("image_url", "file_url")
_MOST_VALUES = 2_000_000


def hosted_wish(headers: Mapping[str, str], body: bytes) -> str:
    """Return why a request is not passed on, or nothing; a body that is no JSON object asks for nothing."""
    if headers.get("content-encoding", "identity").lower() != "identity":
        return "refused: a request whose body is encoded cannot be looked into"
    if not body.strip():
        return ""
    try:
        plain = json.loads(body, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return "refused: a request whose body is no plain JSON"
    if not isinstance(plain, dict):
        return ""
    for key in _KEYS:
        if plain.get(key):
            return f"refused: the provider is asked for {key}, which reaches the network"
    given = plain.get("input")
    items = [item.get("tools") for item in given if isinstance(item, dict)] if isinstance(given, list) else []
    wishes = (_tool_wish(tools) for tools in (plain.get("tools"), *items))
    return next(filter(None, wishes), "") or _address_wish(plain)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object with a key twice: who reads it elsewhere may take the other one."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def _tool_wish(tools: Any) -> str:  # noqa: ANN401 - anything that JSON can say
    for tool in tools if isinstance(tools, list) else []:
        kind = tool.get("type") if isinstance(tool, dict) else tool
        if kind is None and isinstance(tool, dict) and isinstance(tool.get("name"), str):
            continue
        if not isinstance(kind, str) or _OWN_TOOLS.fullmatch(kind) is None:
            return f"refused: the provider is asked to run a tool of its own: {str(kind)[:80]}"
        inside = _tool_wish(tool.get("tools")) if isinstance(tool, dict) else ""
        if inside:
            return inside
    return ""


def _address_wish(plain: Any) -> str:  # noqa: ANN401 - anything that JSON can say
    """Look for files that the provider would fetch."""
    waiting, left = [plain], _MOST_VALUES
    while waiting and left:
        left -= 1
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            found = _address_in(value)
            if found:
                return f"refused: the provider is asked to fetch {found[:80]}"
            waiting += value.values()
    return "" if left else "refused: a request of too many values"


def _address_in(value: dict[str, Any]) -> str:
    places = [value.get("url")] if value.get("type") == "url" else []
    for key in _ADDRESSES:
        given = value.get(key)
        places.append(given.get("url") if isinstance(given, dict) else given)
    return next((place for place in places if isinstance(place, str) and not place.startswith("data:")), "")
