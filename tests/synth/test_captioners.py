"""Models in this process: any that transformers loads, and the tiny one."""

import json
from pathlib import Path

import numpy as np
import pytest

from reelspace.synth.answers import Captions, FrameCaption, FromClip, FromPicture
from reelspace.synth.config import Enrich, TinyMllm, TransformersMllm
from reelspace.synth.mllm import MllmError, Show
from reelspace.synth.prompts import captions, composed, frame, verify
from reelspace.synth.schema import Clip, Picture
from reelspace.worlds.render import frames
from reelspace.worlds.sample import EASY, generator, scene

torch = pytest.importorskip("torch")
SLOTS = {"profile": "temporal", "readability": "plain", "education": "university"}


def shows(number=0):
    drawn = scene(generator("captioner", number), EASY)
    pixels = frames(drawn)
    times = np.arange(len(pixels)) / drawn.rate
    video = Show("VIDEO", pixels, times, Clip(path="a.mp4"))
    return video, Show("PICTURE", pixels[:1], times[:1], Picture(path="a.mp4", time=0.0))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """An untaught tiny model, as `worlds train` would save it."""
    from reelspace.worlds.tiny import tokens
    from reelspace.worlds.tiny.model import Shape, build

    folder = tmp_path_factory.mktemp("tiny")
    shape = Shape(hidden=32, layers=2, heads=1, inner=32, vision_hidden=32, vision_layers=1, vision_inner=32)
    build(shape, 0).save_pretrained(folder)
    tokens.save(tokens.learnt(tokens.samples(60)), folder)
    return folder


def test_the_tiny_model_answers_every_kind_of_request_in_its_form(tiny):
    from reelspace.synth.mllm.tiny import Tiny

    model = Tiny(TinyMllm(kind="tiny", model=str(tiny), max_tokens=12))
    video, picture = shows()
    other, _ = shows(1)
    for request, schema in (
        (captions(video, "", SLOTS, Enrich(), 1), Captions),
        (frame(picture, video, SLOTS, 1), FrameCaption),
        (composed(picture, video, SLOTS, 1), FromPicture),
        (composed(other, video, SLOTS, 1), FromClip),
    ):
        reply = model.ask(request)
        data = json.loads(reply.text)
        assert set(data) == set(schema.model_fields)
        assert reply.input_tokens > 64 and reply.output_tokens > 0 and reply.revision
        assert model.ask(request) == reply
    yes = model.ask(verify([video], "a red circle moves left"))
    assert yes.likelihoods["Yes"] + yes.likelihoods["No"] == pytest.approx(1)
    assert (yes.text == "Yes") == (yes.likelihoods["Yes"] > 0.5)


def test_the_tiny_model_sees_what_it_is_shown(tiny):
    from reelspace.synth.mllm.tiny import Tiny

    model = Tiny(TinyMllm(kind="tiny", model=str(tiny)))
    one, other = shows(0)[0], shows(1)[0]
    backwards = Show(one.name, one.frames[::-1], one.times, one.source)
    likely = [model.ask(verify([video], "a red circle")).likelihoods["Yes"] for video in (one, other, backwards)]
    assert len(set(likely)) == 3


def test_the_tiny_client_judges_as_the_models_own_exam(tiny):
    from reelspace.synth.mllm.tiny import Tiny
    from reelspace.worlds.tiny.exam import leaning
    from reelspace.worlds.tiny.lessons import EDGE, Lesson, matched
    from reelspace.worlds.tiny.model import load
    from reelspace.worlds.tiny.tokens import Turn

    drawn = scene(generator("captioner", 0), EASY)
    pixels = frames(drawn)
    from reelspace.worlds.render import picture

    large = np.stack([picture(drawn.shots[0], k, EDGE) for k in range(len(pixels))])
    video = Show("VIDEO", large, np.arange(len(large)) / drawn.rate, Clip(path="a.mp4"))
    said = "A red circle moves left."
    yes = Tiny(TinyMllm(kind="tiny", model=str(tiny))).ask(verify([video], said)).likelihoods["Yes"]
    with torch.inference_mode():
        (odds,) = leaning(*load(tiny), [Lesson("video", "", (Turn(matched(said), "Yes"),), drawn)])
    assert yes == pytest.approx(1 / (1 + np.exp(-odds)), abs=1e-5)


