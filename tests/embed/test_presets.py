"""Names → models: presets, folders, repositories in the cache of the hub."""

import json
import logging
import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import tinies
from reelspace.embed import known, load, names, presets
from reelspace.embed.qwen_vl.readout import Readout
from reelspace.errors import EncodeError, ModelError
from reelspace.item import Frames, Item

PICTURE = np.random.default_rng(0).integers(0, 256, (90, 120, 3), dtype=np.uint8)
CLIP = Frames(np.stack([np.roll(PICTURE, 10 * n, axis=0) for n in range(6)]), np.arange(6) / 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tinies.write(tmp_path_factory.mktemp("model"))


@pytest.fixture
def hub(tmp_path, folder, monkeypatch):
    """A cache with one repository, and no network."""
    import huggingface_hub.constants

    repository = tmp_path / "models--someone--embedder"
    shutil.copytree(folder, repository / "snapshots" / ("c0ffee" * 7)[:40])
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(("c0ffee" * 7)[:40])
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    return repository


def torch_presets():
    return [name for name, preset in presets.presets().items() if preset["loader"] in ("qwen_vl", "dual")]


@pytest.mark.parametrize("name", torch_presets())
def test_a_presets_contract_is_whole_and_shown_without_a_download(name, monkeypatch):
    monkeypatch.setattr("reelspace.embed.hub.fetched", lambda *_: pytest.fail("nothing is to be fetched"))
    embedder = load(name)
    assert embedder.dim > 0
    assert {"text", "video"} <= embedder.modalities
    assert embedder.contract["frames"] == str(embedder.sampling)
    if presets.presets()[name]["revision"] != "main":
        assert len(presets.presets()[name]["revision"]) == 40
        assert embedder.fingerprint


def test_presets_differ_where_their_contracts_do():
    pinned = [load(name) for name in torch_presets() if presets.presets()[name]["revision"] != "main"]
    assert len({embedder.fingerprint for embedder in pinned}) == len(pinned)
    assert load("gve-3b", frames="uniform(8)").fingerprint == load("gve-3b@paper").fingerprint


def test_gve_is_read_at_the_appended_token():
    told = load("gve-7b@paper").contract
    assert told["appended"] == "<|endoftext|>"
    assert told["template"].endswith("<|im_start|>assistant\n")
    assert (told["query"], told["max_length"], told["frames"]) == ("You are a helpful assistant.", 8192, "uniform(8)")
    assert told["frame_pixels"] == [128 * 28**2, 200 * 28**2]
    assert told["image_pixels"] == [4 * 28**2, 256 * 28**2]


def test_declaring_needs_no_torch():
    code = """
import sys
sys.modules["torch"] = sys.modules["transformers"] = None
from reelspace.embed import load, names
from reelspace.embed.base import declared_form
for name in ("gve-3b", "siglip2", "qwen3-vl-embedding-8b"):
    assert declared_form(load(name))["fingerprint"], name
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_names_that_may_be_loaded(folder):
    assert {"lite", "gve-3b", "siglip2", "tiny", "videollama3-7b"} <= set(names())
    assert known("lite")
    assert known(str(folder))
    assert known("someone/something")
    assert not known("nonesuch")
    with pytest.raises(ModelError, match="no model “nonesuch”"):
        load("nonesuch")
    with pytest.raises(ModelError, match="lite has no options"):
        load("lite", layer=3)
    with pytest.raises(ModelError, match="A readout has no colour"):
        load("gve-3b", colour="red")
    with pytest.raises(ModelError, match="siglip2 has no layer"):
        load("siglip2", layer=1)


def test_a_repository_in_the_cache_is_the_folder_it_holds(hub, folder):
    embedder = load("someone/embedder")
    items = [Item("a dog"), Item(video=CLIP)]
    np.testing.assert_array_equal(embedder.encode_candidate(items), load(str(folder)).encode_candidate(items))
    assert embedder.name == "someone/embedder"


def test_what_is_not_in_the_cache_and_cannot_be_fetched_says_what_to_do(hub, caplog):
    with pytest.raises(ModelError, match=r"someone/other \(main\) is not in the cache.*hf download someone/other"):
        load("someone/other")
    (weights,) = hub.rglob("*.safetensors")
    weights.unlink()  # a download that was broken off
    with pytest.raises(ModelError, match="cannot be fetched"):
        load("someone/embedder")


def test_sizes_are_shown_before_a_download(monkeypatch, tmp_path, caplog):
    import huggingface_hub

    from reelspace.embed import hub

    files = [("model-1.safetensors", 5e9), ("model-2.safetensors", 2.4e9), ("modeling.py", 9e9), ("config.json", 1e3)]
    siblings = [SimpleNamespace(rfilename=name, size=int(size)) for name, size in files]
    asked = []

    def download(source, **options):
        if options.get("local_files_only"):
            raise huggingface_hub.errors.LocalEntryNotFoundError("no")
        asked.append((caplog.text, options))
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda *_, **__: SimpleNamespace(siblings=siblings))
    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    with caplog.at_level(logging.WARNING):
        hub.fetched("someone/large", "f" * 40)
    ((said, options),) = asked
    assert "fetching 7.4 GB" in said
    assert options["revision"] == "f" * 40
    assert not any(pattern.endswith(".py") or pattern.endswith(".bin") for pattern in options["allow_patterns"])


def test_a_folder_without_a_contract_is_refused_unless_one_is_given(tmp_path, folder):
    bare = tmp_path / "bare"
    shutil.copytree(folder, bare)
    (bare / "readout.json").unlink()
    with pytest.raises(ModelError, match=r"no readout\.json"):
        load(str(bare))
    lent = load(str(bare), contract="gve-3b@paper", frame_pixels=[3136, 6272])
    assert lent.readout.frames == "uniform(8)"
    own = Readout.read(folder).declared()
    np.testing.assert_array_equal(
        load(str(bare), **own).encode_candidate([Item("a dog")]), load(str(folder)).encode_candidate([Item("a dog")])
    )
    (bare / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(ModelError, match="of type gpt2"):
        load(str(bare))


def test_a_damaged_contract_says_where(tmp_path, folder):
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    for text, reason in (
        ("{", "Expecting"),
        ('{"template": "x"}', "where {user} stands"),
        ('{"query": "x"}', "without a template"),
        ('{"template": "{user}", "frames": "all"}', "no frame policy"),
        ('{"template": "{user}", "position": 1}', "counted from the end"),
        ('{"template": "{user}<|gone|>"}', "no special token"),
    ):
        (broken / "readout.json").write_text(text)
        with pytest.raises(ModelError, match=reason):
            load(str(broken)).encode_candidate([Item("a")])


def test_weights_that_are_incomplete_are_refused(tmp_path, folder):
    from safetensors.torch import load_file, save_file

    cut = tmp_path / "cut"
    shutil.copytree(folder, cut)
    weights = load_file(cut / "model.safetensors")
    weights.pop(next(name for name in weights if name.endswith("layers.2.mlp.up_proj.weight")))
    save_file(weights, cut / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"lacks weights: .*up_proj"):
        load(str(cut)).encode_candidate([Item("a")])


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")  # peft's own affair
def test_a_lora_adapter_is_merged(tmp_path, folder):
    import peft
    import torch

    from reelspace.embed.qwen_vl.embedder import QwenVLEmbedder

    base = load(str(folder)).module.backbone
    tuned = peft.get_peft_model(base, peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"]))
    with torch.no_grad():
        for name, weight in tuned.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=0.3)
    tuned.save_pretrained(str(tmp_path))
    embedder = QwenVLEmbedder("tuned", lambda: folder, adapter=lambda: tmp_path)
    plain = load(str(folder)).encode_candidate([Item("a dog")])
    assert embedder.encode_candidate([Item("a dog")])[0] @ plain[0] < 0.99


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """A model of sentence-transformers for texts alone."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizerFast

    where = tmp_path_factory.mktemp("bert")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "dog", "cat", "find", "it", "##s"]
    (where / "vocab.txt").write_text("\n".join(vocabulary))
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )
    BertModel(config).save_pretrained(where)
    BertTokenizerFast(str(where / "vocab.txt")).save_pretrained(where)
    made = SentenceTransformer(
        modules=[Transformer(str(where)), Pooling(32)], prompts={"query": "find it ", "document": ""}
    )
    made.save(str(where / "st"))
    return where / "st"


