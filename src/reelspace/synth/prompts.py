"""What models are asked, and what is drawn for each call. A prompt's name and version stand in every row it made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reelspace.synth.answers import Captions, FrameCaption, FromClip, FromPicture
from reelspace.synth.config import Enrich
from reelspace.synth.mllm import Request, Show
from reelspace.synth.shards import digest
from reelspace.worlds.sample import Random, generator

SYSTEM = (
    "You describe videos for people who search for them. You say what can be seen, and nothing else. "
    "You answer with one JSON object and no other word."
)
JUDGE = "You judge whether a text is true of what you are shown. You answer with Yes or No and no other word."

DWELL = {
    "temporal": "what happens: actions and their order, ways and speeds of moving, what changes, what the camera does",
    "spatial": "what is where: places in the picture, what stands beside what, shapes, colours, materials, the setting",
    "other": "how it feels and what it is about: mood, theme, visual style",
}

_VISIBLE = """\
Rules for every text:
- Say only what the frames show. Invent no names, no speech, no thoughts, no story before or after.
- Do not say what is absent, and do not guess: leave out what you are not sure of.
- Do not speak of frames, of a video, of a caption or of yourself; describe the scene itself.
- Write in English, for readers of this education: {education}. Style of language: {readability}."""

_CAPTIONS = """\
These are frames of one video, in order, each with its time. {raw}
Write five different captions of the video. Dwell on {dwell}.

One caption of each style:
- "concise": one sentence that sums it up, of fewer than {short} words.
- "spatio-temporal": a rich description of what is where and what happens when, of more than {long} words.
- "abstract": what it amounts to, in general terms.
- "keywords": keywords separated by commas; no sentence.
- "partial": one aspect of it alone, such as its theme, its setting or one of its things.

{rules}

Answer with: {{"captions": [{{"style": "concise", "text": "…"}}, …]}}"""

_FRAME = """\
The picture is a frame at {time} s of the video whose frames follow, in order.
Write a caption of the picture, of fewer than 40 words: what it shows, and of the motion what can be seen in it, such as
what somebody is in the middle of doing or which way something is going.

{rules}

Answer with: {{"caption": "…"}}"""

_COMPOSED = """\
First you see a {what}, the REFERENCE; then frames of a video, the TARGET, in order.
Write a query for somebody who holds the reference and looks for the target.

Rules for the query:
- It needs both. Without the reference it must be too vague to find the target; without the words, the reference must
  not tell what is wanted. So do not describe the target in full: say what the reference lends and what becomes of it.
- Bind them with the words "FROM REFERENCE {word}" or "AS IN REFERENCE {word}". Never write that something is similar
  to, or like, the reference.
- Name one concrete thing that can be seen in the reference: a colour with what has it, a garment, a material, a shape.
  Repeat it as "attribute".
- Whoever or whatever acts must be able to: a person runs, a jacket does not.
- At most 40 words.{more}

{rules}

Answer with: {answer}"""

_RELATIONS = """
- Say as "relation" how the target relates to the reference: "temporal continuation" (the reference is an earlier part
  of the same course of events), "perspective variation" (the same event from elsewhere), "quality variation" (the same
  scene in other light or sharpness), "minor action variation" (the same one doing something slightly different)."""

_VERIFY = """\
Is every statement of this text true of what you see? If anything in it is wrong or cannot be seen, the answer is No.

Text: {text}

Yes or No?"""

VERSIONS = {"captions": "captions/1", "frame": "frame/1", "from_picture": "from_picture/1", "from_clip": "from_clip/1"}
VERSIONS |= {"verify": "verify/1"}


def drawn(enrich: Enrich, random: Random) -> dict[str, str]:
    """The information profile, readability and education level of a call."""
    names = sorted(enrich.profiles)
    weights = [enrich.profiles[name] for name in names]
    profile = names[int(random.choice(len(names), p=[w / sum(weights) for w in weights]))]
    readability = enrich.readability[int(random.integers(len(enrich.readability)))]
    education = enrich.education[int(random.integers(len(enrich.education)))]
    return {"profile": profile, "readability": readability, "education": education}


def seed_of(*names: object) -> int:
    """A seed of its own for everything that has a name."""
    return int(generator("synth", *names).integers(2**31))


def _rules(slots: Mapping[str, Any]) -> str:
    return _VISIBLE.format(**slots)


def captions(video: Show, raw: str, slots: Mapping[str, str], enrich: Enrich, seed: int) -> Request:
    """Asks for the five captions of a video. `raw` is the caption that it came with, or empty."""
    told = f"Somebody has written of it, perhaps wrongly: “{raw}”. Trust the frames." if raw else ""
    prompt = _CAPTIONS.format(
        raw=told, dwell=DWELL[slots["profile"]], short=enrich.short, long=enrich.long, rules=_rules(slots)
    )
    return _request("captions", prompt, (video,), {**slots, "raw": raw}, seed, Captions)


def frame(picture: Show, video: Show, slots: Mapping[str, str], seed: int) -> Request:
    """Asks for a caption of a frame that shows what it does of the motion."""
    prompt = _FRAME.format(time=f"{picture.times[0]:.2f}", rules=_rules(slots))
    return _request("frame", prompt, (picture, video), slots, seed, FrameCaption)


def composed(reference: Show, video: Show, slots: Mapping[str, str], seed: int) -> Request:
    """Asks for a query that leads from a picture or a clip to a video."""
    moving = reference.moving
    prompt = _COMPOSED.format(
        what="short clip" if moving else "picture",
        word="CLIP" if moving else "IMAGE",
        more=_RELATIONS if moving else "",
        rules=_rules(slots),
        answer='{"query": "…", "attribute": "…"' + (', "relation": "…"}' if moving else "}"),
    )
    task, schema = ("from_clip", FromClip) if moving else ("from_picture", FromPicture)
    return _request(task, prompt, (reference, video), slots, seed, schema)


def verify(shows: Sequence[Show], text: str) -> Request:
    """Asks whether a text is true of what is shown."""
    return Request(
        task="verify",
        version=VERSIONS["verify"],
        system=JUDGE,
        prompt=_VERIFY.format(text=text),
        shows=tuple(shows),
        slots={"text": text},
        choices=("Yes", "No"),
    )


def _request(
    task: str, prompt: str, shows: tuple[Show, ...], slots: Mapping[str, Any], seed: int, schema: Any
) -> Request:
    return Request(
        task=task,
        version=VERSIONS[task],
        system=SYSTEM,
        prompt=prompt,
        shows=shows,
        slots=dict(slots),
        schema=schema,
        seed=seed,
    )


def signature(request: Request) -> str:
    """A prompt's name, version, and a hash of it as it was sent: what a row keeps of it."""
    return f"{request.version}#{digest(request.system, request.prompt)[:8]}"
