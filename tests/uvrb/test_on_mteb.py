"""The same tasks through mteb's own evaluator, and mteb's own mock tasks through our embedders."""

import json
import shutil

import numpy as np
import pytest

pytest.importorskip("mteb")

import mteb
from mteb.mocks import mock_tasks
from mteb.results import TaskResult

import sketch
from reelspace.embed import load
from reelspace.errors import ModelError
from reelspace.item import Item
from reelspace.uvrb.adapters import MtebEmbedder
from reelspace.uvrb.models import open_model
from reelspace.uvrb.on_mteb import ReelspaceEncoder, benchmark, task
from reelspace.uvrb.protocol import PAPER, Protocol
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


def test_a_multimodal_sentence_transformers_model_runs(tiny, data, tmp_path):
    """It is given our frames; the scores are those of its own embedder."""
    tiny.model.save(str(tmp_path / "model"))
    theirs = open_model(f"st:{tmp_path / 'model'}", Protocol(frames=str(tiny.sampling.policy)))
    theirs.__dict__["model"] = tiny.model  # sentence-transformers runs no code of a folder, so not our module's
    assert theirs.name.startswith("st:") and theirs.modalities == tiny.modalities
    scores = [
        Runner(model, Suite("uvrb", OURS, data), tmp_path / "cache").run(tmp_path / out).results.scores
        for model, out in ((theirs, "theirs"), (tiny, "ours"))
    ]
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)
    assert scores[0].keys() == set(OURS.split(","))
    with pytest.raises(ModelError, match="no budget of tokens"):
        open_model(f"st:{tmp_path / 'model'}", Protocol(tokens=200))


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
def static(tmp_path_factory):
    """A real sentence-transformers model, of a dozen words: the folders of one without prompts and one with."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {word: at for at, word in enumerate(["[UNK]", *sketch.COLOURS, "find", "it"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    folder = tmp_path_factory.mktemp("static")
    for name, prompts in (("plain", {}), ("prompted", {"query": "find "})):
        weights = np.random.default_rng(0).standard_normal((len(words), 16)).astype(np.float32)
        modules = [StaticEmbedding(tokenizer, embedding_weights=weights), Dense(16, 8)]
        SentenceTransformer(modules=modules, device="cpu", prompts=prompts).save(str(folder / name))
    return folder


def test_a_sentence_transformers_model_is_an_embedder(static, data, tmp_path):
    embedder = open_model(f"st:{static / 'plain'}")
    assert embedder.modalities == {"text"}
    found = embedder.encode_query([Item(text="red"), Item(text="blue")], "find it ")
    assert found.shape == (2, embedder.dim)
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    assert (found == embedder.encode_candidate([Item(text="red"), Item(text="blue")])).all()  # it follows none
    told = open_model(f"st:{static / 'prompted'}")
    assert abs(told.encode_query([Item(text="red")], "find it ") - found[0]).max() > 0.01
    outcome = Runner(embedder, Suite("uvrb", "MSRVTT", data), tmp_path / "cache").run(tmp_path / "out")
    assert {one.side for one in outcome.failures} == {"candidate"}  # it takes no videos, and says so
    assert len(outcome.failures) == 6


def test_other_weights_of_a_module_have_another_fingerprint(static, tmp_path):
    from safetensors.numpy import load_file, save_file

    copy = tmp_path / "copy"
    shutil.copytree(static / "plain", copy)
    name = f"st:{copy}"
    before = open_model(name).fingerprint
    assert before == open_model(name).fingerprint == open_model(f"st:{static / 'plain'}").fingerprint
    files = sorted(copy.rglob("*.safetensors"))
    assert [file.parent == copy for file in files] == [False, True]  # a module's weights lie in its own folder
    for file in files:
        kept = load_file(file)
        save_file({key: value + 1e-3 for key, value in kept.items()}, file)
        assert open_model(name).fingerprint != before
        save_file(kept, file)
