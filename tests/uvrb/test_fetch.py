"""Fetching from a hub that speaks the real one's protocol to the real client."""

import io
import json
import tarfile
import zipfile

import pytest

pytest.importorskip("huggingface_hub")

import sketch
from reelspace.errors import ReelspaceError
from reelspace.uvrb.fetch import Fetcher, archives, belongs, notes, unpack
from reelspace.uvrb.run import Runner, Suite
from uvrb.conftest import write_task
from uvrb.hub import Hub

NAME = "someone/UVRB"


def tree(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def tarred(files, mode="w:gz"):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return made.getvalue()


@pytest.fixture
def hub(tmp_path, clips):
    """MSRVTT as a folder, VDC-O as an archive in three parts, as it unpacks: UVRB/VDC-O/…"""
    write_task(tmp_path / "hub", clips, "MSRVTT")
    write_task(tmp_path / "hub", clips, "VDC-O", deep=True)
    files = {f"MSRVTT/{name}": content for name, content in tree(tmp_path / "hub" / "MSRVTT").items()}
    packed = tarred({f"UVRB/VDC-O/{name}": content for name, content in tree(tmp_path / "hub" / "VDC-O").items()})
    third = len(packed) // 3
    for number, part in enumerate((packed[:third], packed[third : 2 * third], packed[2 * third :])):
        files[f"VDC-O.tar.gz.part{number}"] = part
    served = Hub(NAME, files | {"README.md": b"about"})
    yield served
    served.close()


@pytest.fixture
def fetcher(hub, tmp_path):
    waits = []

    def make(**options):
        made = Fetcher(tmp_path / "data", NAME, endpoint=hub.address, wait=waits.append, **options)
        made.waits = waits
        return made

    return make


def test_tasks_are_fetched_verified_unpacked_and_can_be_run(hub, fetcher, tmp_path):
    plans = fetcher().plan(["MSRVTT", "VDC-O"])
    assert [plan.size for plan in plans] == [
        sum(len(content) for name, content in hub.files.items() if name.startswith(task))
        for task in ("MSRVTT", "VDC-O")
    ]
    for plan in plans:
        fetcher().fetch(plan)
    assert tree(tmp_path / "data" / "VDC-O" / "UVRB" / "VDC-O") == tree(tmp_path / "hub" / "VDC-O")
    made = Runner(sketch.load(), Suite("uvrb", "MSRVTT,VDC-O", tmp_path / "data"), tmp_path / "cache")
    assert made.run(tmp_path / "out").results.scores == {"MSRVTT": 1.0, "VDC-O": 1.0}


def test_what_is_there_is_not_asked_for_again(hub, fetcher):
    for plan in fetcher().plan(["MSRVTT"]):
        fetcher().fetch(plan)
    hub.close()
    (plan,) = fetcher().plan(["MSRVTT"])
    assert (plan.commit, plan.size) == ("", 0)
    assert fetcher().fetch(plan).name == "MSRVTT"


def test_a_transfer_that_breaks_off_goes_on(hub, fetcher, tmp_path):
    name = "MSRVTT/videos/red.mp4"
    hub.files[name] = bytes(range(256)) * 50_000
    hub.cut[name] = 12_000_000
    (plan,) = fetcher().plan(["MSRVTT"])
    fetcher().fetch(plan)
    assert (tmp_path / "data" / name).read_bytes() == hub.files[name]
    spans = [span for file, span in hub.transfers() if file == "red.mp4"]
    assert spans[0] is None
    assert "bytes=10485760-" in spans[1:], spans  # the client keeps what came in whole chunks of 10 MiB


def test_a_hub_that_is_busy_is_asked_again(hub, fetcher):
    made = fetcher()
    hub.refuse = 2
    assert made.plan(["MSRVTT"])[0].size > 0
    hub.refuse = 10_000
    with pytest.raises(ReelspaceError, match="in 5 tries"):
        made.plan(["VDC-O"])
    assert made.waits[-4:] == [1.0, 2.0, 4.0, 8.0]


def test_a_file_that_comes_out_wrong_is_fetched_again_and_never_kept(hub, fetcher, tmp_path):
    made = fetcher()
    (plan,) = made.plan(["MSRVTT"])
    name = "MSRVTT/videos/red.mp4"
    hub.files[name] = b"x" * len(hub.files[name])  # other content than was listed
    with pytest.raises(ReelspaceError, match=r"red\.mp4: does not have the content"):
        made.fetch(plan)
    assert not (tmp_path / "data" / name).exists()


def test_a_changed_file_is_fetched_again(hub, fetcher, tmp_path):
    for plan in fetcher().plan(["MSRVTT"]):
        fetcher().fetch(plan)
    path = tmp_path / "data" / "MSRVTT" / "videos" / "red.mp4"
    path.write_bytes(b"overwritten")
    (plan,) = fetcher().plan(["MSRVTT"])
    assert [file.name for file in plan.missing] == ["MSRVTT/videos/red.mp4"]
    fetcher().fetch(plan)
    assert path.read_bytes() == hub.files["MSRVTT/videos/red.mp4"]


def test_what_cannot_be_is_said(hub, fetcher, tmp_path, monkeypatch):
    with pytest.raises(ReelspaceError, match="no files of CRB-G"):
        fetcher().plan(["CRB-G"])
    (plan,) = fetcher().plan(["MSRVTT"])
    monkeypatch.setattr("shutil.disk_usage", lambda folder: type("Usage", (), {"free": 10})())
    with pytest.raises(ReelspaceError, match="GB free"):
        fetcher().fetch(plan)
    monkeypatch.undo()
    fetcher().fetch(plan)
    with pytest.raises(ReelspaceError, match="holds data of"):
        Fetcher(tmp_path / "data", "other/UVRB")


@pytest.mark.parametrize("name", ["../out.txt", "/tmp/out.txt"])
@pytest.mark.parametrize("kind", ["x.tar", "x.zip"])
def test_nothing_is_unpacked_elsewhere(name, kind, tmp_path):
    made = io.BytesIO()
    if kind == "x.zip":
        with zipfile.ZipFile(made, "w") as archive:
            archive.writestr(name, "x")
    else:
        made.write(tarred({name: b"x"}, "w"))
    made.seek(0)
    if kind == "x.tar" and name.startswith("/"):  # tar's filter takes the leading slash away
        unpack(made, kind, tmp_path / "in")
        assert [path.name for path in (tmp_path / "in").rglob("*.txt")] == ["out.txt"]
        return
    with pytest.raises(ReelspaceError):
        unpack(made, kind, tmp_path / "in")
    assert not (tmp_path / "out.txt").exists()


def test_what_belongs_to_a_task():
    names = [
        "MSRVTT/jsonl/queries.jsonl",
        "MSRVTT-I2V.tar.gz",
        "VDC-O.tar.part0",
        "UVRB/VDC-O/videos/a.mp4",
        "README.md",
    ]
    assert [name for name in names if belongs(name, "MSRVTT")] == names[:1]
    assert [name for name in names if belongs(name, "MSRVTT-I2V")] == names[1:2]
    assert [name for name in names if belongs(name, "VDC-O")] == names[2:4]
    assert archives(["b.zip", "a.tar.01", "a.tar.00", "a.mp4"]) == {
        "a.tar": ["a.tar.00", "a.tar.01"],
        "b.zip": ["b.zip"],
    }


def test_licences_are_told():
    assert len(notes(["MSRVTT"])) == 1
    assert "not be passed on" in notes(["LoVR-V"])[1]


def test_the_record_is_plain(hub, fetcher, tmp_path):
    for plan in fetcher().plan(["MSRVTT"]):
        fetcher().fetch(plan)
    record = json.loads((tmp_path / "data" / "fetched.json").read_text())
    assert record["tasks"]["MSRVTT"]["commit"] == hub.commit
