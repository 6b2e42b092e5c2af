"""What a server has signed: thinking, encrypted reasoning, thought signatures.

Owns: making and checking signatures. Must not know: where a dialect puts them.
A signature is bound to the server's key, to the model, and to the text where the API binds it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets


class Issued:
    """Signs with `key` (a random one by default, so that no other server's signatures pass).

    `needs` maps an item's id to the reasoning item that was issued with it (responses).
    """

    def __init__(self, key: str | None = None) -> None:
        self._key = (secrets.token_hex(16) if key is None else key).encode()
        self.needs: dict[str, str] = {}

    def sign(self, model: str, stamp: str, text: str = "") -> str:
        """A signature: 76 hexadecimal digits, which is also valid base64. `stamp`: 12 hexadecimal digits."""
        return stamp + self._mac(model, stamp, text)

    def knows(self, signature: object, model: str, text: str = "") -> bool:
        """Whether this server issued it, for this model and this text."""
        if not isinstance(signature, str) or len(signature) != 76 or not signature.isascii():
            return False
        return hmac.compare_digest(signature[12:], self._mac(model, signature[:12], text))

    def _mac(self, model: str, stamp: str, text: str) -> str:
        return hmac.new(self._key, "\0".join((model, stamp, text)).encode(errors="replace"), hashlib.sha256).hexdigest()
