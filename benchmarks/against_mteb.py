"""Our GVE beside mteb's own wrapper, on a random model with GVE's architecture, prompts and tokenizer's form.

    python -m venv /tmp/peer
    /tmp/peer/bin/pip install torch==2.14.1 torchvision==0.29.1 mteb sentence-transformers -e .
    /tmp/peer/bin/python benchmarks/against_mteb.py

mteb's wrapper needs torchvision (5 GB), so this runs in an environment of its own. Both read the same weights in
float32 and are given the same frames; printed are the cosines, item by item: `@mteb` should be 1, the released
contract differs from it where times are known, and without the appended <|endoftext|> a vector is another.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))


def released(folder: Path) -> Path:
    """A random Qwen2.5-VL saved with all the files that transformers' own processor reads."""
    from transformers import Qwen2VLImageProcessor, Qwen2VLVideoProcessor

    import tinies
    from reelspace.embed import presets

    keys = ("template", "appended", "query", "candidate", "max_length", "image_pixels", "frame_pixels", "frames")
    tinies.write(folder, readout={key: presets.contract("gve-3b")[key] for key in keys})
    sizes = presets.contract("gve-3b")["image_pixels"]
    Qwen2VLImageProcessor(size={"shortest_edge": sizes[0], "longest_edge": sizes[1]}).save_pretrained(folder)
    Qwen2VLVideoProcessor().save_pretrained(folder)
    chat = (
        "{% for message in messages %}<|im_start|>{{ message.role }}\n"
        "{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}"
        "{% if part.type == 'video' %}<|vision_start|><|video_pad|><|vision_end|>"
        "{% elif part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
        "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    (folder / "chat_template.jinja").write_text(chat)
    about = {"processor_class": "Qwen2_5_VLProcessor"}
    for file in ("preprocessor_config.json", "tokenizer_config.json"):
        path = folder / file
        path.write_text(json.dumps({**json.loads(path.read_text()), **about}))
    return folder


def theirs(folder: Path, rows: dict[str, list[object]], instruction: str | None) -> np.ndarray:
    """Vectors of mteb's wrapper, in float32."""
    import torch
    from mteb.models.model_implementations.gve_models import GVEWrapper
    from mteb.types import PromptType

    wrapper = GVEWrapper(str(folder), None, device="cpu")
    wrapper.model.float()
    wrapper.get_instruction = lambda *_: instruction
    # Frames are given, so its own sampling must not look for a decoder: it is handed a loader that has them.
    batch = SimpleNamespace(features={key: None for key in rows if key != "video"})
    loader = _Loader([rows], batch)
    side = PromptType.query if instruction else PromptType.document
    found = wrapper.encode(
        loader, task_metadata=None, hf_split="", hf_subset="", prompt_type=side, show_progress_bar=False
    )
    return np.asarray(found, dtype=np.float32) if not isinstance(found, torch.Tensor) else found.numpy()


class _Loader(list):
    def __init__(self, batches: list[dict[str, list[object]]], dataset: SimpleNamespace) -> None:
        super().__init__(batches)
        self.dataset = dataset


def main() -> None:
    import torch
    from PIL import Image

    from reelspace import Item, load
    from reelspace.item import Frames

    random = np.random.default_rng(0)
    picture = random.integers(0, 256, (240, 320, 3), dtype=np.uint8)
    pixels = random.integers(0, 256, (8, 180, 320, 3), dtype=np.uint8)
    clip = Frames(pixels, np.arange(8) / 1.0, 0.0, 8.0)
    video = torch.from_numpy(pixels).permute(0, 3, 1, 2)
    cases: dict[str, tuple[Item, dict[str, list[object]]]] = {
        "text": (Item("a dog runs"), {"text": ["a dog runs"]}),
        "image": (Item(image=picture), {"image": [Image.fromarray(picture)]}),
        "video": (Item(video=clip), {"video": [video]}),
        "image+text": (Item("a dog", image=picture), {"image": [Image.fromarray(picture)], "text": ["a dog"]}),
        "video+text": (Item("a dog", video=clip), {"video": [video], "text": ["a dog"]}),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = released(Path(name))
        at_mteb = load(str(folder), max_length=4096, timed=False, seconds=2 / 24)
        ours = load(str(folder))
        without = load(str(folder), appended="")
        for model in (at_mteb, ours, without):
            model.module.backbone.bfloat16().float()  # its weights have been rounded so when they are read
        print(f"{'item':12} {'side':10} {'@mteb':>10} {'released':>10} {'not appended':>13}")
        for side, instruction in (("candidate", None), ("query", "Find the video.")):
            for kind, (item, rows) in cases.items():
                peer = theirs(folder, rows, instruction)[0]
                cosines = []
                for model in (at_mteb, ours, without):
                    row = model.encode_query([item], instruction) if instruction else model.encode_candidate([item])
                    cosines.append(float(row[0] @ peer))
                print(f"{kind:12} {side:10} {cosines[0]:10.6f} {cosines[1]:10.6f} {cosines[2]:13.6f}", flush=True)


if __name__ == "__main__":
    main()
