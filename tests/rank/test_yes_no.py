"""The Yes/No judge against plain transformers, written out here; with and without sharing what prompts begin with."""

import json

import numpy as np
import pytest
import torch

import tinies
from reelspace.errors import EncodeError, ModelError
from reelspace.item import Frames, Item
from reelspace.rank import scorers, yes_no
from reelspace.rank.base import PairScorer
from reelspace.rank.conformance import violations

RANDOM = np.random.default_rng(0)


def clip(count, height, width):
    return Frames(RANDOM.integers(0, 256, (count, height, width, 3), dtype=np.uint8), np.arange(count) / 4)


CLIPS = [Item(video=clip(*shape)) for shape in ((5, 60, 100), (4, 90, 60), (2, 60, 60), (8, 60, 100), (1, 120, 60))]
PICTURE = RANDOM.integers(0, 256, (70, 120, 3), dtype=np.uint8)
LONG = "the cat sleeps and a dog runs. " * 12


@pytest.fixture(scope="module", params=tinies.KINDS)
def folder(request, tmp_path_factory):
    """A random model of each architecture. Its tokenizer has tokens for Yes, yes and no, but none for No."""
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    folder = tinies.write(tmp_path_factory.mktemp(request.param), request.param)
    tokenizer = tinies.tokenizer()
    tokenizer.add_tokens(["Yes"])
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def judge(folder):
    return yes_no.load(str(folder))


def plainly(folder, judge, query, candidate):
    """P(yes) of one pair by the whole model's own logits, softmaxed over all words and then summed."""
    from transformers import AutoModelForImageTextToText, AutoTokenizer

    module = judge._judge.module
    features = module.collate([module.preparer(yes_no.together(query, candidate), "candidate")])
    tokenizer = AutoTokenizer.from_pretrained(folder)
    words = tokenizer.decode(features["input_ids"][0])
    assert words.endswith("Yes or No.<|im_end|>\n<|im_start|>assistant\n")
    if query.text:
        assert f"Sentence: {query.text}\n<|vision_start|>" in words or "<0." in words
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32)
    with torch.inference_mode():
        shares = model(**module._complete(features)).logits[0, -1].softmax(dim=-1)
    share = {
        word: shares[tokenizer.encode(word)].item()
        for word in ("Yes", "yes", "No", "no")
        if len(tokenizer.encode(word)) == 1
    }
    yes = sum(share.get(word, 0.0) for word in ("Yes", "yes"))
    return yes / sum(share.values())


def test_it_is_the_models_own_probability(folder, judge):
    assert isinstance(judge, PairScorer)
    for query in (Item("a dog runs"), Item("a dog runs", image=PICTURE), Item(image=PICTURE)):
        found = judge.score(query, CLIPS)
        expected = [plainly(folder, judge, query, candidate) for candidate in CLIPS]
        np.testing.assert_allclose(found, expected, atol=2e-6)
        assert found.std() > 1e-3


def test_what_prompts_share_is_read_once_and_changes_nothing(folder, judge, monkeypatch):
    alone = yes_no.load(str(folder))
    alone.share = False
    read = []
    module = judge._judge.module
    decoder = module.decoder
    hook = decoder.register_forward_pre_hook(
        lambda _, args, kwargs: read.append(kwargs["inputs_embeds"].shape[:2]), with_kwargs=True
    )
    try:
        found = judge.log_odds(Item(LONG), CLIPS)
    finally:
        hook.remove()
    expected = alone.log_odds(Item(LONG), CLIPS)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    prefix = read[0][1]
    assert read[0][0] == 1 and prefix > 80
    longest = max(len(module.preparer(yes_no.together(Item(LONG), one), "candidate")) for one in CLIPS)
    assert all(length <= longest - prefix for _, length in read[1:])
    assert sum(count for count, _ in read[1:]) == len(CLIPS)
    # A second call keeps nothing of the first.
    np.testing.assert_allclose(judge.log_odds(Item("a dog"), CLIPS), alone.log_odds(Item("a dog"), CLIPS), atol=1e-5)


def test_it_keeps_the_contract(judge):
    assert violations(judge, Item("a dog runs"), CLIPS) == []
    assert judge.modalities == {"text", "image", "image+text"}
    assert judge.score(Item("a dog"), [Item(image=PICTURE)]).shape == (1,)