class TestSentenceTransformers:
    def test_a_text_model(self, words):
        embedder = load(str(words))
        assert embedder.modalities == {"text"}
        assert embedder.dim == 32
        rows = embedder.encode_query([Item("a dog"), Item("a cat")])
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
        expected = embedder.model.encode(["find it a dog"], normalize_embeddings=True)
        np.testing.assert_allclose(rows[:1], expected, atol=1e-6)
        assert embedder.contract["prompt query"] == "find it "
        with pytest.raises(EncodeError, match="takes text"):
            embedder.encode_candidate([Item(image=PICTURE)])

    def test_a_multimodal_one_is_given_the_frames_of_our_policy(self, folder, monkeypatch):
        from reelspace.embed.st import SentenceTransformerEmbedder

        ours = load(str(folder), frames="uniform(4)")
        embedder = SentenceTransformerEmbedder("ours", folder, frames="uniform(4)")
        embedder.__dict__["model"] = ours.model
        assert embedder.modalities == ours.modalities
        items = [Item("a dog"), Item(image=PICTURE), Item("a dog", image=PICTURE), Item(video=CLIP)]
        np.testing.assert_allclose(embedder.encode_query(items), ours.encode_query(items), atol=1e-5)
        seen = []
        monkeypatch.setattr(ours.model, "encode_document", lambda inputs, **_: seen.extend(inputs) or np.eye(1, 64))
        embedder.encode_candidate([Item("a dog", video=CLIP)])
        assert list(seen[0]) == ["text", "video"]
        assert seen[0]["video"]["array"].shape == (4, 3, 90, 120)


