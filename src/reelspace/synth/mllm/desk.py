"""Where models are asked: nothing is asked twice, nothing is believed unread, everything is paid for.

Answers are written into a journal as they come, so a run that was killed asks only what it had not asked; what has been
used is added up in a ledger that all processes of a run share, and the budget is held against it.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from reelspace.synth.blocks import BudgetError
from reelspace.synth.config import Budget, Prices
from reelspace.synth.mllm import Client, RefusedError, Reply, Request
from reelspace.synth.shards import digest

Answer = TypeVar("Answer", bound=BaseModel)


@dataclass(frozen=True)
class Spent:
    """What has been used."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0


class Ledger:
    """Adds up what a run uses, over all its processes and all its starts: a record an answer, in one file."""

    _RECORD = struct.Struct("<qqd")

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a+b", buffering=0)
        self._read, self._lock = 0, threading.Lock()
        self._spent = Spent()

    def add(self, reply: Reply, prices: Prices) -> None:
        """Writes down what an answer took. The system adds whole records, whoever else writes."""
        cost = (reply.input_tokens * prices.input + reply.output_tokens * prices.output) / 1e6
        with self._lock:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                end = self._file.seek(0, os.SEEK_END)
                self._file.truncate(end - end % self._RECORD.size)  # the rest of one that was cut off
                self._file.write(self._RECORD.pack(reply.input_tokens, reply.output_tokens, cost))
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def spent(self) -> Spent:
        """What all have used so far."""
        with self._lock:
            self._file.seek(self._read)
            new = self._file.read()
            whole = len(new) // self._RECORD.size * self._RECORD.size
            for taken, given, cost in self._RECORD.iter_unpack(new[:whole]):
                s = self._spent
                self._spent = Spent(s.requests + 1, s.input_tokens + taken, s.output_tokens + given, s.cost + cost)
            self._read += whole
            return self._spent

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class Journal:
    """Answers by request, in a file that only grows. A last line that was cut off counts for nothing."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a+b")
        self._file.seek(0)
        whole = 0
        self._known: dict[str, Reply] = {}
        for line in self._file:
            if not line.endswith(b"\n"):
                break
            whole += len(line)
            data = json.loads(line)
            key = data.pop("key")
            self._known[key] = Reply(**data)
        self._file.truncate(whole)
        self._lock = threading.Lock()

    def get(self, key: str) -> Reply | None:
        """The answer, if it is known."""
        return self._known.get(key)

    def put(self, key: str, reply: Reply) -> None:
        """Keeps it; once this returns, a process that is killed does not lose it."""
        line = json.dumps({"key": key, **asdict(reply)}, ensure_ascii=False) + "\n"
        with self._lock:
            self._known[key] = reply
            self._file.write(line.encode("utf-8", "surrogatepass"))
            self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


@dataclass(frozen=True)
class Fault:
    """An answer that was not taken, and why."""

    text: str
    reason: str
    detail: str


class UnansweredError(RefusedError):
    """No answer was good enough.

    Attributes:
        faults: what came instead, attempt by attempt.
    """

    def __init__(self, faults: list[Fault]) -> None:
        self.faults = faults
        last = faults[-1]
        super().__init__(f"none of {len(faults)} answers could be taken; the last: {last.reason}: {last.detail}")


class Desk:
    """Asks one model."""

    def __init__(
        self, client: Client, journal: Journal, ledger: Ledger, budget: Budget, prices: Prices, attempts: int
    ) -> None:
        self.client = client
        self._journal, self._ledger, self._budget, self._prices = journal, ledger, budget, prices
        self._attempts = attempts

    @property
    def together(self) -> int:
        """How many may ask at once."""
        return self.client.together

    def reply(self, request: Request) -> Reply:
        """The answer to a request: the one that is known, or a new one.

        Raises:
            RefusedError: it is not answered.
            MllmError: nothing is.
            BudgetError: the run has used up what it may use.
        """
        key = key_of(request, self.client.fingerprint)
        known = self._journal.get(key)
        if known is not None:
            return known
        self._afford()
        reply = self.client.ask(request)
        self._ledger.add(reply, self._prices)
        self._journal.put(key, reply)
        return reply

    def answer(
        self, request: Request, schema: type[Answer], good: Callable[[Answer], tuple[str, str] | None] = lambda _: None
    ) -> tuple[Answer, Reply, Request, list[Fault]]:
        """An answer that keeps to the schema and is good: asked for again, with another seed each time, until it is.

        Args:
            request: what is asked.
            schema: what the answer must be.
            good: why an answer is not taken all the same: a reason and a detail; `None` where it is.

        Returns:
            The answer, as it was given, the request that it was given to, and what was not taken before.

        Raises:
            UnansweredError: none of the answers was good.
            RefusedError, MllmError, BudgetError: as `reply`.
        """
        faults: list[Fault] = []
        for attempt in range(self._attempts):
            asked = replace(request, seed=(request.seed + 7919 * attempt) % 2**31)
            reply = self.reply(asked)
            try:
                found = schema.model_validate_json(extracted(reply.text))
            except ValidationError as error:
                first = error.errors(include_url=False)[0]
                broken = first["type"] == "json_invalid"
                at = ".".join(map(str, first["loc"]))
                why = f"{at}: {first['msg']}" if at else first["msg"]
                if broken and reply.cut:
                    faults.append(Fault(reply.text, "cut off", "it is longer than mllm.max_tokens"))
                else:
                    faults.append(Fault(reply.text, "broken JSON" if broken else "schema", why))
                continue
            if (fault := good(found)) is not None:
                faults.append(Fault(reply.text, *fault))
                continue
            return found, reply, asked, faults
        raise UnansweredError(faults)

    def likely(self, request: Request) -> tuple[float, Reply]:
        """How likely the first of the request's choices is: by its likelihood, or 1 or 0 by what was said.

        Raises:
            UnansweredError: the answer is none of the choices.
            RefusedError, MllmError, BudgetError: as `reply`.
        """
        reply = self.reply(request)
        first = request.choices[0]
        if reply.likelihoods:
            return float(reply.likelihoods.get(first, 0.0)), reply
        said = re.match(r"\W*(\w+)", reply.text)
        chosen = next((c for c in request.choices if said and said[1].lower() == c.lower()), None)
        if chosen is None:
            raise UnansweredError([Fault(reply.text, "choice", f"none of {', '.join(request.choices)}")])
        return float(chosen == first), reply

    def _afford(self) -> None:
        spent, budget = self._ledger.spent(), self._budget
        used = {"requests": spent.requests, "tokens": spent.input_tokens + spent.output_tokens, "cost": spent.cost}
        for what, amount in used.items():
            most = getattr(budget, what)
            if most is not None and amount >= most:
                raise BudgetError(
                    f"The budget of {most:g} {what} is used up ({amount:g}). What is done is kept; raise budget.{what} "
                    "and run again to go on."
                )

    def close(self) -> None:
        """Closes the client, the journal and the ledger."""
        self.client.close()
        self._journal.close()
        self._ledger.close()


def key_of(request: Request, fingerprint: str) -> str:
    """Equal exactly where the same is asked of the same model."""
    import hashlib

    shown = hashlib.sha256()
    for show in request.shows:
        shown.update(f"{show.name} {show.frames.shape}".encode())
        shown.update(show.frames.tobytes())
    schema = request.schema.model_json_schema() if request.schema else None
    words = (request.task, request.version, request.system, request.prompt, dict(request.slots), request.choices)
    return digest(fingerprint, *words, schema, request.seed, shown.hexdigest())


def extracted(text: str) -> str:
    """The JSON in an answer: models put it into a fence, or talk before and after it."""
    for candidate in _candidates(text):
        if candidate.lstrip().startswith(("{", "[")):
            return candidate
    return text


def _candidates(text: str) -> Iterator[str]:
    text = re.sub(r"^\s*<think>.*?</think>", "", text, flags=re.DOTALL)
    yield text.strip()
    yield from (match.strip() for match in re.findall(r"```(?:json)?\s*\n(.*?)```", text, re.DOTALL))
    first, last = text.find("{"), text.rfind("}")
    if 0 <= first < last:
        yield text[first : last + 1]


def settled(data: dict[str, Any]) -> str:
    """Data as an answer in JSON."""
    return json.dumps(data, ensure_ascii=False)
