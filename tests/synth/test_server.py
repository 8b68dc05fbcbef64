import json
import threading
import time

import numpy as np
import pytest

from chat_server import ChatServer
from reelspace.synth.answers import FrameCaption
from reelspace.synth.config import Enrich, ServerMllm
from reelspace.synth.mllm import MllmError, RefusedError, Show
from reelspace.synth.mllm.server import Server
from reelspace.synth.prompts import captions, frame, verify
from reelspace.synth.schema import Clip, Picture

SLOTS = {"profile": "temporal", "readability": "plain", "education": "university"}
PIXELS = np.random.default_rng(0).integers(0, 255, (3, 48, 64, 3), np.uint8)
VIDEO = Show("VIDEO", PIXELS, np.array([0.0, 0.5, 1.0]), Clip(path="a.mp4"))
PICTURE = Show("PICTURE", PIXELS[1:2], np.array([0.5]), Picture(path="a.mp4", time=0.5))


@pytest.fixture(scope="module")
def server():
    with ChatServer() as server:
        yield server


@pytest.fixture
def double(server):
    """The server, with nothing remembered."""
    server.answer, server.key, server.most = (lambda body: "a red ball"), None, 0
    for memory in (server.faults, server.log, server.refused):
        memory.clear()
    yield server
    while OPENED:
        OPENED.pop().close()


OPENED = []


def client(double, **options):
    config = {
        "kind": "server",
        "url": double.url,
        "model": "eyes-1",
        "retries": 3,
        "longest_wait": 0.02,
        "patience": 5.0,
    }
    OPENED.append(Server(ServerMllm(**(config | options))))
    return OPENED[-1]


REQUESTS = [
    captions(VIDEO, "raw", SLOTS, Enrich(), 7),
    frame(PICTURE, VIDEO, SLOTS, 8),
    verify([VIDEO], "a red ball rolls"),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: request.task)
def test_a_strict_server_takes_every_kind_of_request(double, request_, stream):
    double.answer = lambda body: "Yes" if "logprobs" in body else json.dumps({"caption": "a red ball"})
    reply = client(double, stream=stream).ask(request_)
    assert double.refused == []
    assert reply.model == "eyes-1" and reply.revision == "fp_1" and reply.input_tokens == 100
    (body,) = double.log
    assert body["seed"] == request_.seed
    parts = body["messages"][1]["content"]
    assert sum(part["type"] == "image_url" for part in parts) == sum(len(show.frames) for show in request_.shows)
    assert [p["text"] for p in parts if p["type"] == "text"][-1] == request_.prompt
    if request_.choices:
        assert reply.likelihoods["Yes"] == pytest.approx(np.exp(-0.1) / (np.exp(-0.1) + np.exp(-2.4)))
    else:
        assert body["response_format"]["json_schema"]["schema"] == request_.schema.model_json_schema()
        assert reply.text == json.dumps({"caption": "a red ball"})


def test_the_double_is_strict(double):
    good = {"model": "eyes-1", "messages": [{"role": "user", "content": "hello"}]}
    assert double.check(good) is None
    for wrong in (
        good | {"temprature": 1},
        good | {"temperature": "hot"},
        good | {"messages": [{"role": "user", "content": [{"type": "image", "url": "x"}]}]},
        good | {"messages": [{"role": "nobody", "content": "x"}]},
        good | {"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}},
    ):
        assert double.check(wrong)[0] == 400
    assert double.check(good | {"model": "other"})[0] == 404


PASSING = [500, 502, 429, "cut", "late cut", "garbage"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fault", PASSING)
def test_what_may_pass_is_tried_again(double, fault, stream):
    double.faults.extend([fault, fault])
    assert client(double, stream=stream).ask(REQUESTS[2]).text == "a red ball"


def test_a_stream_that_ends_in_an_error_is_tried_again(double):
    double.answer = lambda body: "a long answer in several pieces"
    double.faults.append("error event")
    assert client(double, stream=True).ask(REQUESTS[0]).text == "a long answer in several pieces"
    assert len(double.log) == 2


def test_a_server_that_is_too_slow_is_asked_again(double):
    double.faults.append(1.0)
    assert client(double, patience=0.2).ask(REQUESTS[2]).text == "a red ball"


def test_in_the_end_only_this_request_has_failed(double):
    double.faults.extend([500] * 4)
    asked = client(double)
    with pytest.raises(RefusedError, match=r"500.*asked 4 times"):
        asked.ask(REQUESTS[2])
    assert asked.ask(REQUESTS[2]).text == "a red ball"


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_bad_request_is_not_repeated(double, status):
    double.faults.append(status)
    with pytest.raises(RefusedError, match=f"{status}.*told to fail"):
        client(double).ask(REQUESTS[0])
    assert double.log == []


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_was_cut_off_says_so(double, stream):
    double.faults.append("too long")
    asked = client(double, stream=stream)
    assert asked.ask(REQUESTS[2]).cut and not asked.ask(REQUESTS[2]).cut


def test_a_refusal_is_said(double):
    double.faults.append("refusal")
    with pytest.raises(RefusedError, match="will not look"):
        client(double).ask(REQUESTS[0])


def test_a_wrong_name_or_key_ends_everything(double, monkeypatch):
    with pytest.raises(MllmError, match=r"does not exist.*mllm\.model"):
        client(double, model="other").ask(REQUESTS[0])
    double.key = "secret"
    with pytest.raises(MllmError, match=r"API key.*\$MY_KEY"):
        client(double, key_variable="MY_KEY").ask(REQUESTS[0])
    monkeypatch.setenv("MY_KEY", "secret")
    assert client(double, key_variable="MY_KEY").ask(REQUESTS[0])


@pytest.mark.parametrize(
    "said",
    [
        (500, "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"),
        (400, "eyes-1 is not a multimodal model"),
        (400, "At most 0 image(s) may be provided in one prompt."),
    ],
)
def test_a_model_that_sees_nothing_ends_everything(double, said):
    double.faults.append(said)
    with pytest.raises(MllmError, match=r"sees no pictures"):
        client(double).ask(REQUESTS[0])
    assert not double.faults and not double.log


def test_no_server_ends_everything(double):
    with pytest.raises(MllmError, match="asked 4 times"):
        client(double, url="http://127.0.0.1:9/v1").ask(REQUESTS[0])
    with pytest.raises(MllmError, match="no address"):
        client(double, url="file:///etc/passwd")


def test_retry_after_is_heeded_up_to_a_limit(double):
    double.faults.append(429)  # with Retry-After: 0
    begun = time.monotonic()
    client(double, longest_wait=30.0).ask(REQUESTS[2])
    assert time.monotonic() - begun < 5


def test_many_at_once_keep_their_connections(double):
    double.answer = lambda body: time.sleep(0.1) or "a red ball"
    asked = client(double)
    threads = [threading.Thread(target=asked.ask, args=(REQUESTS[2],)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert double.most > 1 and len(double.log) == 6


def test_a_kept_connection_that_was_closed_is_no_failure(double):
    asked = client(double, retries=0)
    asked.ask(REQUESTS[2])
    double.faults.append("cut")
    assert asked.ask(REQUESTS[2]).text == "a red ball"


def test_the_schema_that_is_asked_for_is_the_one_that_is_checked():
    schema = FrameCaption.model_json_schema()
    assert schema["additionalProperties"] is False and schema["required"] == ["caption"]
