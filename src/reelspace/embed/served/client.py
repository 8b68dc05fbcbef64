"""Requests to an endpoint: retried where that can help, bounded in time and size, and never led elsewhere."""

from __future__ import annotations

import http.client
import json
import os
import time
import urllib.error
import urllib.request
from typing import Any, NoReturn
from urllib.parse import urlsplit

from reelspace.embed.served.address import KEY, confidential
from reelspace.errors import ModelError

WAITS = (0.5, 2.0, 8.0)
"""Seconds between attempts."""
LONGEST_WAIT = 60.0  # that a server may ask for
LARGEST = 64 << 20  # bytes of an answer: four hundred vectors of 4096 numbers take a quarter of it
_TOLD = 300  # characters of a server's own words that are passed on


class RefusedError(ModelError):
    """The server will not have this request, whoever asks again: what it says is the reason."""


class OvercomeError(ModelError):
    """The server failed at this request, time after time."""


class UnreachableError(ModelError):
    """The server does not answer, or breaks off."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """An answer that leads elsewhere is an error: frames and keys go where the address says, and nowhere else."""


class _TryAgainError(Exception):
    def __init__(self, reason: str, after: float = 0.0, broken: bool = False) -> None:
        super().__init__(reason)
        self.after, self.broken = after, broken


class Client:
    """Posts JSON to one endpoint. It may be used from several threads."""

    def __init__(self, base: str, timeout: float) -> None:
        """Takes the key, if there is one, from `$REELSPACE_ENDPOINT_KEY`.

        Raises:
            ModelError: there is a key, and it would travel the open internet unencrypted.
        """
        self.base, self._timeout = base, timeout
        key = os.environ.get(KEY, "")
        if key and not confidential(base):
            raise ModelError(f"{base}: ${KEY} would be sent in the clear; use https, or a tunnel to this machine.")
        self._headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "reelspace"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        # A proxy of the environment is for the world outside, not for this machine.
        local = urlsplit(base).hostname in ("localhost", "127.0.0.1", "::1")
        proxies = urllib.request.ProxyHandler({} if local else None)
        self._opener = urllib.request.build_opener(proxies, _NoRedirect)

    def post(self, route: str, body: Any) -> Any:
        """The JSON that is answered to `body`.

        Raises:
            RefusedError: the request is at fault, not the moment.
            OvercomeError, UnreachableError: it was tried again, in vain.
            ModelError: the endpoint cannot be used at all.
        """
        data = json.dumps(body, ensure_ascii=False).encode("utf-8", "backslashreplace")
        for wait in (*WAITS, None):
            try:
                return self._once(f"{self.base}/{route}", data)
            except _TryAgainError as error:
                if wait is None:
                    kind = UnreachableError if error.broken else OvercomeError
                    raise kind(f"{self.base}: {error} ({len(WAITS) + 1} attempts).") from None
                time.sleep(min(max(wait, error.after), LONGEST_WAIT))
        raise AssertionError("unreachable")

    def _once(self, url: str, data: bytes) -> Any:
        ends = time.monotonic() + self._timeout
        request = urllib.request.Request(url, data, self._headers)
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                content = _read(answer, ends)
        except urllib.error.HTTPError as error:
            with error:
                self._failed(error, ends)
        except urllib.error.URLError as error:
            raise _TryAgainError(f"it cannot be reached: {error.reason}", broken=True) from None
        except (OSError, http.client.HTTPException) as error:
            said = str(error) or type(error).__name__
            raise _TryAgainError(f"it broke off: {said}", broken=True) from None
        try:
            return json.loads(content)
        except ValueError:
            raise ModelError(f"{self.base}: what it answers is no JSON: is this an OpenAI-style endpoint?") from None

    def _failed(self, error: urllib.error.HTTPError, ends: float) -> NoReturn:
        """Turns a status into what it means for the caller."""
        try:
            said = _words(_read(error, ends))
        except (OSError, http.client.HTTPException):
            said = ""
        status = f"HTTP {error.code}" + (f": {said}" if said else "")
        if error.code == 429 or error.code >= 500:
            raise _TryAgainError(status, _after(error.headers.get("Retry-After")))
        if error.code in (401, 403):
            raise ModelError(f"{self.base}: {status}. Set its key in ${KEY}.")
        if error.code in (404, 405) or 300 <= error.code < 400:
            raise ModelError(f"{self.base}: {status}. Is this the endpoint, and is the model's name the server's own?")
        raise RefusedError(status)


def _read(answer: Any, ends: float) -> bytes:
    """The whole answer, if it comes in time and is of a sane size."""
    parts, size = [], 0
    while part := answer.read1(1 << 16) if hasattr(answer, "read1") else answer.read(1 << 16):
        parts.append(part)
        size += len(part)
        if size > LARGEST:
            raise ModelError(f"an answer of more than {LARGEST >> 20} MB was stopped; is this an embedding endpoint?")
        if time.monotonic() > ends:
            raise TimeoutError("the answer takes too long")
    declared = answer.headers.get("Content-Length")
    if declared is not None and size < int(declared):
        raise http.client.IncompleteRead(b"", int(declared) - size)
    return b"".join(parts)


def _words(content: bytes) -> str:
    """What a server says went wrong, in one short line."""
    text = content.decode("utf-8", "replace")
    try:
        told = json.loads(text)
        told = told.get("error", told) if isinstance(told, dict) else told
        told = (told.get("message") or told.get("detail") or told) if isinstance(told, dict) else told
        text = told if isinstance(told, str) else json.dumps(told)
    except ValueError:
        pass
    text = " ".join(text.split())
    return text if len(text) <= _TOLD else text[:_TOLD] + "…"


def _after(header: str | None) -> float:
    """Seconds that a server asks to wait (it may also name a date, which is passed over)."""
    return float(header) if header and header.replace(".", "", 1).isdecimal() else 0.0
