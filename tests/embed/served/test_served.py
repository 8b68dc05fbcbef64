"""A served model is an embedder like any other, and its server may fail in every way."""

import dataclasses

import numpy as np
import pytest

import sketch
from endpoint import Endpoint
from reelspace import Item, load
from reelspace.embed.conformance import probe_items, violations
from reelspace.embed.served import client
from reelspace.embed.served.address import confidential, parse
from reelspace.errors import EncodeError, ModelError
from reelspace.item import Frames


class Whole(sketch.Sketch):
    """The sketch, of every mix."""

    modalities = frozenset({"text", "image", "video", "image+text", "video+text", "video+image", "video+image+text"})

    def _prepare(self, item):
        row = super()._prepare(item)
        if item.image is not None:
            row[: -sketch.WORDS - 1] *= 1.5  # else a clip and its negative as a picture would be nothing
            row[-2] += 0.1
        return row


@pytest.fixture
def endpoint(monkeypatch):
    monkeypatch.setattr(client, "WAITS", (0.01, 0.01, 0.01))
    for name in ("REELSPACE_ENDPOINT", "REELSPACE_ENDPOINT_KEY"):
        monkeypatch.delenv(name, raising=False)
    double = Endpoint(Whole())
    yield double
    double.close()


def embeddings(change):
    """A fault: every embedding of the answer is changed."""

    def fault(told):
        for one in told.get("data", []):
            one["embedding"] = change(one["embedding"])

    return fault


@pytest.mark.parametrize(("options", "without"), [("", ""), ("?form=input", ""), ("?video=images", "video+image")])
def test_it_keeps_the_contract(endpoint, options, without):
    served = load(endpoint.url(options))
    # Pictures are all alike to a model: it cannot tell a video's from the one beside it.
    kinds = {kind for kind in served.modalities if not without or without not in kind}
    assert violations(served, probe_items(frozenset(kinds))) == []


def test_the_vectors_are_the_servers_own(endpoint):
    items = probe_items(Whole.modalities)
    served, own = load(endpoint.url("?frames=centres(2)")), Whole()
    assert served.dim == own.dim
    cosines = (served.encode_query(items) * own.encode_query(items)).sum(axis=1)
    assert cosines.min() > 0.99  # noise as JPEG: frames travel as JPEG
    pictures = [item for item in items if item.video is None]
    assert abs(served.encode_query(pictures) - own.encode_query(pictures)).max() < 1e-6


def test_what_is_sent(endpoint):
    served = load(endpoint.url("?frames=uniform(3)&edge=32"))
    clip = Frames(np.full((9, 90, 120, 3), 200, np.uint8), np.arange(9) / 3, 0.0, 3.0)
    served.encode_query([Item(text="where?", video=clip)], "Find it.")
    path, _, body = endpoint.log[-1]
    assert path == "/v1/embeddings"
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert body["messages"][0]["content"] == [{"type": "text", "text": "Find it."}]
    assert [part["type"] for part in body["messages"][1]["content"]] == ["video_url", "text"]
    told = body["media_io_kwargs"]["video"]
    assert (told["total_num_frames"], told["frames_indices"], told["do_sample_frames"]) == (4, [0, 1, 2, 3], False)
    assert told["duration"] == pytest.approx(3.0)
    served.encode_candidate([Item(text="a dog")])
    assert [message["role"] for message in endpoint.log[-1][2]["messages"]] == ["user"]


def test_texts_share_requests(endpoint):
    served = load(endpoint.url("?form=input"))
    assert served.modalities == {"text"}
    served.encode_candidate([Item(text=f"text {number}") for number in range(100)])
    assert [len(body["input"]) for _, _, body in endpoint.log if len(body["input"]) > 1] == [64, 36]


