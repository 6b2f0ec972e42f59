"""Records that carry a checksum of their own content.

The checksum is the SHA-256 of the record as canonical JSON (UTF-8, keys in order, no spaces) without the key `sha256`
itself. So a record may be indented or its keys put in another order, and any value that changes shows.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

KEY = "sha256"


class Damaged(ValueError):
    """A record is not what was written; the message says what is wrong with it, without its path."""


def checksum(record: Mapping[str, Any]) -> str:
    content = {name: value for name, value in record.items() if name != KEY}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def seal(record: Mapping[str, Any]) -> dict[str, Any]:
    return {**record, KEY: checksum(record)}


def unseal(content: bytes) -> dict[str, Any]:
    """The record in the content of a file, with its checksum, which is right; without one if it never had one.

    Raises:
        Damaged: if it is not what was written.
    """
    if not content.strip():
        raise Damaged("it is empty")
    try:
        record = json.loads(content)
    except (ValueError, RecursionError):
        raise Damaged("it is no JSON") from None
    if not isinstance(record, dict):
        raise Damaged(f"it holds a {type(record).__name__}; expected an object")
    if record.get(KEY) is not None and record[KEY] != checksum(record):
        raise Damaged("its checksum is another")
    return record
