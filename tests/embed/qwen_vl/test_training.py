"""The embedder as a `SentenceTransformer`: encoded, trained, saved and loaded as any other."""

import json

import numpy as np
import pytest

from reelspace.embed import load
from reelspace.embed.qwen_vl.module import QwenVL, reopened
from reelspace.errors import ItemError
from reelspace.item import Frames, Item

COLOURS = {"a red dog": (255, 0, 0), "the blue cat": (0, 0, 255), "green": (0, 255, 0), "yellow dog": (255, 255, 0)}


def clip(colour):
    return np.full((4, 56, 56, 3), colour, dtype=np.uint8)


def test_it_encodes_what_sentence_transformers_takes(embedder):
    model = embedder.model
    pixels = clip((200, 30, 0))
    video = Frames(pixels, np.arange(4) / 2)
    queries = embedder.encode_query([Item("a dog"), Item(video=video), Item("a dog", video=video)])
    given = ["a dog", {"array": pixels, "video_metadata": {"fps": 2.0}}, {"video": pixels, "text": "a dog"}]
    for row, inputs in zip(queries, given, strict=True):
        np.testing.assert_allclose(model.encode_query([inputs])[0], row, atol=1e-6)
    np.testing.assert_allclose(model.encode_document(["a dog"]), embedder.encode_candidate([Item("a dog")]), atol=1e-6)
    asked = model.encode_query([Item("a dog")], prompt="Do this.")
    np.testing.assert_allclose(asked, embedder.encode_query([Item("a dog")], "Do this."), atol=1e-6)
    assert model.supports("video")
    assert model.get_embedding_dimension() == 64
    with pytest.raises(ItemError):
        model[0].preprocess([object()])


def test_losses_that_work_through_a_batch_in_parts_see_each_sample_whole(embedder):
    import torch
    from sentence_transformers.sentence_transformer.losses import (
        CachedMultipleNegativesRankingLoss,
        MultipleNegativesRankingLoss,
    )

    model = embedder.model
    slow, quick = (Frames(clip((200, 30, 0)), np.arange(4) * step) for step in (1.0, 0.25))
    picture = clip((0, 0, 90))[0]
    queries = [Item("a dog"), Item(video=slow), Item("green", image=picture), Item(video=quick)]
    answers = [Item(video=quick), Item("green"), Item("a cat", video=slow), Item(image=picture)]
    with torch.no_grad():
        whole, parts = (
            loss([model[0].preprocess(queries), model[0].preprocess(answers)], None).item()
            for loss in (
                MultipleNegativesRankingLoss(model),
                CachedMultipleNegativesRankingLoss(model, mini_batch_size=1),
            )
        )
    assert parts == pytest.approx(whole, abs=1e-4)


def test_it_trains_by_the_trainer_of_sentence_transformers_and_comes_back_the_same(folders, tmp_path):
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from transformers import TrainerCallback

    model = load(str(folders["qwen2_5_vl"])).model
    rows = {"query": list(COLOURS), "video": [str(number) for number in range(len(COLOURS))]}
    files = dict(zip(rows["video"], COLOURS.values(), strict=True))
    prepare = model[0].preprocess

    def opened(inputs, **options):
        """Rows of the data set are names; the frames are read when the batch is made."""
        return prepare([Item(video=Frames(clip(files[i]), np.arange(4) / 2)) if i in files else i for i in inputs])

    model[0].preprocess = opened
    losses = []

    class Heard(TrainerCallback):
        def on_log(self, args, state, control, logs=None, **more):
            losses.extend(logs[key] for key in ("loss",) if key in (logs or {}))

    trainer = SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(
            output_dir=str(tmp_path / "run"),
            max_steps=16,
            per_device_train_batch_size=4,
            learning_rate=2e-3,
            logging_steps=1,
            report_to="none",
            disable_tqdm=True,
            save_strategy="no",
            use_cpu=True,
            dataloader_pin_memory=False,
        ),
        train_dataset=Dataset.from_dict(rows),
        loss=MultipleNegativesRankingLoss(model),
        callbacks=[Heard()],
    )
    trainer.train()
    assert np.mean(losses[-3:]) < 0.6 * np.mean(losses[:3])

    del model[0].preprocess
    items = [Item("a red dog"), Item(video=Frames(clip((0, 0, 255)), np.arange(4) / 2))]
    trained = model.encode_document(items)
    model.save(str(tmp_path / "trained"))
    kinds = [module["type"] for module in json.loads((tmp_path / "trained" / "modules.json").read_text())]
    assert kinds[0] == f"{QwenVL.__module__}.QwenVL"
    again = load(str(tmp_path / "trained"))
    np.testing.assert_array_equal(again.encode_candidate(items), trained)
    np.testing.assert_array_equal(reopened(tmp_path / "trained").encode_document(items), trained)
    assert again.readout == load(str(folders["qwen2_5_vl"])).readout
    assert again.fingerprint != load(str(folders["qwen2_5_vl"])).fingerprint