@pytest.mark.parametrize(
    ("model", "system", "tail", "special"),
    [
        ("Qwen/Qwen3-VL-Embedding-2B", "Represent the user's input.", "", True),
        ("Alibaba-NLP/GVE-3B", "You are a helpful assistant.", "<|endoftext|>", False),
    ],
)
def test_known_models_get_the_chat_that_ends_in_their_pooled_token(endpoint, model, system, tail, special):
    endpoint.model = model
    load(endpoint.url()).encode_candidate([Item(text="a dog")])
    body = endpoint.log[-1][2]
    assert body["messages"][0] == {"role": "system", "content": [{"type": "text", "text": system}]}
    assert body["messages"][-1] == {"role": "assistant", "content": [{"type": "text", "text": tail}]}
    assert body["continue_final_message"] is True
    assert body.get("add_special_tokens", False) is special


@pytest.mark.parametrize("fault", [500, 503, 429, "cut", "half"])
def test_what_passes_is_tried_again(endpoint, fault):
    served = load(endpoint.url())
    expected = served.encode_query([Item(text="red")])
    endpoint.faults.extend([fault, fault])
    assert (served.encode_query([Item(text="red")]) == expected).all()


@pytest.mark.parametrize("fault", [503, "cut", "half"])
def test_a_server_that_is_down_is_no_fault_of_an_item(endpoint, fault):
    served = load(endpoint.url())
    served.encode_query([Item(text="red")])
    endpoint.always = lambda body: fault
    with pytest.raises(ModelError, match="attempts"):
        served.encode_query([Item(text="red"), Item(text="blue")])


def test_what_the_server_cannot_do_is_named_and_costs_nothing_else(endpoint):
    served = load(endpoint.url())
    items = [Item(text=text) for text in ("red", "crash", "blue", "too long", "green")]
    expected = Whole().encode_query([items[0], items[2], items[4]])
    faults = {"crash": 500, "too long": 400}
    endpoint.always = lambda body: faults.get(body["messages"][-1]["content"][0].get("text"))
    with pytest.raises(EncodeError) as raised:
        served.encode_query(items)
    error = raised.value
    assert list(error.failures) == [1, 3] and error.positions == [0, 2, 4]
    assert "told to fail" in error.failures[1] and "HTTP 400" in error.failures[3]
    assert abs(error.vectors - expected).max() < 1e-6


def test_one_bad_text_of_a_shared_request_costs_only_itself(endpoint):
    served = load(endpoint.url("?form=input"))
    endpoint.always = lambda body: 400 if "bad" in body["input"] else None
    with pytest.raises(EncodeError) as raised:
        served.encode_query([Item(text=text) for text in ("red", "bad", "blue")])
    assert list(raised.value.failures) == [1]


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (embeddings(lambda row: row[:-1]), "another model answers"),
        (lambda told: told["data"].clear(), "0 vectors for 1 items"),
        (lambda told: told["data"][0].update(index=5), "OpenAI-style"),
        (lambda told: told["data"][0].update(embedding="AAAA"), "OpenAI-style"),
        ("no json", "no JSON"),
        ("redirect", "HTTP 302"),
        (401, "REELSPACE_ENDPOINT_KEY"),
        (404, "the model's name"),
    ],
)
def test_a_server_that_is_no_such_endpoint_is_an_error(endpoint, fault, why):
    served = load(endpoint.url())
    served.encode_query([Item(text="red")])
    endpoint.faults.append(fault)
    with pytest.raises(ModelError, match=why):
        served.encode_query([Item(text="blue")])
    assert endpoint.led_away == []


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 0.0])
def test_a_degenerate_vector_is_a_failure(endpoint, number):
    served = load(endpoint.url())
    assert served.dim
    endpoint.always = lambda body: embeddings(lambda row: [number] * len(row))
    with pytest.raises(EncodeError, match="not finite, or nothing but zeros"):
        served.encode_query([Item(text="red")])


@pytest.mark.parametrize("fault", ["drip", 5.0])
def test_a_slow_server_ends_with_the_time_it_is_given(endpoint, fault, monkeypatch):
    monkeypatch.setattr(client, "WAITS", ())
    served = load(endpoint.url("?timeout=0.3"))
    endpoint.always = lambda body: fault
    with pytest.raises(ModelError, match="1 attempts"):
        served.encode_query([Item(text="red")])


