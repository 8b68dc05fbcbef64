"""The same tasks through mteb's own evaluator, and mteb's own mock tasks through our embedders."""

import json

import numpy as np
import pytest

pytest.importorskip("mteb")

import mteb
from mteb.mocks import mock_tasks
from mteb.results import TaskResult

import sketch
from reelspace.embed import load
from reelspace.item import Item
from reelspace.uvrb.adapters import MtebEmbedder, SentenceEmbedder
from reelspace.uvrb.on_mteb import ReelspaceEncoder, benchmark, task
from reelspace.uvrb.protocol import PAPER
from reelspace.uvrb.run import Runner, Suite
from reelspace.uvrb.tasks import suite
from uvrb.conftest import write_task
from uvrb.test_run import Watched

OURS = "MSRVTT,VDC-O,MS-TI,MSRVTT-I2V"


def evaluated(model, tasks):
    return mteb.evaluate(model, tasks, cache=None, encode_kwargs={"batch_size": 4}, show_progress_bar=False)


def test_mteb_gives_the_scores_that_we_give(data, clips, tmp_path):
    for name in ("red", "green"):  # something to get wrong, and a tie
        (data / "MSRVTT" / "videos" / f"{name}.mp4").write_bytes((clips / "yellow.mp4").read_bytes())
    chosen = Suite("uvrb", OURS, data)
    ours = Runner(sketch.load(), chosen, tmp_path / "cache").run(tmp_path / "out").results
    theirs = evaluated(ReelspaceEncoder(sketch.load(), protocol=PAPER), benchmark(chosen, tmp_path / "cache").tasks)
    found = {one.task_name: one.get_score() for one in theirs}
    assert found == {f"UVRB-{name}": pytest.approx(score, abs=1e-5) for name, score in ours.scores.items()}  # rounded
    assert 0 < ours.scores["MSRVTT"] < 1
    shared = ("recall_at_5", "recall_at_10", "precision_at_1", "ndcg_at_10", "mrr_at_10", "map_at_10")
    for one in theirs:
        written = json.loads((tmp_path / "out" / "tasks" / f"{one.task_name[5:]}.json").read_text())["scores"]["test"][
            0
        ]
        for name in shared:
            assert one.scores["test"][0][name] == pytest.approx(written[name], abs=1e-5), (one.task_name, name)


def test_every_tasks_instruction_arrives_through_mteb(clips, tmp_path):
    for name, facts in suite("uvrb").items():
        write_task(tmp_path, clips, name, ("red", "blue", "green"))
        embedder = Watched("video+text")
        evaluated(ReelspaceEncoder(embedder), [task(Suite("uvrb", name, tmp_path), facts)])
        assert embedder.instructions == {facts.instruction}


def test_the_suite_is_a_benchmark(data):
    made = benchmark(Suite("uvrb", "all", data))
    assert (made.name, len(made.tasks)) == ("UVRB", 16)
    facts = {f"UVRB-{facts.name}": facts for facts in suite("uvrb").values()}
    for one in made.tasks:
        assert one.metadata.prompt == {"query": facts[one.metadata.name].instruction}
        assert one.metadata.main_score == facts[one.metadata.name].metric.replace("@", "_at_")


def test_mteb_reads_our_files(data, tmp_path):
    Runner(sketch.load(), Suite("uvrb", "MSRVTT", data), tmp_path / "cache").run(tmp_path / "out")
    result = TaskResult.from_disk(tmp_path / "out" / "tasks" / "MSRVTT.json")
    assert (result.task_name, result.get_score()) == ("UVRB-MSRVTT", 1.0)


MOCKS = [
    mock_tasks.MockRetrievalTask,
    mock_tasks.MockInstructionRetrieval,
    mock_tasks.MockRerankingTask,
    mock_tasks.MockAny2AnyRetrievalI2TTask,
    mock_tasks.MockAny2AnyRetrievalT2ITask,
    mock_tasks.MockMultiChoiceTask,  # a picture and a question → pictures
    mock_tasks.MockVideoRetrievalV2T,
    mock_tasks.MockVideoRetrievalT2V,
]
"""Every kind of retrieval that mteb has a mock of without sound."""


