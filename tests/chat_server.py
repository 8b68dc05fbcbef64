"""A double of an OpenAI-compatible server: as strict as the real ones, and badly behaved when told to be."""

from __future__ import annotations

import base64
import io
import json
import re
import threading
import time
from collections import deque
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@cache
def _checker(stream):
    """Reads a request by OpenAI's own published types, which here refuse unknown and ill-typed fields."""
    import importlib
    import pkgutil

    from openai.types import chat, shared_params
    from openai.types.chat import completion_create_params as params
    from pydantic import ConfigDict, TypeAdapter
    from typing_extensions import is_typeddict

    for package in (chat, shared_params):
        for found in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{package.__name__}.{found.name}")
            for kind in vars(module).values():
                if is_typeddict(kind):
                    kind.__pydantic_config__ = ConfigDict(extra="forbid")
    kind = params.CompletionCreateParamsStreaming if stream else params.CompletionCreateParamsNonStreaming
    return TypeAdapter(kind)


class ChatServer:
    """Answers `POST /v1/chat/completions`.

    Attributes:
        answer: body of a request → text of the answer.
        faults: what to do instead, one a request: an HTTP status, alone or with a message; `cut` (the connection ends
            before the answer), `late cut` (in the middle of it), `garbage` (no JSON at all), `error event` (in a
            stream), `broken JSON` and `wrong schema` (a fine completion with such a text), `too long` (cut off at
            `max_tokens`), `refusal`, or seconds to wait first.
        log: the bodies of all requests that were understood; `refused`: why others were not.
    """

    def __init__(self, answer=lambda body: "a red ball", model="eyes-1", key=None):
        self.answer, self.model, self.key = answer, model, key
        self.faults, self.log, self.refused = deque(), [], []
        self.under_way, self.most = 0, 0
        self._lock = threading.Lock()
        _checker(False), _checker(True)  # takes seconds: not while somebody waits for an answer
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_Handler,), {"double": self}))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    def check(self, body):
        """What is wrong with a request, as a status and a message; `None`: nothing."""
        from pydantic import ValidationError

        try:
            read = _checker(bool(body.get("stream"))).validate_python(body)
            for message in read["messages"]:  # read only now: pydantic puts iterables off
                if not isinstance(message["content"], str):
                    for part in message["content"]:
                        self._picture(part)
        except (ValidationError, ValueError) as error:
            return 400, f"{error}"
        if body["model"] != self.model:
            return 404, f"The model `{body['model']}` does not exist."
        return self._sensible(body)

    def _sensible(self, body):
        wanted = body.get("response_format")
        if wanted:
            from jsonschema import Draft202012Validator

            Draft202012Validator.check_schema(wanted["json_schema"]["schema"])
            if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", wanted["json_schema"]["name"]):
                return 400, "response_format.json_schema.name: invalid"
        if body.get("top_logprobs") and not body.get("logprobs"):
            return 400, "top_logprobs needs logprobs"
        if "stream_options" in body and not body.get("stream"):
            return 400, "stream_options needs stream"
        return None

    def _picture(self, part):
        if part["type"] == "image_url":
            from PIL import Image

            head, _, data = part["image_url"]["url"].partition(",")
            if head != "data:image/jpeg;base64":
                raise ValueError(f"image_url: {head[:40]}")
            Image.open(io.BytesIO(base64.b64decode(data, validate=True))).load()

    def completion(self, body, fault):
        """A chat completion."""
        text = self.answer(body)
        if fault in ("broken JSON", "too long"):
            text = text[: len(text) // 2]
        elif fault == "wrong schema":
            text = json.dumps({"unexpected": True})
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        if fault == "too long":
            choice["finish_reason"] = "length"
        if fault == "refusal":
            choice["message"] |= {"content": None, "refusal": "I will not look at this."}
        if body.get("logprobs"):
            said = {"token": text, "logprob": -0.1, "bytes": None}
            other = {"token": "No" if text == "Yes" else "Yes", "logprob": -2.4, "bytes": None}
            choice["logprobs"] = {"content": [{**said, "top_logprobs": [said, other]}], "refusal": None}
        usage = {"prompt_tokens": 100, "completion_tokens": len(text.split())}
        usage["total_tokens"] = sum(usage.values())
        return {
            **{"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": self.model},
            **{"system_fingerprint": "fp_1", "choices": [choice], "usage": usage},
        }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        double = self.double
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        with double._lock:
            double.under_way += 1
            double.most = max(double.most, double.under_way)
            fault = double.faults.popleft() if double.faults else None
        try:
            self._answer(double, raw, fault)
        finally:
            with double._lock:
                double.under_way -= 1

    def _answer(self, double, raw, fault):
        if isinstance(fault, float):
            time.sleep(fault)
        if fault == "cut":
            self.close_connection = True
            return
        if isinstance(fault, int | tuple):
            status, said = fault if isinstance(fault, tuple) else (fault, "told to fail")
            return self._send(status, {"error": {"message": said}}, {"Retry-After": "0"})
        if fault == "garbage":
            return self._send(200, "<html>gateway</html>")
        if self.path != "/v1/chat/completions":
            return self._send(404, {"error": {"message": f"no route {self.path}"}})
        if double.key and self.headers.get("Authorization") != f"Bearer {double.key}":
            return self._send(401, {"error": {"message": "Incorrect API key provided."}})
        body = json.loads(raw)
        wrong = double.check(body)
        if wrong:
            double.refused.append(wrong)
            return self._send(wrong[0], {"error": {"message": wrong[1]}})
        double.log.append(body)
        done = double.completion(body, fault)
        if body.get("stream"):
            return self._stream(done, fault)
        if fault == "late cut":
            whole = json.dumps(done).encode()
            self._head(200, len(whole))
            self.wfile.write(whole[: len(whole) // 2])
            self.close_connection = True
            return
        return self._send(200, done)

    def _stream(self, done, fault):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        choice = done["choices"][0]
        text = choice["message"]["content"] or ""
        base = {key: done[key] for key in ("id", "created", "model", "system_fingerprint")}
        base["object"] = "chat.completion.chunk"
        pieces = [text[k : k + 7] for k in range(0, len(text), 7)]
        for number, piece in enumerate(pieces):
            if fault == "late cut" and number == len(pieces) // 2:
                self.close_connection = True
                return
            if fault == "error event" and number == 1:
                self._event({"error": {"message": "out of memory", "code": 500}})
                break
            delta = {"index": 0, "delta": {"content": piece}, "finish_reason": None}
            if number == 0 and "logprobs" in choice:
                delta["logprobs"] = choice["logprobs"]
            self._event({**base, "choices": [delta], "usage": None})
        else:
            self._event({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
            self._event({**base, "choices": [], "usage": done["usage"]})
            self._chunk(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, data):
        self._chunk(b": a comment\n\ndata: " + json.dumps(data).encode() + b"\n\n")

    def _chunk(self, data):
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def _head(self, status, length, headers=None):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(length))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()

    def _send(self, status, data, headers=None):
        content = data.encode() if isinstance(data, str) else json.dumps(data).encode()
        self._head(status, len(content), headers)
        self.wfile.write(content)