def test_failures_are_named(judge):
    with pytest.raises(EncodeError) as raised:
        judge.score(Item("a dog"), [CLIPS[0], Item(video="/no/such/file"), CLIPS[1], Item("a text")])
    error = raised.value
    assert list(error.failures) == [1, 3] and error.positions == [0, 2]
    np.testing.assert_allclose(error.vectors[:, 0], judge.score(Item("a dog"), [CLIPS[0], CLIPS[1]]), atol=1e-6)
    assert "both have text" in error.failures[3]
    with pytest.raises(ModelError, match="not video"):
        judge.score(CLIPS[0], CLIPS)


def test_as_a_cross_encoder_it_says_the_same(judge, tmp_path):
    from sentence_transformers import CrossEncoder

    pairs = [("a dog runs", one) for one in CLIPS]
    expected = judge.score(Item("a dog runs"), CLIPS)
    crossed = judge.cross_encoder()
    np.testing.assert_allclose(crossed.predict(pairs), expected, atol=1e-6)
    ranked = crossed.rank("a dog runs", CLIPS)
    assert [row["corpus_id"] for row in ranked] == np.argsort(-expected, kind="stable").tolist()
    crossed.save_pretrained(str(tmp_path / "saved"))
    again = CrossEncoder(str(tmp_path / "saved"), trust_remote_code=True)  # a module of ours, from this package
    np.testing.assert_allclose(again.predict(pairs), expected, atol=1e-6)


def test_a_cross_encoder_is_a_scorer(judge):
    from reelspace.rank.judge import Crossed

    crossed = Crossed("cross-encoder:tiny", judge.cross_encoder())
    assert violations(crossed, Item("a dog runs"), CLIPS) == []


def test_a_cross_encoder_of_words_alone(tmp_path):
    """One whose `LogitScore` reads yes and no, as sentence-transformers loads any causal language model."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from reelspace.rank.judge import Crossed

    tokenizer = tinies.tokenizer()
    tokenizer.add_tokens(["yes", "no"])
    tokenizer.chat_template = "{% for message in messages %}<|im_start|>{{ message['content'] }}{% endfor %}"
    tokenizer.save_pretrained(tmp_path / "words")
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "vocab_size": 400}
    config = Qwen2Config(**sizes, num_attention_heads=2, num_key_value_heads=2, eos_token_id=2, pad_token_id=0)
    Qwen2ForCausalLM(config).save_pretrained(tmp_path / "words")
    scorer = scorers.load(f"cross-encoder:{tmp_path / 'words'}")
    assert isinstance(scorer, Crossed) and scorer.modalities == {"text"}
    texts = [Item(text) for text in ("a dog runs", "the cat sleeps", "a dog")]
    assert violations(scorer, Item("a dog"), texts) == []
    with pytest.raises(EncodeError) as raised:
        scorer.score(Item("a dog"), [texts[0], CLIPS[0]])
    assert raised.value.positions == [0] and "takes no video" in raised.value.failures[1]
    with pytest.raises(ModelError, match="cannot be loaded as a cross-encoder"):
        scorers.load(f"cross-encoder:{tmp_path / 'nothing'}")


def test_a_folder_brings_its_own_question(tmp_path):
    folder = tinies.write(tmp_path / "own")
    plain = yes_no.load(str(folder)).fingerprint
    (folder / yes_no.FILE).write_text(
        json.dumps({"user": {"video+text": "{video}{text} yes?"}, "frames": "uniform(2)"})
    )
    judge = yes_no.load(str(folder))
    assert judge.modalities == {"text"} and str(judge.sampling.policy) == "uniform(2)"
    assert judge.fingerprint != plain and np.isfinite(judge.score(Item("a dog"), CLIPS)).all()
    (folder / yes_no.FILE).write_text("{")
    with pytest.raises(ModelError, match="no JSON"):
        yes_no.load(str(folder))


def test_what_cannot_be_asked():
    with pytest.raises(ModelError):
        yes_no.load("lite")
    with pytest.raises(ModelError, match=r"No or no|Yes or yes"):
        yes_no.answers(type("Letters", (), {"encode": staticmethod(lambda word, **_: [ord(c) for c in word])}))


def test_probabilities_do_not_overflow():
    odds = np.array([-200, -1, 0, 1, 200], np.float32)
    found = yes_no._probability(odds)
    assert found.dtype == np.float32 and found[[0, 4]].tolist() == [0.0, 1.0]
    np.testing.assert_allclose(found[1:4], 1 / (1 + np.exp(-odds[1:4])), rtol=1e-6)


def test_a_model_by_name_is_asked(folder):
    assert scorers.load(str(folder)).name == str(folder)
    with pytest.raises(ModelError):
        scorers.load("no-such-model")
