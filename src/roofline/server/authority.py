"""Hosts and ports as a Host header, an Origin or an option names them, read in one place."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import NamedTuple

_SPELLED = re.compile(r"(?:\[(?P<six>[^\[\]]*:[^\[\]]*)\]|(?P<name>[^:\[\]]+))(?::(?P<port>[0-9]{0,5}))?")
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_-])?\.?")
_PORTS = {"http": 80, "https": 443}  # where none is named


class Authority(NamedTuple):
    """A host, in lower case or as the shortest spelling of its address, and a port, None where none is named."""

    host: str
    port: int | None


def authority(text: str) -> Authority | None:
    """What `host`, `host:port`, `[address]:port` or an address alone names; None where it names no host."""
    found = _SPELLED.fullmatch(text)
    host = text if found is None else found["six"] or found["name"]
    port = found["port"] if found else ""
    address = address_of(host)
    if address is None and (found is None or not _NAME.fullmatch(host)):
        return None
    return Authority(address or host.casefold().removesuffix("."), int(port) if port else None)


def address_of(text: str) -> str | None:
    """The one spelling of an IP address, without a zone, IPv4 also where IPv6 wraps it; None for what is none."""
    try:
        address = ip_address(ip_address(text).packed)
    except ValueError:
        return None
    return str(getattr(address, "ipv4_mapped", None) or address)


def local(text: str) -> bool:
    """Whether a host, with a port or without, names this machine: localhost or a loopback address."""
    found = authority(text)
    if found is None:
        return False
    return found.host == "localhost" or (address_of(found.host) is not None and ip_address(found.host).is_loopback)


def is_origin(origin: str, host: Authority) -> bool:
    """Whether an Origin header names the host and port that the Host header of the same request does."""
    scheme, _, rest = origin.partition("://")
    found, usual = authority(rest), _PORTS.get(scheme.casefold())
    if found is None or usual is None:
        return False
    return (found.host, found.port or usual) == (host.host, host.port or usual)