@pytest.fixture(scope="module")
def tiny():
    return load("tiny")


@pytest.mark.parametrize("name", ["lite", "tiny"])
@pytest.mark.parametrize("mock", MOCKS, ids=lambda mock: mock.__name__)
def test_our_embedders_pass_mtebs_mock_tasks(mock, name, tiny):
    (result,) = evaluated(ReelspaceEncoder(tiny if name == "tiny" else load("lite")), [mock()])
    assert 0 <= result.get_score() <= 1


def test_a_multimodal_sentence_transformers_model_is_an_embedder(tiny, clips):
    """It takes our frames, in the order of parts that it was made with: the vectors are those of its own embedder."""
    embedder = SentenceEmbedder(tiny.model, "st:tiny", frames=tiny.sampling.policy)
    assert embedder.modalities >= {"text", "image", "video", "image+text", "video+text"}
    picture = np.full((40, 40, 3), 70, np.uint8)
    items = [
        Item("red"),
        Item(video=clips / "red.mp4"),
        Item(image=picture),
        Item("blue", video=clips / "red.mp4"),
        Item("blue", image=picture),
    ]
    ours = tiny.encode_candidate(items)
    assert abs(embedder.encode_candidate(items) - ours).max() < 1e-5
    assert abs(ours[3] - ours[1]).max() > 1e-2


def test_a_model_of_mtebs_is_an_embedder(clips):
    """There and back: what it is given, and the instruction, are what they were."""
    embedder = Watched()
    there = MtebEmbedder(ReelspaceEncoder(embedder), "mteb:sketch")
    items = [
        Item(text="red"),
        Item(video=clips / "red.mp4"),
        Item(text="blue", image=np.full((9, 9, 3), 70, np.uint8)),
        Item(video=clips / "blue.mp4"),
    ]
    expected = [sketch.load().encode_candidate([one])[0] for one in map(shown, items)]
    found = there.encode_query(items, "Find it.")
    assert abs(found - np.stack(expected)).max() < 1e-6
    assert embedder.instructions == {"Find it."}
    assert there.dim == sketch.Sketch.dim
    assert there.fingerprint != MtebEmbedder(ReelspaceEncoder(embedder), "mteb:sketch").fingerprint  # weights unknown


def shown(item):
    from reelspace.media.decode import sample

    return item if item.video is None else Item(item.text, item.image, sample(item.video, sketch.Sketch.sampling))


@pytest.fixture(scope="module")
def static():
    """A real sentence-transformers model, of a dozen words."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {word: at for at, word in enumerate(["[UNK]", *sketch.COLOURS, "find", "it"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    weights = np.random.default_rng(0).standard_normal((len(words), 16)).astype(np.float32)
    return SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=weights)], device="cpu")


def test_a_sentence_transformers_model_is_an_embedder(static, data, tmp_path):
    embedder = SentenceEmbedder(static, "st:static")
    assert embedder.modalities == {"text"}
    found = embedder.encode_query([Item(text="red"), Item(text="blue")], "find it ")
    assert found.shape == (2, embedder.dim)
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    assert (found == embedder.encode_candidate([Item(text="red"), Item(text="blue")])).all()  # it follows none
    told = SentenceEmbedder(static, "st:static", instructed=True)
    assert abs(told.encode_query([Item(text="red")], "find it ") - found[0]).max() > 0.01
    assert told.fingerprint != embedder.fingerprint
    outcome = Runner(embedder, Suite("uvrb", "MSRVTT", data), tmp_path / "cache").run(tmp_path / "out")
    assert {one.side for one in outcome.failures} == {"candidate"}  # it takes no videos, and says so
    assert len(outcome.failures) == 6


def test_other_weights_have_another_fingerprint(static):
    before = SentenceEmbedder(static, "st:static").fingerprint
    weight = next(iter(static.parameters()))
    with pytest.MonkeyPatch.context() as patch:
        kept = weight.data.clone()
        patch.setattr(weight, "data", kept + 1e-3)
        assert SentenceEmbedder(static, "st:static").fingerprint != before
    assert SentenceEmbedder(static, "st:static").fingerprint == before
