"""What tells when a byte of a file has changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np

__all__ = ["digest"]


def digest(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    """A number of all that a file says and holds, other than itself."""
    said = {key: value for key, value in header.items() if key != "digest"}
    found = sha256(json.dumps(said, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        found.update(json.dumps([name, str(array.dtype), array.shape]).encode())
        found.update(array.tobytes())
    return found.hexdigest()
