"""What trains on the stages of a flow: the pairs before, between and after them, read as they lie there."""

import runpy
import tomllib
from pathlib import Path

import pytest

from reelspace.errors import ReelspaceError
from reelspace.synth.config import Config
from reelspace.synth.run import Job
from reelspace.synth.source import truths
from reelspace.train.mixture import Mixture, MixtureConfig
from reelspace.train.rows import Rows, letters

RECIPE = Path(__file__).parents[2] / "recipes" / "pyramid-ablation"
FORMATS = {"T2T": "T>T", "T2I": "T>I", "T2V": "T>V", "TI2V": "TI>V", "TV2V": "TV>V", "I2V": "I>V", "V2V": "V>V"}


def test_every_arm_reads_the_rows_of_its_stage(flow, mixed, tmp_path):
    made = runpy.run_path(str(RECIPE / "run.py"))
    told = tomllib.loads((RECIPE / "stages.toml").read_text("utf-8"))
    flow["source"] |= {"wrong": 0.2, "junk": 0.2}
    told["synth"] = flow
    with pytest.raises(ReelspaceError, match="not done"):
        Job(Config.model_validate(flow), tmp_path / "uvrd").passed("select")
    made["synthesised"](told, tmp_path)
    known = truths(tmp_path / "uvrd.run")
    raw, filtered, enriched = (Rows(tmp_path / f"{stage}.jsonl") for stage in ("raw", "filtered", "enriched"))
    assert len(raw) == 10
    assert {row.query.text for row in raw} == {pair.text for pair in known.values()}
    junk = [pair.text for pair in known.values() if pair.fault == "junk"]
    assert junk
    assert {row.query.text for row in filtered} <= {row.query.text for row in raw} - set(junk)
    assert len(filtered) < len(enriched) <= 5 * len(filtered)
    assert (tmp_path / filtered[0].candidate.clip.path).is_file()
    for task in made["every"](told).values():
        task |= {"batch": 2, "rows": 4}
    for name, arm in told["arms"].items():
        tasks = Mixture(MixtureConfig(tasks=made["mixture"](told, arm, 1.0)), tmp_path).tasks
        assert sum(task.batches for task in tasks) == pytest.approx(told["batches"], abs=1)
        for task in tasks:
            row = task.read([0])[0]
            wanted = FORMATS[task.name.removeprefix("UVRD-")] if name == "extended" else "T>V"
            assert f"{letters(row.query)}>{letters(row.candidate)}" == wanted
            assert task.rows.item(row.candidate).modality == {"V": "video", "I": "image", "T": "text"}[wanted[-1]]