def test_an_answer_without_end_is_stopped(endpoint, monkeypatch):
    monkeypatch.setattr(client, "LARGEST", 100)
    with pytest.raises(ModelError, match="was stopped"):
        load(endpoint.url()).encode_query([Item(text="red")])


def test_the_key_comes_from_the_environment_and_goes_nowhere_else(endpoint, monkeypatch):
    endpoint.key = "secret"
    with pytest.raises(ModelError, match="Unauthorized"):
        load(endpoint.url()).encode_query([Item(text="red")])
    monkeypatch.setenv("REELSPACE_ENDPOINT_KEY", "secret")
    load(endpoint.url()).encode_query([Item(text="red")])
    with pytest.raises(ModelError, match="in the clear"):
        load("http://models.example.com/v1#m").encode_query([Item(text="red")])
    with pytest.raises(ModelError, match="not in its URL") as raised:
        load("https://me:secret@models.example.com/v1#m")
    assert "secret" not in str(raised.value).replace("REELSPACE_ENDPOINT_KEY", "")


@pytest.mark.parametrize(
    ("base", "may"),
    [
        ("https://a.example.com/v1", True),
        ("http://a.example.com/v1", False),
        ("http://8.8.8.8/v1", False),
        ("http://localhost:8000/v1", True),
        ("http://127.0.0.1:8000/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://[2001:4860:4860::8888]/v1", False),
        ("http://192.168.1.7/v1", True),
        ("http://gpu-box:8000/v1", True),
        ("http://gpu.local/v1", True),
    ],
)
def test_where_a_key_may_travel_unencrypted(base, may):
    assert confidential(base) is may


def test_an_address_names_the_model_and_not_the_host(endpoint, monkeypatch):
    here, there = parse(endpoint.url()), parse("https://models.example.com/v1/#sketch")
    assert here.name == there.name == "served:sketch"
    assert load(endpoint.url()).fingerprint == load("https://models.example.com/v1#sketch").fingerprint
    unusual = parse(endpoint.url("?frames=uniform(8)&edge=224&query=Find+it.&timeout=5&dimensions=16&tail=generation"))
    assert unusual.name == "served:sketch?frames=uniform(8)&edge=224&dimensions=16&query=Find+it.&tail=generation"
    with pytest.raises(ModelError, match="REELSPACE_ENDPOINT"):
        load(unusual.name)
    monkeypatch.setenv("REELSPACE_ENDPOINT", endpoint.base)
    again = parse(unusual.name)
    assert again == dataclasses.replace(unusual, timeout=again.timeout)
    assert load(unusual.name).fingerprint == load(endpoint.url("?" + unusual.name.partition("?")[2])).fingerprint


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("http://127.0.0.1:1/v1", "which model"),
        ("http:///v1#m", "no endpoint"),
        ("http://h/v1?form=soap#m", "no option"),
        ("http://h/v1?frames=all#m", "no frame policy"),
        ("http://h/v1?edge=0#m", "no option"),
        ("http://h/v1?timeout=soon#m", "timeout|float"),
    ],
)
def test_an_address_that_makes_no_sense(name, why):
    with pytest.raises(ModelError, match=why):
        load(name)


@pytest.mark.parametrize(
    "option", ["frames=uniform(4)", "edge=64", "dimensions=8", "query=q", "revision=2", "video=images"]
)
def test_what_decides_the_vectors_decides_the_fingerprint(option):
    base = "https://h/v1"
    assert load(f"{base}?{option}#m").fingerprint != load(f"{base}#m").fingerprint
    assert load(f"{base}?timeout=3#m").fingerprint == load(f"{base}#m").fingerprint


def test_nothing_is_asked_before_it_is_needed(endpoint):
    served = load(endpoint.url())
    assert served.name == "served:sketch" and served.fingerprint and served.modalities and served.sampling
    assert endpoint.log == []


def test_fewer_numbers_can_be_asked_for(endpoint):
    served = load(endpoint.url("?dimensions=16"))
    assert served.encode_query([Item(text="red")]).shape == (1, 16)
