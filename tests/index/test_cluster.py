"""Shards on a Ray cluster, which is started for it on this machine."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import reelspace
import sketch
from conftest import whole_content
from reelspace.errors import LibraryError

# Ray leaves sockets and threads to the end of the process: one of its own. It says what it thinks of the machine.
RUN = """
import sys
from reelspace import Library
from reelspace.errors import LibraryError

where, folder = sys.argv[1:]
with Library.open(where, model="sketch") as library:
    seen = []
    report = library.index(folder, jobs=2, ray="local", progress=seen.append)
    print(report.embedded, report.reused, report.failed, report.windows)
    print(library.index(ray="local").unchanged)
    try:
        library.index(folder, model="unknown", jobs=2, ray="local")
    except LibraryError as error:
        print(error)
    except Exception as error:
        print(type(error).__name__)
"""


@pytest.mark.slow  # a cluster takes many seconds to start
@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
def test_a_cluster_makes_what_one_run_makes(library, folder, plugin, tmp_path):
    (folder / "copy.mp4").write_bytes((folder / "red.mp4").read_bytes())
    (folder / "junk.mp4").write_bytes(b"junk")
    report = library.index(folder)
    source = [Path(reelspace.__file__).parents[1], plugin, Path(sketch.__file__).parent]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, source)), "RAY_DEDUP_LOGS": "0"}
    command = [sys.executable, "-c", RUN, str(tmp_path / "sharded"), str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines == [f"{report.embedded} {report.reused} {report.failed} {report.windows}", "7", "ModelError"]
    assert whole_content(tmp_path / "sharded") == whole_content(library.path)
    assert not list((tmp_path / "sharded" / "shards").glob("*-of-*/"))


def test_without_ray_it_says_what_to_install(library, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(LibraryError, match=r'pip install "reelspace\[ray\]"'):
        library.index(folder, ray="auto")
    assert library.status().indexed == 0
