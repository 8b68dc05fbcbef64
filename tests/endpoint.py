"""A strict double of an OpenAI-style embedding endpoint: vLLM's request fields, a real embedder behind it.

It refuses what vLLM's own request models would refuse or not understand, decodes the data URLs it is sent, and
misbehaves on demand. It never opens an address it is given.
"""

from __future__ import annotations

import base64
import io
import json
import threading
import time
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
from PIL import Image

from reelspace.item import Frames, Item

CHAT = {
    *("model", "messages", "encoding_format", "dimensions", "add_generation_prompt", "continue_final_message"),
    *("add_special_tokens", "media_io_kwargs"),
}
TEXTS = {"model", "input", "encoding_format", "dimensions"}
VIDEO = {"fps": float, "frames_indices": list, "total_num_frames": int, "duration": float, "do_sample_frames": bool}


class RefusedError(Exception):
    """HTTP 400, with what is wrong."""


class Endpoint:
    """Serves `embedder` under `model`.

    Attributes:
        faults: what to do instead of answering, one a request: an HTTP status, seconds to wait first (float), `cut`,
            `half` (the answer breaks off), `drip` (a byte at a time), `redirect`, `no json`, or a function that changes
            the answer.
        always: function (body) → fault, for every request.
        log: (path, headers, body) of every request.
    """

    def __init__(self, embedder, model="sketch", key=None):
        self.embedder, self.model, self.key = embedder, model, key
        self.faults, self.log, self.always = deque(), [], lambda body: None
        self.led_away = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_Handler,), {"double": self}))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def base(self):
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def url(self, options=""):
        return f"{self.base}{options}#{self.model}"

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def answer(self, body):
        if body.get("model") != self.model:
            return 404, {"error": {"message": f"The model `{body.get('model')}` does not exist.", "code": 404}}
        try:
            items = self._items(body)
        except RefusedError as error:
            return 400, {"error": {"message": str(error), "type": "BadRequestError", "code": 400}}
        # A chat's system text decides the vector as an instruction would; this model follows none.
        vectors = self.embedder.encode_query(items)[:, : body.get("dimensions")]
        data = [
            {"index": index, "object": "embedding", "embedding": (3 * row).tolist()}
            for index, row in enumerate(vectors)
        ]
        return 200, {"object": "list", "model": self.model, "data": data[::-1], "usage": {"prompt_tokens": 1}}

    def _items(self, body):
        chat = "messages" in body
        unknown = set(body) - (CHAT if chat else TEXTS)
        _require(not unknown, f"unknown fields {sorted(unknown)}")
        _require(body.get("encoding_format") == "float", "encoding_format")
        if not chat:
            texts = body["input"]
            _require(isinstance(texts, list) and all(isinstance(text, str) and text for text in texts), "input")
            return [Item(text=text) for text in texts]
        _require(not (body.get("continue_final_message") and body.get("add_generation_prompt")), "both ends")
        roles = [message["role"] for message in body["messages"]]
        begun = bool(body.get("continue_final_message"))
        _require(roles in (["system"] * k + ["user"] + ["assistant"] * begun for k in (0, 1)), f"roles {roles}")
        user = body["messages"][roles.index("user")]
        parts = {}
        pictures = []
        for part in user["content"]:
            kind = part["type"]
            _require(set(part) == {"type", kind}, f"a part {sorted(part)}")
            if kind == "text":
                parts["text"] = part["text"]
            elif kind == "image_url":
                pictures.append(_decoded(part["image_url"]["url"], "image/png"))
            elif kind == "video_url":
                told = body["media_io_kwargs"]["video"]
                _require(all(isinstance(told[name], of) for name, of in VIDEO.items()), f"video metadata {told}")
                parts["video"] = _video(part["video_url"]["url"], told)
            else:
                raise RefusedError(f"Unknown part type: {kind}")
        if len(pictures) > 1:  # a video as pictures
            parts["video"] = Frames(np.stack(pictures), np.arange(len(pictures)) / 2)
        elif pictures:
            parts["image"] = pictures[0]
        return [Item(**parts)]


def _require(true, what):
    if not true:
        raise RefusedError(f"1 validation error: {what}")


def _decoded(url, media):
    head, _, data = url.partition(",")
    _require(head == f"data:{media};base64", f"The URL must be a data URL of {media}, not {url[:40]}")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data, validate=True))).convert("RGB"))


def _video(url, told):
    head, *frames = url.split(",")
    _require(head == "data:video/jpeg;base64", f"no video of frames: {head[:40]}")
    _require(len(frames) == told["total_num_frames"] == len(told["frames_indices"]), "number of frames")
    pictures = [Image.open(io.BytesIO(base64.b64decode(frame, validate=True))) for frame in frames]
    _require(all(picture.format == "JPEG" for picture in pictures), "frames that are no JPEG")
    times = np.asarray(told["frames_indices"]) / told["fps"]
    return Frames(np.stack([np.asarray(picture.convert("RGB")) for picture in pictures]), times, 0.0, told["duration"])


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.double.led_away.append((self.path, dict(self.headers)))
        self._send(200, b"{}")

    def do_POST(self):
        double = self.double
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(raw)
        double.log.append((self.path, dict(self.headers), body))
        fault = double.faults.popleft() if double.faults else double.always(body)
        if isinstance(fault, float):
            time.sleep(fault)
        if fault == "cut":
            self.close_connection = True
            return self.connection.close()
        if fault == "redirect":
            return self._send(302, b"", {"Location": f"{double.base}/elsewhere"})
        if fault == "no json":
            return self._send(200, b"<html>Welcome</html>")
        if isinstance(fault, int):
            content = json.dumps({"error": {"message": "told to\nfail", "code": fault}}).encode()
            return self._send(fault, content, {"Retry-After": "0"} if fault == 429 else {})
        if double.key is not None and self.headers.get("Authorization") != f"Bearer {double.key}":
            return self._send(401, b'{"error": "Unauthorized"}')
        if self.path != "/v1/embeddings":
            return self._send(404, b'{"detail": "Not Found"}')
        status, told = double.answer(body)
        if callable(fault):
            fault(told)
        return self._send(status, json.dumps(told).encode(), fault=fault)

    def _send(self, status, content, headers=None, fault=None):
        self.send_response(status)
        for name, value in {
            **(headers or {}),
            "Content-Type": "application/json",
            "Content-Length": len(content),
        }.items():
            self.send_header(name, str(value))
        self.end_headers()
        if fault == "half":
            self.wfile.write(content[: len(content) // 2])
            self.close_connection = True
            return
        if fault == "drip":
            for byte in content:
                try:
                    self.wfile.write(bytes([byte]))
                    self.wfile.flush()
                except OSError:
                    return
                time.sleep(0.05)
            return
        self.wfile.write(content)
