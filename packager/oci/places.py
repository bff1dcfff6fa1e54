"""Where an image says what it is, for the rooms that write it and those that read it."""

from __future__ import annotations

TASK_LABEL = "dev.wideswe.task"
"""The label that says of which task an image is."""
TASK_SCHEMA = "wideswe-task/1"
TASK_PATH = b"opt/wideswe/task.json"
PROMPT_PATH = b"opt/wideswe/prompt.md"
SEALED_PATH = b"opt/wideswe/sealed.age"
