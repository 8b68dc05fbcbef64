"""What code can judge of a generated text. Each rule is a name, and what breaks it; all of them can be seen here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from reelspace.synth import texts
from reelspace.synth.answers import STYLES, Captions, FromPicture
from reelspace.synth.config import Enrich
from reelspace.synth.filter import RULES as JUNK

Broken = tuple[str, str]
"""A rule's name, and what in the text broke it."""

_ACTS = (
    r"(?:run|walk|jump|danc|danc|sit|stand|swim|climb|throw|kick|speak|talk|laugh|smil|wav|cook|eat|play|sing|ski)\w*"
)
_GARMENTS = (
    r"(?:jacket|hat|shirt|dress|scarf|coat|shoe|glove|helmet|ponytail|hair|cap|skirt|trousers|jeans|sweater|bag)s?"
)

# Of every text. In the order in which they are looked at.
RULES: dict[str, re.Pattern[str]] = {
    "absence": re.compile(
        r"\b(there (is|are|was|were) no(t|body|thing|one)?|without (any|an?)\b|no (one|other|visible|sign|people|person"
        r"|sound|text|background|movement|further)\b|(is|are) (not|n't) (visible|shown|seen|present|clear)|absence of"
        r"|isn't|aren't|cannot be seen|can't be seen|not visible|nothing else is|unseen|out of sight|off[- ]?screen)",
        re.I,
    ),
    "dialogue": re.compile(
        r"[“\"][^”\"]{2,}[”\"]|\b(says?|said|asks?|asked|replies|replied|shouts?|tells? (him|her|them|the)|exclaims?"
        r"|whispers?|announces?|explains? that|conversation about|dialogue)\b",
        re.I,
    ),
    "speculation": re.compile(
        r"\b(perhaps|maybe|probably|possibly|presumably|apparently|likely|might|could be|may (be|have)|seems? to"
        r"|appears? to be|appears? as (if|though)|as if|as though|suggest(s|ing)? that|impl(y|ies|ying)|one can imagine"
        r"|must have|would have|I think|it is unclear|unknown)\b",
        re.I,
    ),
    "backstory": re.compile(
        r"\b(used to|once upon|years? ago|long ago|childhood|remember(s|ing)?|grew up|has always|had been|dreams? of"
        r"|after a long day|on (his|her|their) way (home|to work)|was born|decided to|in the past|later that"
        r"|will (soon|later|eventually)|hopes? to|plans? to|wants? to|wonders?|thinks? (about|of|that)|feels? that)\b",
        re.I,
    ),
    "meta": re.compile(
        r"\b(as an AI|language model|I('m| am) (sorry|unable)|I can(not|'t)|the (caption|prompt)\b|in (this|the)"
        r" (video|clip|footage|image)|(the|this|these) (video|clip|footage|image|frames?) (shows?|depicts?|begins?"
        r"|captures?|features?|opens?|ends?|is|are)|JSON|schema|placeholder|lorem ipsum|watermark)",
        re.I,
    ),
}
_BINDING = re.compile(
    r"\b(from|as in|as seen in|as shown in) (the )?reference( (image|picture|frame|clip|video))?\b", re.I
)
_LIKENESS = re.compile(
    r"\b(similar(ly)?( to| as)?|resembl\w+|like (the|in|that|those)( \w+)* reference|same (kind|type|sort) (of|as)"
    r"|comparable|reminiscent|alike)\b",
    re.I,
)
_INCOHERENT = re.compile(
    # a clause that begins with a garment: no “wearing”, “with” … between the article and it
    r"(?:^|[.;,]\s*)(?:the|an?|his|her|their)\s+(?:(?!wearing\b|with\b|in\b|whose\b|and\b|of\b)\w+\s+){0,2}"
    rf"{_GARMENTS}\s+(?:(?:from|as in) (?:the )?reference(?: \w+)?,?\s+)?"
    rf"(?:is|are|now|starts?|begins?|keeps?)\s+(?:now\s+|to\s+)?{_ACTS}\b",
    re.I,
)
_VAGUE = {"thing", "object", "item", "subject", "person", "man", "woman", "it", "one", "scene", "video", "something"}


def broken(text: str) -> Broken | None:
    """The first rule that any generated text breaks, or `None`."""
    for name, rule in {**JUNK, **RULES}.items():
        if match := rule.search(text):
            return name, match[0].strip()
    found = texts.words(text)
    if not found:
        return "empty", text[:40]
    if "{" in text or ("…" in text and len(found) < 4):
        return "placeholder", text[:40]
    if looped := _looped(found):
        return "repetition", looped
    return None


def _looped(found: Sequence[str], length: int = 6) -> str:
    """A run of words that comes three times: what a model does that cannot stop."""
    seen: dict[tuple[str, ...], int] = {}
    for k in range(len(found) - length + 1):
        run = tuple(found[k : k + length])
        seen[run] = seen.get(run, 0) + 1
        if seen[run] >= 3:
            return " ".join(run)
    for k in range(len(found) - 3):
        if len(set(found[k : k + 4])) == 1:
            return " ".join(found[k : k + 4])
    return ""


def broken_set(answer: Captions, enrich: Enrich) -> Broken | None:
    """The first rule that five captions break together, or `None`: the styles, the lengths, no two alike."""
    styles = sorted(caption.style for caption in answer.captions)
    if styles != sorted(STYLES):
        return "styles", ", ".join(styles)
    lengths = {caption.style: len(texts.words(caption.text)) for caption in answer.captions}
    if min(lengths.values()) >= enrich.short:
        return "no short caption", f"the shortest has {min(lengths.values())} words"
    if max(lengths.values()) <= enrich.long:
        return "no long caption", f"the longest has {max(lengths.values())} words"
    plain = [texts.plain(caption.text) for caption in answer.captions]
    if len(set(plain)) < len(plain):
        return "captions alike", next(text for text in plain if plain.count(text) > 1)
    return None


def broken_caption(style: str, text: str, enrich: Enrich) -> Broken | None:
    """The first rule that a caption of that style breaks, or `None`."""
    if found := broken(text):
        return found
    count = len(texts.words(text))
    if style == "concise" and count >= enrich.short:
        return "not concise", f"{count} words"
    if style == "keywords" and ("," not in text or re.search(r"[.!?]\s+\w", text)):
        return "no keywords", text[:80]
    return None


def broken_query(answer: FromPicture, known: Iterable[str] = ()) -> Broken | None:
    """The first rule that a composed query breaks, or `None`.

    Args:
        known: captions of the target: a query that is one of them needs no reference.
    """
    text = answer.query
    if match := _LIKENESS.search(text):
        return "likeness", match[0]
    if not _BINDING.search(text):
        return "no binding", text[:80]
    if found := broken(_BINDING.sub(" ", text)):
        return found
    if match := _INCOHERENT.search(text):
        return "incoherent", match[0].strip()
    named = [word for word in texts.words(answer.attribute) if word not in _VAGUE]
    said = set(texts.words(text))
    if not named:
        return "vague attribute", answer.attribute
    if not all(word in said for word in named):
        return "attribute not in query", answer.attribute
    if len(texts.words(text)) > 60:
        return "too long", f"{len(texts.words(text))} words"
    bare = texts.runs(_BINDING.sub(" ", text))
    if any(texts.likeness(bare, texts.runs(caption)) > 0.8 for caption in known):
        return "a caption of the target", text[:80]
    return None
