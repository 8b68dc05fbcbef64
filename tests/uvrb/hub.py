"""A hub of one dataset repository: as much of its API as its own client asks for, and with some failures on demand."""

import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Hub:
    """Serves `files` (name → bytes). Attributes tell what was asked, and what is to go wrong."""

    commit = "0123456789abcdef0123456789abcdef01234567"

    def __init__(self, repository, files):
        self.repository, self.files = repository, files
        self.asked = []  # (method, path, range)
        self.refuse = 0  # so many requests more are answered by 503
        self.cut = {}  # name → bytes after which its next transfer breaks off
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def transfers(self):
        return [
            (path.rsplit("/", 1)[-1], span)
            for method, path, span in self.asked
            if method == "GET" and "/resolve/" in path
        ]

    def listing(self):
        rows = []
        for name, content in self.files.items():
            row = {"rfilename": name, "size": len(content)}
            if name.endswith(".jsonl"):
                row["blobId"] = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
            else:
                sha256 = hashlib.sha256(content).hexdigest()
                row |= {"blobId": "0" * 40, "lfs": {"sha256": sha256, "size": len(content), "pointerSize": 130}}
            rows.append(row)
        return {
            "id": self.repository,
            "sha": self.commit,
            "siblings": rows,
            "private": False,
            "tags": [],
            "downloads": 0,
        }

    def _handler(hub):  # noqa: C901, N805
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_HEAD(self):
                self.answer(body=False)

            def do_GET(self):
                self.answer(body=True)

            def answer(self, body):
                span = self.headers.get("Range")
                hub.asked.append((self.command, self.path, span))
                if hub.refuse > 0:
                    hub.refuse -= 1
                    return self.send(503, b"busy", {}, body)
                path = self.path.partition("?")[0]
                if re.fullmatch(f"/api/datasets/{hub.repository}(/revision/[^/]+)?", path):
                    content = json.dumps(hub.listing()).encode()
                    return self.send(200, content, {"Content-Type": "application/json"}, body)
                match = re.fullmatch(f"/datasets/{hub.repository}/resolve/[^/]+/(.+)", path)
                if match is None or match[1] not in hub.files:
                    return self.send(404, b"", {"X-Error-Code": "EntryNotFound"}, body)
                content = hub.files[match[1]]
                tag = hashlib.sha256(content).hexdigest()
                headers = {"ETag": f'"{tag}"', "X-Repo-Commit": hub.commit, "Accept-Ranges": "bytes"}
                if span is None or not body:
                    return self.send(200, content, headers, body, hub.cut.pop(match[1], None) if body else None)
                start = int(re.match(r"bytes=(\d+)-", span)[1])
                headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
                return self.send(206, content[start:], headers, body)

            def send(self, status, content, headers, body, cut=None):
                self.send_response(status)
                for key, value in {**headers, "Content-Length": str(len(content))}.items():
                    self.send_header(key, value)
                self.end_headers()
                if body:
                    self.wfile.write(content if cut is None else content[:cut])
                if cut is not None:
                    self.wfile.flush()
                    self.close_connection = True
                    self.connection.close()

        return Handler
