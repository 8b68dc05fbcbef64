"""The corpus of damaged and hostile files, through the real engine: every verdict met, nothing else touched."""

import ctypes
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

import reelspace
from hostile import VERDICTS, Bait, Sources, corpus, write
from reelspace.index.catalogue import Catalogue

# Two runs, the second of which must find nothing to do. What hangs need not take a minute, and permissions must count
# although root runs the tests: the rights to pass over them are given up.
RUN = """
import ctypes, os, sys, time
from reelspace import Library
from reelspace.media.reader import Reader

for right in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    ctypes.CDLL(None).prctl(24, right, 0, 0, 0)  # PR_CAPBSET_DROP
if "again" not in sys.argv:
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:], "again"])
where, folder = sys.argv[1:3]
with Library.open(where, model="sketch") as library:
    library._reader_made = Reader(patience=20)
    first = library.index(folder, include="*", hidden=True)
    second = library.index()
    for finding in library.verify(sample=4).findings:
        if "share one vector" not in finding.what:  # most are made of one and the same clip
            print(finding, file=sys.stderr)
print(first.model_dump_json(), second.model_dump_json(), sep="\\n")
"""


class Watch:
    """Notes every file of a folder that is opened, by whom ever."""

    _OPENED = 0x20

    def __init__(self, folder):
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_NONBLOCK)
        assert libc.inotify_add_watch(self._fd, os.fsencode(folder), self._OPENED) > 0

    def opened(self):
        names, data = set(), b""
        while True:
            try:
                data += os.read(self._fd, 1 << 16)
            except BlockingIOError:
                break
        while data:
            (length,) = struct.unpack_from("I", data, 12)
            names.add(data[16 : 16 + length].rstrip(b"\0").decode())
            data = data[16 + length :]
        return names

    def close(self):
        os.close(self._fd)


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    return Sources(tmp_path_factory.mktemp("sources"))


@pytest.fixture
def bait(tmp_path, sources):
    """Private files and listening servers; whoever touches one of them is found out when the test ends."""
    folder = tmp_path / "private"
    folder.mkdir()
    (folder / "private.ts").write_bytes(sources["clip.ts"])
    (folder / "private.mp4").write_bytes(sources["plain.mp4"])
    with ExitStack() as open_here:
        watch = open_here.enter_context(closing(Watch(folder)))
        tcp = open_here.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp = open_here.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        for server in (tcp, udp):
            server.setblocking(False)
        (folder / "private.mp4").read_bytes()
        assert watch.opened() == {"private.mp4"}  # it does see
        yield Bait(folder, tcp.getsockname()[1], udp.getsockname()[1])
        assert watch.opened() == set()
        with pytest.raises(BlockingIOError):
            tcp.accept()
        with pytest.raises(BlockingIOError):
            udp.recv(1)


def index(library, folder, plugin, *around):
    source = str(Path(reelspace.__file__).parents[1])
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([source, str(plugin), str(Path(__file__).parents[1])]),
    }
    scratch = library.with_name("scratch")
    scratch.mkdir()
    environment["TMPDIR"] = str(scratch)
    command = [*around, sys.executable, "-c", RUN, str(library), str(folder)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=scratch, timeout=1500, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return map(json.loads, done.stdout.splitlines())


def verdicts(library, folder):
    """By name: state and reason of every file in the catalogue."""
    with closing(Catalogue(library / "catalogue.sqlite", create=False)) as catalogue:
        found = {path: (file.state, file.reason or "") for path, file in catalogue.files().items()}
        found |= {path: (state, reason) for path, state, reason in catalogue.problems()}
    return {os.path.relpath(path, folder): verdict for path, verdict in found.items()}


def fits(letters, found):
    state, reason = found
    return any(
        state == verdict.state and (re.search(verdict.reason, reason) if verdict.reason else not reason)
        for verdict in map(VERDICTS.__getitem__, letters)
    )


@pytest.mark.skipif(sys.platform != "linux", reason="watches by inotify")
def test_every_verdict_is_met_and_nothing_else_is_touched(tmp_path, sources, bait, plugin):
    folder = tmp_path / "corpus" / "videos"
    cases = corpus(sources, bait)
    write(cases, folder)
    before = sorted((path, path.lstat().st_mtime_ns) for path in folder.rglob("*"))
    first, second = index(tmp_path / "library", folder, plugin)
    found = verdicts(tmp_path / "library", folder)
    wrong = {
        case.name: (case.verdict, found.get(case.name, (None, "")))
        for case in cases
        if not fits(case.verdict, found.get(case.name, (None, "")))
    }
    assert wrong == {}
    assert len(cases) >= 600
    assert set(found) == {case.name for case in cases if case.verdict != "-"}
    states = [state for state, _ in found.values()]
    indexed, partial, failed = (states.count(state) for state in ("indexed", "partial", "failed"))
    assert (first["embedded"] + first["reused"], first["partial"], first["failed"]) == (
        indexed + partial,
        partial,
        failed,
    )
    assert (second["embedded"], second["unchanged"], second["failed"]) == (0, indexed + partial, failed)
    assert [problem["path"] for problem in second["problems"]] == [
        str(folder / "no files" / "locked.mp4")
    ]  # perhaps now
    reasons = [reason for state, reason in found.values() if state in ("failed", "partial")]
    assert not [reason for reason in reasons if re.search(r"Error|errno|Traceback|0x|corrupt", reason)]
    assert sorted((path, path.lstat().st_mtime_ns) for path in folder.rglob("*")) == before


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed: it sees every call to the system")
def test_no_call_to_the_system_goes_astray(tmp_path, sources, bait, plugin):
    """Not one socket is made, and no file is opened but those of the corpus, the library and the installation."""
    folder, trace, library = tmp_path / "corpus" / "videos", tmp_path / "trace", tmp_path / "library"
    write([case for case in corpus(sources, bait) if "m" not in case.verdict and "megapixels" not in case.name], folder)
    calls = "trace=open,openat,openat2,creat,socket,connect,sendto,execve"
    index(library, folder, plugin, "strace", "-f", "-qq", "--seccomp-bpf", "-e", calls, "-s", "4096", "-o", trace)
    lines = trace.read_text("utf-8", "backslashreplace").splitlines()
    assert any(str(folder) in line for line in lines)  # it does see
    assert not [line for line in lines if re.search(r"\b(socket|connect|sendto)\(", line)]
    assert {re.search(r'execve\("([^"]+)"', line)[1] for line in lines if "execve(" in line} <= {sys.executable}
    system = ("/usr/", "/lib", "/etc/", "/proc/", "/sys/", "/dev/null", "/dev/urandom", sys.prefix, sys.base_prefix)
    ours = (*system, *filter(None, sys.path), *map(str, (plugin, library, library.with_name("scratch"), folder)))
    opened = {found[1] for line in lines if (found := re.search(r'open\w*\([^"]*"([^"]*)"', line))}
    astray = {path for path in opened if path.startswith("/") and not path.startswith(ours)}
    assert astray == set()
    assert not {path for path in opened if "private" in path}
