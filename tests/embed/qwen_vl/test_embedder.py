"""The embedder against plain transformers, written out here; and what it refuses."""

import numpy as np
import pytest
import torch

import tinies
from reelspace.embed import load
from reelspace.embed.conformance import violations
from reelspace.errors import EncodeError, ModelError
from reelspace.item import Frames, Item

RANDOM = np.random.default_rng(0)
PICTURE = RANDOM.integers(0, 256, (70, 120, 3), dtype=np.uint8)
CLIP = Frames(RANDOM.integers(0, 256, (5, 60, 100, 3), dtype=np.uint8), np.arange(5) / 4, 0.0, 1.25)
TEXT = "a dog runs.\n\nthe cat sleeps"
ITEMS = [
    Item(TEXT),
    Item(image=PICTURE),
    Item(video=CLIP),
    Item(TEXT, image=PICTURE),
    Item(TEXT, video=CLIP, image=PICTURE),
]


def plainly(folder, kind, item, system, layer=-1):
    """A vector as the model card's code makes it, one item at a time; frames 0, 1, 3, 4 are fps(2, max=4)'s."""
    from PIL import Image
    from transformers import AutoModelForImageTextToText, AutoTokenizer
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    three = kind == "qwen3_vl"
    patch = {"patch_size": 16, "image_mean": [0.5] * 3, "image_std": [0.5] * 3} if three else {}
    content, inputs = "", {}
    if item.video is not None:
        # A pair of frames is one temporal patch of the image processor, which repeats a single picture.
        limits = {"shortest_edge": 4 * 28**2, "longest_edge": 8 * 28**2}
        process = Qwen2VLImageProcessorPil(size=limits, **patch)
        made = [process(Image.fromarray(frame), return_tensors="pt") for frame in CLIP.pixels[[0, 1, 3, 4]]]
        rows = [one["pixel_values"].reshape(len(one["pixel_values"]), 3, 2, -1) for one in made]
        pairs = [torch.stack([rows[n][:, :, 0], rows[n + 1][:, :, 0]], dim=2).flatten(1) for n in (0, 2)]
        _, h, w = made[0]["image_grid_thw"][0].tolist()
        inputs |= {"pixel_values_videos": torch.cat(pairs), "video_grid_thw": torch.tensor([[2, h, w]])}
        pads = "<|video_pad|>" * (h * w // 4)
        if three:
            content += (
                f"<0.1 seconds><|vision_start|>{pads}<|vision_end|><0.9 seconds><|vision_start|>{pads}<|vision_end|>"
            )
        else:
            content += f"<|vision_start|>{pads}{pads}<|vision_end|>"
        if kind == "qwen2_5_vl":
            inputs["second_per_grid_ts"] = torch.tensor([2 / (4 / 1.25)])
    if item.image is not None:
        process = Qwen2VLImageProcessorPil(size={"shortest_edge": 4 * 28**2, "longest_edge": 16 * 28**2}, **patch)
        made = process(Image.fromarray(PICTURE), return_tensors="pt")
        inputs |= {"pixel_values": made["pixel_values"], "image_grid_thw": made["image_grid_thw"]}
        content += f"<|vision_start|>{'<|image_pad|>' * (made['image_grid_thw'].prod().item() // 4)}<|vision_end|>"
    content += item.text or ""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    prompt = f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{content}<|im_end|>\n<|im_start|>assistant\n"
    ids = tokenizer(prompt + "<|endoftext|>", return_tensors="pt")["input_ids"]
    image, video = (tokenizer.convert_tokens_to_ids(f"<|{name}_pad|>") for name in ("image", "video"))
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32)
    with torch.inference_mode():
        out = model(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            mm_token_type_ids=(ids == image).long() + 2 * (ids == video).long(),
            output_hidden_states=True,
            **inputs,
        )
    return torch.nn.functional.normalize(out.hidden_states[layer][0, -1], dim=0).numpy()


def test_vectors_are_those_of_plain_transformers(folders, kind):
    embedder = load(str(folders[kind]))
    candidates, queries = embedder.encode_candidate(ITEMS), embedder.encode_query(ITEMS, "Do this.")
    for row, item in enumerate(ITEMS):
        expected = plainly(folders[kind], kind, item, "You are a helpful assistant.")
        np.testing.assert_allclose(candidates[row], expected, atol=2e-6, err_msg=str(item))
        np.testing.assert_allclose(queries[row], plainly(folders[kind], kind, item, "Do this."), atol=2e-6)


def test_layers_are_those_of_plain_transformers_with_and_without_the_norm(folders, kind):
    embedder = load(str(folders[kind]))
    taps = [(0, False), (1, False), (2, False), (None, True), (3, True), (2, True)]
    rows = embedder.encode_layers(ITEMS, "candidate", taps)
    for layer in (0, 1, 2, 3):
        expected = [plainly(folders[kind], kind, item, "You are a helpful assistant.", layer) for item in ITEMS]
        np.testing.assert_allclose(rows[layer], expected, atol=2e-6)
    np.testing.assert_array_equal(rows[3], rows[4])
    assert abs(rows[2] - rows[5]).max() > 0.01  # the norm is no formality
    np.testing.assert_array_equal(load(str(folders[kind]), layer=2).encode_candidate(ITEMS), rows[5])
    np.testing.assert_array_equal(load(str(folders[kind]), layer=2, norm=False).encode_candidate(ITEMS), rows[2])


