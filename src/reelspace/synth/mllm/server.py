"""Any server that speaks OpenAI's chat completions: vLLM, SGLang, Ollama, llama.cpp's, or a hosted one.

What fails on the way or in the server is tried again, later each time and no longer than asked for; what is wrong with
one request is that request's fault alone; what is wrong with all of them (address, key, model's name) ends the run.
"""

from __future__ import annotations

import base64
import http.client
import json
import math
import os
import random
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from reelspace.embed.base import fingerprint
from reelspace.media.thumbnails import jpeg
from reelspace.synth.config import ServerMllm
from reelspace.synth.mllm import MllmError, RefusedError, Reply, Request

_AGAIN = {408, 409, 425, 429, 500, 502, 503, 504, 529}
_USELESS = {401, 403, 404, 405}
# How llama.cpp (with a 500), Ollama, vLLM and hosted models say that theirs sees nothing.
_BLIND = re.compile(
    r"image input is not supported|missing data required for image|not a multimodal model|at most 0 image"
    r"|image_url is only supported by|does not support (image|vision|multimodal)",
    re.I,
)
_LARGEST = 16 << 20  # bytes of an answer: a server that sends more is not answering us


class _PassingError(Exception):
    """It may go better next time.

    Attributes:
        after: when the server wants to be asked again, in seconds.
        down: there was no server.
    """

    def __init__(self, why: str, after: float | None = None, down: bool = False) -> None:
        super().__init__(why)
        self.after, self.down = after, down


