"""One server-sent event as bytes. It knows nothing of what is in it."""

from __future__ import annotations

import json
from typing import Any


def frame(data: Any, event: str = "") -> bytes:
    """The event; a string is sent as it is, anything else as JSON."""
    text = data if isinstance(data, str) else json.dumps(data)
    return f"{f'event: {event}' + chr(10) if event else ''}data: {text}\n\n".encode()
