from html.parser import HTMLParser

import pytest

from reelspace.errors import ReelspaceError
from reelspace.synth import audit, schema
from reelspace.synth.config import Config
from reelspace.synth.run import run


class Page(HTMLParser):
    """Counts what is in a page, and checks that its tags match."""

    VOID = ("meta", "img")

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.loaded, self.text = [], [], [], ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.loaded += [value for name, value in attributes if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_the_page_shows_samples_and_the_funnel_and_loads_nothing(tmp_path, mixed, flow):
    flow["source"] |= {"junk": 0.2, "still": 0.2}
    flow["mllm"] |= {"invented": 0.4}
    flow["name"] = "<script>alert(1)</script>"
    out = tmp_path / "set"
    run(Config.model_validate(flow), out)
    page = Page(audit.page(out, each=2))
    assert all(value.startswith(("data:image/jpeg;base64,", "#")) for value in page.loaded)
    assert not {"script", "link", "iframe"} & {tag for tag, _ in page.tags}
    assert "<script>alert(1)</script>" in page.text
    kept = [attributes for tag, attributes in page.tags if attributes.get("class") == "card"]
    lost = [attributes for tag, attributes in page.tags if attributes.get("class") == "card lost"]
    assert len(kept) == sum(min(2, len(list(schema.rows(out, task)))) for task in schema.TASKS)
    reasons = {(r.stage, r.block, r.reason) for r in schema.rejections(out)}
    assert ("enrich", "verify", "judged false") in reasons
    assert len(reasons) <= len(lost) <= 2 * len(reasons)
    assert all(f"{stage} / {block}: {reason}" in page.text for stage, block, reason in reasons)
    assert "judged false" in page.text.split("Rows")[0]  # the funnel says why
    assert audit.page(out, each=2) == audit.page(out, each=2)


def test_a_text_that_has_no_picture_of_its_own_is_shown_beside_its_video(tmp_path, mixed, flow):
    flow["extend"] = {"gain": 100.0}
    out = tmp_path / "set"
    run(Config.model_validate(flow), out)
    videos = audit._videos(out)
    told = list(schema.rows(out, "T2T"))
    turned = [found for found in schema.rejections(out) if found.block == "necessary"]
    assert told and turned
    assert set(videos) >= {row.provenance.source for row in told} | {found.id for found in turned}
    page = audit.page(out)
    for part, samples in (("<h3>T2T</h3>", told), ("<h3>extend / necessary", turned)):
        section = page.split(part)[1].split("<h3>")[0]
        assert section.count("<img") >= audit.FRAMES * min(6, len(samples))


def test_a_video_that_is_gone_is_a_note_on_the_page(tmp_path, mixed, flow):
    out = tmp_path / "set"
    run(Config.model_validate(flow), out)
    for path in (out / "videos").glob("*.mp4"):
        path.unlink()
    page = Page(audit.page(out))
    assert ".mp4" in page.text and "img" not in [tag for tag, _ in page.tags]


def test_there_is_nothing_to_show_of_what_is_not_finished(tmp_path):
    with pytest.raises(ReelspaceError, match="no finished set"):
        audit.page(tmp_path)
