import os
import sys
import textwrap

import pytest

PLUGIN = '''
"""`sketch` with video and text together: a small real embedder that takes all that a flow needs."""

import sys

sys.path.insert(0, {tests!r})
from sketch import Sketch


class Mixed(Sketch):
    modalities = Sketch.modalities | {{"video+text"}}


def load():
    return Mixed("mixed")
'''


@pytest.fixture
def mixed(tmp_path_factory, monkeypatch):
    """The model `mixed` is installed, for child processes too."""
    folder = tmp_path_factory.mktemp("mixed")
    tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    (folder / "mixed_plugin.py").write_text(textwrap.dedent(PLUGIN.format(tests=tests)))
    info = folder / "mixed_plugin-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mixed-plugin\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[reelspace.embedders]\nmixed = mixed_plugin:load\n")
    monkeypatch.syspath_prepend(str(folder))
    known = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(folder), known))))
    yield folder
    sys.modules.pop("mixed_plugin", None)


@pytest.fixture
def flow():
    """Data of a small configuration on worlds, to be changed."""
    return {
        "seed": 3,
        "shards": 2,
        "embedder": "mixed",
        "source": {"kind": "worlds", "count": 10, "profile": "easy"},
        "filter": {"consistency": -1.0},
        "mllm": {"kind": "oracle"},
        "enrich": {"short": 20, "long": 25, "consistency": -1.0},
        "extend": {"gain": -100.0},
    }