@pytest.mark.parametrize(("kind", "side"), [("qwen2_5_vl", "left"), ("qwen3_vl", "right")])
def test_it_keeps_the_contract(folders, kind, side):
    assert violations(load(str(folders[kind]), padding_side=side)) == []


def test_the_padding_side_does_not_matter(folders, kind):
    left, right = (load(str(folders[kind]), padding_side=side).encode_candidate(ITEMS) for side in ("left", "right"))
    np.testing.assert_allclose(left, right, atol=1e-6)


def test_a_query_of_17000_words_keeps_its_pooled_token(embedder, caplog):
    prepare = embedder.module.preparer
    long = "the cat sleeps. " * 5667
    made = prepare(Item(long, image=PICTURE), "query")
    short = prepare(Item("the", image=PICTURE), "query")
    assert len(made) == embedder.readout.max_length
    assert made.ids[-6:].tolist() == short.ids[-6:].tolist()  # <|im_end|> \n <|im_start|> assistant \n <|endoftext|>
    assert (made.kinds == 1).sum() == (short.kinds == 1).sum() == 8
    assert made.cut > 17000
    alike = embedder.encode_query([Item(long), Item(long[:-9] + "dog runs.")])
    assert alike[0] @ alike[1] == pytest.approx(1)
    assert embedder.tally.cut_texts >= 2
    assert "texts were cut to 1024 tokens" in caplog.text


def test_pictures_and_instructions_are_never_cut(folders):
    embedder = load(str(folders["qwen2_5_vl"]), max_length=36)
    with pytest.raises(EncodeError, match="pictures and instructions are not cut") as caught:
        embedder.encode_candidate([Item("a dog"), Item(TEXT, video=CLIP)])
    assert list(caught.value.failures) == [1]
    with pytest.raises(EncodeError, match="pictures and instructions"):
        embedder.encode_query([Item("a dog")], "very " * 500)


def test_special_tokens_have_no_power_in_what_users_write(embedder):
    prepare = embedder.module.preparer
    made = prepare(Item("a <|im_end|> <|image_pad|> dog"), "query", "<|vision_start|>")
    assert (made.ids == prepare.family.image).sum() == 0
    assert (made.ids == 2).sum() == 2  # the template's own


def test_an_unknown_instruction_key_is_an_error(embedder):
    known = embedder.encode_query([Item("a dog")], "@moments")
    np.testing.assert_array_equal(known, embedder.encode_query([Item("a dog")], "Find the moment."))
    with pytest.raises(ModelError, match="no instruction @moment; it has @moments"):
        embedder.encode_query([Item("a dog")], "@moment")


def test_missing_and_truncated_inputs_are_errors(embedder):
    module = embedder.module
    features = module.preprocess([Item(image=PICTURE)])
    with pytest.raises(ModelError, match="mm_token_type_ids"):
        module({name: value for name, value in features.items() if name != "mm_token_type_ids"})
    timeless = module.preprocess([Item(video=CLIP)])
    del timeless["seconds_per_sample"]
    with pytest.raises(ModelError, match="seconds_per_sample"):
        module(timeless)
    cut = {**features, "input_ids": features["input_ids"].clone()}
    cut["input_ids"][0, features["mm_token_type_ids"][0].argmax()] = 9
    with pytest.raises(ModelError, match="image tokens where"):
        module(cut)


def test_a_degenerate_vector_is_an_error_of_its_item(folders):
    embedder = load(str(folders["qwen2_5_vl"]))
    row = embedder.module.backbone.get_input_embeddings().weight
    with torch.no_grad():
        row[embedder.module.tokenizer("dog")["input_ids"][0]] = float("nan")
    with pytest.raises(EncodeError, match="vector of length nan") as caught:
        embedder.encode_candidate([Item("a cat"), Item("dog"), Item("the cat")])
    assert (caught.value.positions, list(caught.value.failures)) == ([0, 2], [1])


def test_options_make_another_space_and_unknown_ones_are_refused(folders):
    folder = str(folders["qwen2_5_vl"])
    plain = load(folder)
    same = (load(folder, budget=99, padding_side="left"), load(folder, device="cpu", dtype="float32"))
    other = (load(folder, layer=1), load(folder, norm=False), load(folder, frames="uniform(4)"))
    other += (load(folder, dtype="bfloat16"), load(folder, query="Find it."))
    assert {one.fingerprint for one in same} == {plain.fingerprint}
    assert len({one.fingerprint for one in (plain, *other)}) == 6
    with pytest.raises(ModelError, match="has no layers"):
        load(folder, layers=1)
    with pytest.raises(ModelError, match="no state after 9"):
        load(folder, layer=9).encode_candidate([Item("a")])
    with pytest.raises(ModelError, match="float8"):
        load(folder, dtype="float8")


def test_texts_tokenised_apart(tmp_path):
    readout = tinies.READOUT | {"user": {"text": "{text} {|}dog runs", "*": "{video}{image}"}}
    prepare = load(str(tinies.write(tmp_path, readout=readout))).module.preparer
    made = prepare(Item("a dog"), "candidate").ids.tolist()
    apart = [*prepare.tokenizer.encode("user\na dog ").ids, *prepare.tokenizer.encode("dog runs").ids]
    together = prepare.tokenizer.encode("user\na dog dog runs").ids
    assert apart != together
    assert any(made[n : n + len(apart)] == apart for n in range(len(made)))
