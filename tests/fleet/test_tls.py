"""Mutual TLS: whoever has no certificate of the fleet's authority is not heard, token or not."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tidegate.domain import InvalidInput, TidegateError
from tidegate.fleet.calls import Client, Server
from tidegate.fleet.config import TlsRule
from tidegate.fleet.tls import certificates

TOKEN = b"t" * 32
pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made with openssl")


def openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TlsRule]:
    """Two fleets, each with an authority and a machine."""
    made = {}
    for fleet in ("ours", "theirs"):
        folder = tmp_path_factory.mktemp(fleet)
        ca, key, cert = folder / "ca.pem", folder / "key.pem", folder / "cert.pem"
        new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        openssl("req", "-x509", *new, "-keyout", f"{folder}/ca.key", "-out", str(ca), "-subj", f"/CN={fleet}")
        openssl("req", *new, "-keyout", str(key), "-out", f"{folder}/csr", "-subj", "/CN=host")
        openssl("x509", "-req", "-in", f"{folder}/csr", "-CA", str(ca), "-CAkey", f"{folder}/ca.key", "-out", str(cert))
        key.chmod(0o600)
        made[fleet] = TlsRule(authority=str(ca), certificate=str(cert), key=str(key))
    return made


def test_members_talk_and_strangers_are_refused(authorities: dict[str, TlsRule]) -> None:
    ours, theirs = certificates(authorities["ours"]), certificates(authorities["theirs"])
    heard: list[str] = []

    def answer(kind: str, fields: dict[str, object]) -> dict[str, object]:
        heard.append(kind)
        return {"ok": True}

    server = Server(answer, TOKEN, tls=ours)
    assert Client(server.address, TOKEN, tls=ours).ask("status") == {"ok": True}
    with pytest.raises(TidegateError):
        Client(server.address, TOKEN).ask("without-certificate")
    with pytest.raises(TidegateError, match="not from this fleet"):
        Client(server.address, TOKEN, tls=theirs).ask("of-another-authority")
    with pytest.raises(TidegateError, match="does not know the fleet's token"):
        Client(server.address, b"o" * 32, tls=ours).ask("without-token")
    assert heard == ["status"]
    server.close()


def test_what_is_wrong_with_the_files_is_said(authorities: dict[str, TlsRule], tmp_path: Path) -> None:
    rule = authorities["ours"]
    with pytest.raises(InvalidInput, match=r"tls\.key .*no such file"):
        certificates(rule.model_copy(update={"key": str(tmp_path / "none")}))
    open_key = tmp_path / "key.pem"
    shutil.copy(rule.key, open_key)
    open_key.chmod(0o644)
    with pytest.raises(InvalidInput, match="chmod 600"):
        certificates(rule.model_copy(update={"key": str(open_key)}))
    with pytest.raises(InvalidInput, match="cannot be used"):
        certificates(rule.model_copy(update={"key": authorities["theirs"].key}))