class Server:
    """A model behind HTTP. Threads may share it; each has a connection of its own."""

    def __init__(self, config: ServerMllm) -> None:
        self._config = config
        url = urlsplit(config.url)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise MllmError(f"{config.url}: is no address of a server; write http://HOST:PORT/v1.")
        self._url, self._key = url, os.environ.get(config.key_variable, "")
        self._path = url.path.rstrip("/") + "/chat/completions"
        self._local = threading.local()
        self._connections: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    @property
    def fingerprint(self) -> str:
        config = self._config
        return fingerprint(
            **{"kind": "server", "model": config.model, "revision": config.revision, "edge": config.edge},
            **{"temperature": config.temperature, "most": config.max_tokens, "structured": config.structured},
        )

    @property
    def together(self) -> int:
        return self._config.concurrency

    def close(self) -> None:
        with self._lock:
            for connection in self._connections:
                connection.close()
            self._connections.clear()
            self._local = threading.local()

    def ask(self, request: Request) -> Reply:
        body = json.dumps(self.body(request)).encode()
        wait = 0.5
        for attempt in range(self._config.retries + 1):
            try:
                return self._once(body, request)
            except _PassingError as error:
                self._drop()
                if attempt == self._config.retries:
                    why = f"{self._config.url}: {error} (asked {attempt + 1} times, {wait:g} s apart at last)."
                    if error.down:
                        raise MllmError(
                            f"{why} Start the server or mend mllm.url, then run again: what is done is kept."
                        ) from None
                    raise RefusedError(why) from None
                # Spread out, so that those who failed together do not come back together.
                pause = error.after if error.after is not None else wait * random.uniform(0.5, 1.5)
                time.sleep(min(pause, self._config.longest_wait))
                wait = min(2 * wait, self._config.longest_wait)
        raise AssertionError("not reached")

    def body(self, request: Request) -> dict[str, Any]:
        """The request as the interface wants it."""
        config = self._config
        content: list[dict[str, Any]] = []
        for show in request.shows:
            content.append({"type": "text", "text": f"{show.name}:"})
            for number, frame in enumerate(show.frames):
                if show.moving:
                    content.append({"type": "text", "text": f"{show.times[number]:.2f} s"})
                picture = base64.b64encode(jpeg(frame, config.edge or 1 << 20)).decode()
                content.append({"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{picture}"}})
        content.append({"type": "text", "text": request.prompt})
        told: str | list[dict[str, Any]] = content if request.shows else request.prompt
        body: dict[str, Any] = {
            "model": config.model,
            "messages": [{"role": "system", "content": request.system}, {"role": "user", "content": told}],
            "temperature": config.temperature,
            "max_tokens": config.max_tokens,
            "seed": request.seed,
        }
        if request.choices:
            body |= {"temperature": 0.0, "max_tokens": 4}
            if config.likelihoods:
                body |= {"logprobs": True, "top_logprobs": 10}
        if request.schema is not None and config.structured:
            schema = {"name": request.task, "schema": request.schema.model_json_schema(), "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        if config.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body

    # -- one exchange --------------------------------------------------------------------------------------------

    def _once(self, body: bytes, request: Request) -> Reply:
        try:
            response = self._send(body)
            if response.status != 200:
                raise self._failure(response)
            data = self._streamed(response) if self._config.stream else self._whole(response)
        except (OSError, http.client.HTTPException) as error:
            raise _PassingError(
                _said(error), down=isinstance(error, ConnectionRefusedError | socket.gaierror)
            ) from None
        return self._reply(data, request)

    def _send(self, body: bytes) -> http.client.HTTPResponse:
        connection = self._connection()
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            connection.request("POST", self._path, body, headers)
            return connection.getresponse()
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            # A connection that was kept may have been closed at the other end meanwhile: that is no failure.
            if not getattr(self._local, "used", False):
                raise
            self._drop()
            connection = self._connection()
            connection.request("POST", self._path, body, headers)
            return connection.getresponse()

    def _connection(self) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            secure = self._url.scheme == "https"
            host, port = self._url.hostname or "", self._url.port
            patience = self._config.patience
            connection = (
                http.client.HTTPSConnection(host, port, timeout=patience, context=ssl.create_default_context())
                if secure
                else http.client.HTTPConnection(host, port, timeout=patience)
            )
            self._local.connection, self._local.used = connection, False
            with self._lock:
                self._connections.append(connection)
        return connection

    def _drop(self) -> None:
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None
            with self._lock:
                if connection in self._connections:
                    self._connections.remove(connection)

    def _failure(self, response: http.client.HTTPResponse) -> Exception:
        said = _short(response.read(1 << 16))
        self._drop()
        status, where = response.status, f"{self._config.url}: {response.status} {response.reason}"
        if _BLIND.search(said):
            does = "serve one that does (llama.cpp needs its --mmproj)"
            return MllmError(f"{where}: {said.rstrip('.')}. {self._config.model} sees no pictures here: {does}.")
        if status in _AGAIN:
            return _PassingError(f"{status} {response.reason}: {said}", _seconds(response.getheader("Retry-After")))
        if status in _USELESS:
            return MllmError(f"{where}: {said} Check mllm.url, mllm.model and ${self._config.key_variable}.")
        return RefusedError(f"{where}: {said}")

    def _whole(self, response: http.client.HTTPResponse) -> dict[str, Any]:
        raw = response.read(_LARGEST + 1)
        if len(raw) > _LARGEST:
            raise RefusedError(f"{self._config.url}: the answer is longer than {_LARGEST >> 20} MiB.")
        length = response.getheader("Content-Length")
        if length is not None and len(raw) < int(length):
            raise _PassingError("the answer was cut off")
        self._local.used = True
        try:
            data = json.loads(raw)
        except ValueError:
            raise _PassingError(f"the answer is no JSON: {_short(raw)}") from None
        if not isinstance(data, dict):
            raise _PassingError(f"the answer is no chat completion: {_short(raw)}")
        return data

    def _streamed(self, response: http.client.HTTPResponse) -> dict[str, Any]:
        """A streamed answer put together as if it had come at once."""
        text, finish, ended = "", None, False
        found: dict[str, Any] = {}
        logprobs: list[Any] = []
        for data in _events(response):
            if data == "[DONE]":
                ended = True
                break
            try:
                piece = json.loads(data)
            except ValueError:
                raise _PassingError(f"a piece of the answer is no JSON: {data[:100]}") from None
            if "error" in piece:
                raise _PassingError(f"the server gave up: {_short(json.dumps(piece['error']).encode())}")
            found |= {key: piece[key] for key in ("model", "system_fingerprint", "usage") if piece.get(key)}
            for choice in piece.get("choices") or ():
                text += (choice.get("delta") or {}).get("content") or ""
                finish = choice.get("finish_reason") or finish
                logprobs += (choice.get("logprobs") or {}).get("content") or []
        if not ended or finish is None:
            raise _PassingError("the answer was cut off")
        response.read()
        self._local.used = True
        choice = {"message": {"content": text}, "finish_reason": finish, "logprobs": {"content": logprobs}}
        return found | {"choices": [choice]}

    def _reply(self, data: dict[str, Any], request: Request) -> Reply:
        try:
            choice = data["choices"][0]
            text = choice["message"]["content"]
            usage = data.get("usage") or {}
            if not isinstance(text, str):
                refusal = choice["message"].get("refusal")
                raise RefusedError(f"{self._config.model} refused: {refusal or 'it said nothing'}")
            if choice.get("finish_reason") == "content_filter":
                raise RefusedError(f"{self._config.model}: the answer was filtered")
            return Reply(
                text=text,
                model=str(data.get("model") or self._config.model),
                revision=self._config.revision or str(data.get("system_fingerprint") or ""),
                input_tokens=int(usage.get("prompt_tokens") or 0),
                output_tokens=int(usage.get("completion_tokens") or 0),
                likelihoods=_likelihoods(choice, request.choices) if request.choices else {},
                cut=choice.get("finish_reason") == "length",
            )
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise _PassingError(f"the answer is no chat completion ({type(error).__name__}: {error})") from None


def _likelihoods(choice: dict[str, Any], choices: tuple[str, ...]) -> dict[str, float]:
    """Of each choice, by the likelihoods of the first token that begins one of them; empty where it is not told."""
    content = (choice.get("logprobs") or {}).get("content") or []
    for token in content:
        mass = dict.fromkeys(choices, 0.0)
        for top in token.get("top_logprobs") or ():
            said = str(top.get("token", "")).strip("▁Ġ \"'\n").lower()
            for name in choices:
                if said and name.lower() == said:
                    mass[name] += math.exp(float(top["logprob"]))
        if (total := sum(mass.values())) > 0:
            return {name: value / total for name, value in mass.items()}
    return {}


def _events(response: http.client.HTTPResponse) -> Iterator[str]:
    """The data of server-sent events."""
    size = 0
    while line := response.readline(1 << 20):
        size += len(line)
        if size > _LARGEST:
            raise RefusedError(f"the answer is longer than {_LARGEST >> 20} MiB.")
        name, _, value = line.decode("utf-8", "replace").rstrip("\r\n").partition(":")
        if name == "data":
            yield value.strip()


def _seconds(header: str | None) -> float | None:
    """`Retry-After` in seconds; a date is too seldom to be read."""
    try:
        return max(0.0, float(header)) if header is not None else None
    except ValueError:
        return None


def _short(raw: bytes) -> str:
    text = " ".join(raw.decode("utf-8", "replace").split())
    try:
        data = json.loads(raw)
        error = data.get("error", data)
        text = str(error.get("message", error) if isinstance(error, dict) else error)
    except (ValueError, AttributeError):
        pass
    return text[:300] + ("…" if len(text) > 300 else "")


def _said(error: Exception) -> str:
    if isinstance(error, TimeoutError | socket.timeout):
        return "no answer in time"
    if isinstance(error, http.client.IncompleteRead):
        return "the answer was cut off"
    return str(error) or type(error).__name__
