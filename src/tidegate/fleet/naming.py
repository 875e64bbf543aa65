"""How managers are addressed, and how their messages cross hosts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tidegate.domain import InvalidInput
from tidegate.managers import Message, decode

INFRASTRUCTURE = "infrastructure"


def application_manager(application: str) -> str:
    return f"application:{application}"


def region_manager(region: str) -> str:
    return f"region:{region}"


def operator_manager(application: str, operator: str) -> str:
    return f"{application}.{operator}"


def received(texts: Iterable[str], now_s: float) -> list[Message]:
    """Decode what came in, dated when it came: no clock is compared with that of another host.

    A message of another version, or no message at all, is left out; its sender will ask again.
    """
    messages = []
    for text in texts:
        try:
            messages.append(replace(decode(text), time_s=now_s))
        except InvalidInput:
            continue
    return messages
