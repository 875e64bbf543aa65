"""Mutual TLS between the hosts of a fleet and its centre, from certificate files.

Both sides present a certificate of the fleet's own authority. Names in certificates are not compared with addresses:
any holder of such a certificate is a member, wherever it runs. The token is required in addition.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from tidegate.domain import InvalidInput
from tidegate.fleet.config import TlsRule


@dataclass(frozen=True, slots=True)
class Certificates:
    """One machine's TLS contexts, for incoming and outgoing connections."""

    server: ssl.SSLContext
    client: ssl.SSLContext


def certificates(rule: TlsRule) -> Certificates:
    """Read the files. Problems raise a one-line error."""
    return Certificates(_context(rule, ssl.PROTOCOL_TLS_SERVER), _context(rule, ssl.PROTOCOL_TLS_CLIENT))


def _context(rule: TlsRule, protocol: int) -> ssl.SSLContext:
    for name, text in (("authority", rule.authority), ("certificate", rule.certificate), ("key", rule.key)):
        if not Path(text).is_file():
            raise InvalidInput(f"tls.{name} {text}: no such file; every machine of the fleet needs its own copy")
    if Path(rule.key).stat().st_mode & 0o077:
        raise InvalidInput(f"tls.key {rule.key}: others can read it; chmod 600 it, and have a new certificate issued")
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_verify_locations(rule.authority)
        context.load_cert_chain(rule.certificate, rule.key)
    except ssl.SSLError as error:
        raise InvalidInput(f"tls: {rule.certificate} and {rule.key} cannot be used ({error.reason})") from None
    return context
