"""Digests that reveal changes of a file."""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np


def digest(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    """Return the digest of a file's header, except its own entry, and of its arrays."""
    rest = {key: value for key, value in header.items() if key != "digest"}
    result = sha256(json.dumps(rest, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        result.update(json.dumps([name, str(array.dtype), array.shape]).encode())
        result.update(array.tobytes())
    return result.hexdigest()