class TestTwoTowers:
    @pytest.mark.parametrize("kind", ["clip", "siglip"])
    def test_vectors_are_those_of_plain_transformers(self, tmp_path, kind):
        import torch
        from PIL import Image
        from transformers import AutoModel, AutoTokenizer
        from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
        from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

        folder = towers(tmp_path, kind)
        embedder = load(str(folder))
        rows = embedder.encode_candidate(
            [Item("a dog"), Item(image=PICTURE), Item(video=CLIP), Item("a dog", CLIP.pixels[0])]
        )
        model, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
        processor = {"clip": CLIPImageProcessorPil, "siglip": SiglipImageProcessorPil}[kind].from_pretrained(folder)
        long = {"padding": "max_length", "max_length": 16} if kind == "siglip" else {}

        def unit(rows):
            return torch.nn.functional.normalize(rows, dim=-1)

        with torch.inference_mode():
            text = unit(model.get_text_features(**tokenizer(["a dog"], return_tensors="pt", **long)).pooler_output)
            frames = [CLIP.pixels[n] for n in (0, 1, 1, 2, 3, 4, 4, 5)]
            pixels = processor([Image.fromarray(x) for x in (PICTURE, *frames)], return_tensors="pt")
            seen = unit(model.get_image_features(**pixels).pooler_output)
        expected = [text[0], seen[0], unit(seen[1:].mean(dim=0)), unit(text[0] + seen[1])]
        np.testing.assert_allclose(rows, torch.stack(expected).numpy(), atol=2e-6)

    def test_it_keeps_the_contract(self, tmp_path):
        from reelspace.embed.conformance import violations

        folder = str(towers(tmp_path, "clip"))
        assert violations(load(folder)) == []
        assert load(folder).fingerprint != load(folder, frames="uniform(4)").fingerprint


def towers(folder, kind):
    """Random towers, saved as released ones are."""
    import torch
    import transformers

    text = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    text |= {"vocab_size": 400, "max_position_embeddings": 16, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    vision = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    vision |= {"image_size": 32, "patch_size": 8}
    torch.manual_seed(0)
    if kind == "clip":
        config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=24)
        model = transformers.CLIPModel(config)
        about = {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}, "do_center_crop": True}
        about |= {"resample": 3, "image_mean": [0.48, 0.46, 0.41], "image_std": [0.27, 0.26, 0.28]}
    else:
        config = transformers.SiglipConfig(text_config=text | {"projection_size": 32}, vision_config=vision)
        model = transformers.SiglipModel(config)
        about = {"size": {"height": 32, "width": 32}, "resample": 2, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(std=0.3)
    model.save_pretrained(folder)
    tinies.tokenizer().save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(about))
    return folder
