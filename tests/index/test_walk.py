import os
import unicodedata

import pytest

from reelspace.index.walk import Root


def make(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\0video")


def taken(root):
    return [os.path.relpath(found.path, root.path) for found in root.walk() if found.reason is None]


def reasons(root):
    return {os.path.relpath(found.path, root.path): found.reason for found in root.walk() if found.reason}


def test_videos_are_taken_in_order_and_all_else_has_a_reason(tmp_path):
    make(tmp_path, "b.mp4", "a.MOV", "sub/c.mkv", "sub.mp4", "notes.txt", "noextension", ".hidden.mp4", ".git/d.mp4")
    root = Root(str(tmp_path))
    assert taken(root) == ["a.MOV", "b.mp4", "sub.mp4", "sub/c.mkv"]
    assert reasons(root) == {
        "notes.txt": "no video by its name (.txt)",
        "noextension": "no video by its name (no extension)",
        ".hidden.mp4": "hidden: its name begins with a dot",
        ".git": "folder hidden: its name begins with a dot",
    }
    assert taken(Root(str(tmp_path), hidden=True)) == [
        ".hidden.mp4",
        "a.MOV",
        "b.mp4",
        "sub.mp4",
        ".git/d.mp4",
        "sub/c.mkv",
    ]


def test_include_replaces_the_extensions_and_exclude_wins(tmp_path):
    make(tmp_path, "a.mp4", "b.gif", "raw/c.gif", "raw/d.mp4")
    assert taken(Root(str(tmp_path), include=("*.gif",))) == ["b.gif", "raw/c.gif"]
    assert taken(Root(str(tmp_path), include=("*.gif",), exclude=("raw",))) == ["b.gif"]
    assert taken(Root(str(tmp_path), exclude=("raw/*.mp4",))) == ["a.mp4"]


def test_wants_agrees_with_the_walk(tmp_path):
    make(tmp_path, "a.mp4", "b.txt", ".h/c.mp4", ".d.mp4", "raw/e.mp4", "raw/f/g.mov", "i.mov/j.mp4")
    everything = [path for path in tmp_path.rglob("*") if path.is_file()]
    for options in ({}, {"hidden": True}, {"exclude": ("raw",)}, {"include": ("*.mov",)}, {"exclude": ("*.mov",)}):
        root = Root(str(tmp_path), **options)
        walked = {found.path for found in root.walk() if found.reason is None}
        assert {str(path) for path in everything if root.wants(str(path))} == walked


def test_an_explicit_file_is_always_tried(tmp_path):
    make(tmp_path, ".secret.dat")
    root = Root(str(tmp_path / ".secret.dat"))
    assert [(found.path, found.reason) for found in root.walk()] == [(root.path, None)]
    assert root.wants(root.path)


def test_link_loops_end_and_real_names_win_over_links(tmp_path):
    make(tmp_path, "z/deep/a.mp4")
    (tmp_path / "a_link").symlink_to(tmp_path / "z")
    (tmp_path / "z" / "deep" / "loop").symlink_to(tmp_path)
    (tmp_path / "self").symlink_to("self")
    root = Root(str(tmp_path))
    assert taken(root) == ["z/deep/a.mp4"]


def test_links_to_files_and_to_folders_outside_are_followed(tmp_path):
    make(tmp_path, "in/a.mp4", "out/b.mp4", "out/c.mp4")
    (tmp_path / "in" / "disk").symlink_to(tmp_path / "out")
    (tmp_path / "in" / "one.mp4").symlink_to(tmp_path / "out" / "c.mp4")
    assert taken(Root(str(tmp_path / "in"))) == ["a.mp4", "one.mp4", "disk/b.mp4", "disk/c.mp4"]


def test_dead_links_pipes_and_program_texts_are_left_out(tmp_path):
    (tmp_path / "dead.mp4").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.ts")
    (tmp_path / "code.ts").write_text("export const answer = 42;\n")
    (tmp_path / "stream.ts").write_bytes(b"G@\0\x10" + bytes(184))
    root = Root(str(tmp_path))
    assert taken(root) == ["stream.ts"]
    assert reasons(root) == {
        "dead.mp4": "a link that leads nowhere",
        "pipe.ts": "not a regular file",
        "code.ts": "a text by its first bytes, not an MPEG transport stream",
    }


def test_names_of_any_bytes_and_forms(tmp_path):
    names = [
        b"caf\xff.mp4",
        *(unicodedata.normalize(form, "é.mp4").encode() for form in ("NFC", "NFD")),
        b"new\nline.mp4",
    ]
    for name in names:
        with open(os.path.join(os.fsencode(tmp_path), name), "wb") as file:
            file.write(b"\0")
    found = [os.fsencode(os.path.basename(one.path)) for one in Root(str(tmp_path)).walk()]
    assert found == sorted(names)


def test_a_folder_that_cannot_be_read_is_reported_and_the_rest_goes_on(tmp_path, monkeypatch):
    make(tmp_path, "a/x.mp4", "b/y.mp4")
    scandir = os.scandir

    def refuse(path):
        if os.path.basename(path) == "a":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)  # the tests may run as root, whom nothing is refused
    found = list(Root(str(tmp_path)).walk())
    assert [(os.path.basename(one.path), one.unreadable) for one in found] == [("a", True), ("y.mp4", False)]
    assert "Permission denied" in found[0].reason


def test_a_cache_is_left_out_unless_it_is_the_root(tmp_path):
    make(tmp_path, "cache/CACHEDIR.TAG", "cache/a.mp4")
    assert taken(Root(str(tmp_path))) == []
    assert taken(Root(str(tmp_path / "cache"))) == ["a.mp4"]


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [({}, {}, True), ({"exclude": ("x",)}, {}, False), ({"hidden": True}, {}, False), ({}, {"include": ("*",)}, False)],
)
def test_a_root_includes_another_only_if_it_wants_the_same(tmp_path, outer, inner, expected):
    make(tmp_path, "sub/a.mp4")
    assert Root(str(tmp_path), **outer).includes(Root(str(tmp_path / "sub"), **inner)) is expected


def test_a_root_does_not_include_what_it_leaves_out(tmp_path):
    make(tmp_path, ".sub/a.mp4", "b.dat")
    root = Root(str(tmp_path))
    assert not root.includes(Root(str(tmp_path / ".sub")))
    assert not root.includes(Root(str(tmp_path / "b.dat")))
    assert root.includes(root)
