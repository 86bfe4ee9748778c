"""The cluster's key for seals: Ed25519, made once on the head. Who can read it, and what follows: docs/evidence.md."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base import files
from ..base.errors import Blocked

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

PRIVATE, PUBLIC = "seal_key", "seal_key.pub"
TRUSTED = "seal_key*.pub"
"""The public keys that are believed: the cluster's own, and those of other clusters that a person put beside it."""


class Key:
    """The private key. ``keyid`` is the SHA-256 of the public key's DER form."""

    def __init__(self, folder: Path) -> None:
        """Read the key in ``folder``, or make it; the caller holds the lock. Raises Blocked, OSError."""
        serialization, ed25519 = _libraries()
        path = folder / PRIVATE
        if not path.exists():
            made = ed25519.Ed25519PrivateKey.generate()
            pem, pkcs8, plain = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            files.write_bytes(path, made.private_bytes(pem, pkcs8, plain), mode=0o600)
        try:
            self._key = serialization.load_pem_private_key(path.read_bytes(), None)
        except ValueError as error:
            raise Blocked(f"{path} is not a key: {error}", hint=f"restore it, or remove it and {folder / PUBLIC}") from None
        public = self._key.public_key()
        self.keyid = keyid(public)
        pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        if not (folder / PUBLIC).exists():
            files.write_bytes(folder / PUBLIC, pem)

    def sign(self, data: bytes) -> bytes:
        """Return the signature, 64 bytes."""
        signature: bytes = self._key.sign(data)
        return signature


class Trust:
    """The public keys in a folder."""

    def __init__(self, folder: Path) -> None:
        """Read them. Raises Blocked, OSError."""
        serialization, _ = _libraries()
        self._keys: dict[str, Ed25519PublicKey] = {}
        for path in sorted(folder.glob(TRUSTED)):
            try:
                public = serialization.load_pem_public_key(path.read_bytes())
            except ValueError as error:
                raise Blocked(f"{path} is not a public key: {error}", hint=f"remove {path}") from None
            self._keys[keyid(public)] = public

    def __contains__(self, keyid: str) -> bool:
        return keyid in self._keys

    def verifies(self, keyid: str, signature: bytes, data: bytes) -> bool:
        """Return whether that key made the signature for ``data``."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._keys[keyid].verify(signature, data)
        except (KeyError, InvalidSignature):
            return False
        return True


def keyid(public: Ed25519PublicKey) -> str:
    """Return the SHA-256 of a public key's DER form: what ``openssl pkey -pubin -outform DER | sha256sum`` prints."""
    serialization, _ = _libraries()
    der = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).hexdigest()


def _libraries() -> tuple[Any, Any]:
    """Return two modules of ``cryptography``, which Ray's own packages bring. Raises Blocked without it."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise Blocked("this host's Python lacks the package cryptography", hint="./scripts/12_install_py_deps.sh") from None
    return serialization, ed25519
