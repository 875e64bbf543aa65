"""Access rules: loopback needs no token for reading, other addresses do, and cross-site requests are refused."""

from __future__ import annotations

import hmac
import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidegate.domain import InvalidInput

TOKEN_VARIABLE = "TIDEGATE_CONSOLE_TOKEN"
_LEAST_TOKEN = 16

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS: Mapping[str, str] = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class Access:
    """The access rules of one server."""

    host: str
    token: str | None = None

    def __post_init__(self) -> None:
        if self.token is not None and len(self.token) < _LEAST_TOKEN:
            raise InvalidInput(
                f"the console's token has {len(self.token)} characters; use at least {_LEAST_TOKEN},"
                " for example from: openssl rand -hex 16"
            )
        if not self.loopback and self.token is None:
            raise InvalidInput(
                f"console.host {self.host} can be reached from other machines, so a token is needed: put one into a"
                f" file and set token_file, or set {TOKEN_VARIABLE}"
            )

    @property
    def loopback(self) -> bool:
        return is_loopback(self.host)

    def knows(self, host_header: str) -> bool:
        """Was the server addressed by its own name? A foreign page may use a name that resolves to this server.

        >>> Access("127.0.0.1").knows("localhost:4050"), Access("127.0.0.1").knows("evil.example:4050")
        (True, False)
        """
        return not self.loopback or is_loopback(_without_port(host_header))

    def same_site(self, headers: Mapping[str, str]) -> bool:
        """Requests for data or changes must come from our own page or from no page at all."""
        if headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
            return False
        origin = headers.get("origin")
        return origin is None or origin.partition("://")[2] == headers.get("host")

    def may_read(self, headers: Mapping[str, str]) -> bool:
        return self.loopback or self.may_steer(headers)

    def may_steer(self, headers: Mapping[str, str]) -> bool:
        """Only with the token, sent as `Authorization: Bearer TOKEN`."""
        kind, _, given = headers.get("authorization", "").partition(" ")
        if self.token is None or kind.lower() != "bearer":
            return False
        return hmac.compare_digest(given.strip().encode(), self.token.encode())


def is_loopback(host: str) -> bool:
    """
    >>> [is_loopback(host) for host in ("localhost", "127.0.0.1", "[::1]", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def read_token(file: str | Path | None) -> str | None:
    """The token from the file or from the environment; None if there is none."""
    if file is None:
        return os.environ.get(TOKEN_VARIABLE) or None
    try:
        token = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the console's token file {file} cannot be read: {error}") from None
    if not token:
        raise InvalidInput(f"the console's token file {file} is empty; put a token into it")
    return token


def _without_port(host_header: str) -> str:
    if host_header.startswith("["):
        return host_header.partition("]")[0] + "]"
    return host_header.rpartition(":")[0] if ":" in host_header else host_header
