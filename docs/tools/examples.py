"""Examples in docstrings, shown as code: a paragraph that begins with >>> is a session."""

from __future__ import annotations

import re
from typing import Any

import griffe

__all__ = ["Examples", "fenced"]

_SESSION = re.compile(r"^>>> .*?(?=\n[ \t]*\n|\Z)", re.M | re.S)


def fenced(text: str) -> str:
    """A docstring with fences around its sessions, which Markdown would take for quotations."""
    return _SESSION.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```", text)


class Examples(griffe.Extension):
    """Fences for every docstring that is loaded."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
