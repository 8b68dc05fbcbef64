"""A model in this process, by transformers: Keye-VL, Qwen-VL, or whatever `AutoModelForImageTextToText` loads.

Frames are given as pictures, each with its time, as a server is given them. Answers are greedy or sampled from a seed,
so that the same request has the same answer on the same machine.
"""

from __future__ import annotations

import threading
from functools import cached_property
from typing import TYPE_CHECKING, Any

from reelspace.embed.base import fingerprint
from reelspace.synth.config import TransformersMllm
from reelspace.synth.mllm import MllmError, RefusedError, Reply, Request

if TYPE_CHECKING:
    import torch


class Local:
    """A chat model with eyes, from a folder or the hub."""

    together = 1

    def __init__(self, config: TransformersMllm) -> None:
        self._config = config
        self._lock = threading.Lock()
        try:
            import transformers  # noqa: F401
        except ImportError:
            raise MllmError(
                "A model in this process needs torch and transformers: pip install 'reelspace[torch]'."
            ) from None

    @property
    def fingerprint(self) -> str:
        config = self._config
        return fingerprint(
            **{"kind": "transformers", "model": config.model, "revision": config.revision, "edge": config.edge},
            **{"temperature": config.temperature, "most": config.max_tokens, "dtype": config.dtype},
        )

    def close(self) -> None:
        pass

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        from transformers import AutoModelForImageTextToText, AutoProcessor

        config = self._config
        more: dict[str, Any] = {"trust_remote_code": True} if config.trust_remote_code else {}
        more |= {"revision": config.revision} if config.revision else {}
        try:
            processor = AutoProcessor.from_pretrained(config.model, **more)
            model = AutoModelForImageTextToText.from_pretrained(config.model, dtype=config.dtype, **more)
        except (OSError, ValueError, ImportError) as error:
            raise MllmError(f"{config.model}: cannot be loaded ({error}).") from None
        return processor, model.to(config.device).eval()

    def ask(self, request: Request) -> Reply:
        with self._lock:
            try:
                return self._asked(request)
            except (RuntimeError, IndexError) as error:  # out of memory, or more tokens than it has places
                raise RefusedError(f"{self._config.model} failed: {type(error).__name__}: {error}") from None

    def _asked(self, request: Request) -> Reply:
        import torch

        processor, model = self._loaded
        inputs = processor.apply_chat_template(
            self._messages(request), add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt"
        ).to(model.device)
        length = inputs["input_ids"].shape[1]
        with torch.inference_mode():
            if request.choices:
                logits = model(**inputs).logits[0, -1].float()
                likely = self._likely(request.choices, logits, processor.tokenizer)
                said = max(request.choices, key=lambda choice: likely[choice])
                return self._reply(said, length, 1, likely)
            torch.manual_seed(request.seed)
            warm = self._config.temperature > 0
            drawn = {"do_sample": True, "temperature": self._config.temperature} if warm else {"do_sample": False}
            ids = model.generate(**inputs, max_new_tokens=self._config.max_tokens, **drawn)[0, length:]
        text = processor.tokenizer.decode(ids, skip_special_tokens=True)
        return self._reply(text, length, len(ids), {})

    def _messages(self, request: Request) -> list[dict[str, Any]]:
        from PIL import Image

        content: list[dict[str, Any]] = []
        for show in request.shows:
            content.append({"type": "text", "text": f"{show.name}:"})
            for number, frame in enumerate(show.frames):
                if show.moving:
                    content.append({"type": "text", "text": f"{show.times[number]:.2f} s"})
                content.append({"type": "image", "image": Image.fromarray(frame)})
        content.append({"type": "text", "text": request.prompt})
        system = [{"type": "text", "text": request.system}]
        return [{"role": "system", "content": system}, {"role": "user", "content": content}]

    def _likely(self, choices: tuple[str, ...], logits: torch.Tensor, tokenizer: Any) -> dict[str, float]:
        """Of each choice, by the tokens that begin it, with a space before it and without."""
        import torch

        scores = []
        for choice in choices:
            firsts = {tokenizer.encode(form, add_special_tokens=False)[0] for form in (choice, f" {choice}")}
            scores.append(torch.logsumexp(logits[sorted(firsts)], 0))
        shares = torch.softmax(torch.stack(scores), 0).tolist()
        return dict(zip(choices, shares, strict=True))

    def _reply(self, text: str, taken: int, given: int, likely: dict[str, float]) -> Reply:
        return Reply(text, self._config.model, self._config.revision, taken, given, likely)