def test_a_folder_without_a_model_is_refused(tmp_path):
    from reelspace.synth.mllm.tiny import Tiny

    with pytest.raises(MllmError, match="holds no model"):
        _ = Tiny(TinyMllm(kind="tiny", model=str(tmp_path))).fingerprint


@pytest.fixture(scope="module")
def llava(tmp_path_factory):
    """A small random LLaVA with its processor, as a hub folder: nothing of it is ours."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import (
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
        PreTrainedTokenizerFast,
    )
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    alphabet = pre_tokenizers.ByteLevel.alphabet()
    names = ["<pad>", "<s>", "</s>", "<image>", *sorted(alphabet)]
    raw = Tokenizer(models.BPE(vocab={name: k for k, name in enumerate(names)}, merges=[]))
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="<pad>", eos_token="</s>", additional_special_tokens=["<image>"]
    )
    template = (
        "{% for message in messages %}{{ message.role }}: {% for part in message.content %}"
        "{% if part.type == 'image' %}<image>{% else %}{{ part.text }}{% endif %}{% endfor %}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant: {% endif %}"
    )
    processor = LlavaProcessor(
        image_processor=CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}),
        tokenizer=tokenizer,
        patch_size=16,
        vision_feature_select_strategy="full",
        num_additional_image_tokens=1,
        chat_template=template,
    )
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(**sizes, image_size=32, patch_size=16),
        text_config=LlamaConfig(**sizes, vocab_size=len(names), max_position_embeddings=16384),
        image_token_index=names.index("<image>"),
        vision_feature_select_strategy="full",
        vision_feature_layer=-1,
    )
    folder = tmp_path_factory.mktemp("llava")
    LlavaForConditionalGeneration(config).save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def test_any_model_of_transformers_is_asked_with_frames_and_answers_the_same_again(llava):
    from reelspace.synth.mllm.local import Local

    video, picture = shows()
    request = frame(picture, video, SLOTS, 5)
    for temperature in (0.0, 0.7):
        model = Local(
            TransformersMllm(
                kind="transformers", model=str(llava), max_tokens=12, temperature=temperature, dtype="float32"
            )
        )
        reply = model.ask(request)
        assert reply == model.ask(request)
        assert 0 < reply.output_tokens <= 12 and reply.model == str(llava)
        assert reply.input_tokens > len(request.prompt)  # a byte a token, and nine pictures
        likely = model.ask(verify([video], "a red circle moves left")).likelihoods
        assert sum(likely.values()) == pytest.approx(1)
        seeds = {model.ask(frame(picture, video, SLOTS, seed)).text for seed in range(3)}
        assert (len(seeds) > 1) == (temperature > 0)


def test_what_cannot_be_loaded_says_so(tmp_path):
    from reelspace.synth.mllm.local import Local

    with pytest.raises(MllmError, match="cannot be loaded"):
        Local(TransformersMllm(kind="transformers", model=str(tmp_path))).ask(verify([shows()[0]], "x"))


TAUGHT = Path(__file__).parents[1] / "data" / "tiny-mllm"


def test_the_taught_model_tells_what_is_there():
    """What its captions say is true of the video they are of, far more often than of another."""
    from reelspace.synth.mllm.tiny import Tiny
    from reelspace.worlds.render import picture
    from reelspace.worlds.tiny.hearing import heard, told
    from reelspace.worlds.tiny.lessons import EDGE, sampled

    model = Tiny(TinyMllm(kind="tiny", model=str(TAUGHT), max_tokens=48))
    drawn = [sampled("full", "held-out", "synth", number) for number in range(6)]
    said = []
    for scene_ in drawn:
        pixels = np.stack([picture(scene_.shots[0], k, EDGE) for k in range(0, scene_.frames, scene_.frames // 8)])[:8]
        video = Show("VIDEO", pixels, np.arange(8) * scene_.duration / 8, Clip(path="a.mp4"))
        answer = json.loads(model.ask(captions(video, "", SLOTS, Enrich(), 1)).text)
        said.append(set().union(*(heard(one["text"]) for one in answer["captions"])))
    true = [told(scene_) for scene_ in drawn]
    own = sum(len(text & fact) for text, fact in zip(said, true, strict=True))
    other = sum(len(text & fact) for text, fact in zip(said, [*true[1:], true[0]], strict=True))
    assert own >= 2 * other and own >= 6
