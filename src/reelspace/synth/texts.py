"""What can be said of a text by looking at it: its words, its script, its language, its likeness to another."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

_WORD = re.compile(r"[^\W_]+(?:['’\-][^\W_]+)*")
_PERMUTATIONS, _BANDS = 64, 16  # 16 bands of 4: texts that share 60 % of their runs meet nearly always
_FACTORS = np.random.default_rng(0).integers(1, 2**63, _PERMUTATIONS, dtype=np.uint64) | np.uint64(1)
_SMALL = """
en: the a an of in on and is are to with while at by from for its it there
de: der die das ein eine und ist sind mit auf im in von zu den dem nicht sich
fr: le la les un une et est sont avec dans sur des du de au pour qui
es: el la los las un una y es son con en de del por que para se
it: il la le un una e è sono con in di del della che per si nel
pt: o a os as um uma e é são com em de do da que por para no
nl: de het een en is zijn met op in van te dat die voor aan niet
"""
_STOP = {code: set(line.split()) for code, _, line in (row.partition(":") for row in _SMALL.strip().splitlines())}
_ONE_SCRIPT = {
    **{"Hangul": "ko", "Hiragana": "ja", "Katakana": "ja", "Han": "zh", "Greek": "el", "Hebrew": "he"},
    **{"Arabic": "ar", "Thai": "th", "Devanagari": "hi"},
}


def words(text: str) -> list[str]:
    """Its words, in small letters. Every Chinese or Japanese character counts as one."""
    found: list[str] = []
    for word in _WORD.findall(text.lower()):
        if any(_script_of(letter) in ("Han", "Hiragana", "Katakana") for letter in word):
            found += word
        else:
            found.append(word)
    return found


def plain(text: str) -> str:
    """Its words alone: texts that differ in case, spaces or punctuation become the same."""
    return " ".join(words(unicodedata.normalize("NFKC", text)))


def script(text: str) -> str:
    """The script that most of its letters are of, as Unicode names it (`Latin`, `Han` …); empty without letters."""
    found = Counter(_script_of(letter) for letter in text if letter.isalpha())
    return min(found, key=lambda name: (-found[name], name)) if found else ""


def _script_of(letter: str) -> str:
    name = unicodedata.name(letter, "").split(" ")[0]
    return "Han" if name == "CJK" else name.capitalize()


def language(text: str) -> str:
    """A guess at its language (ISO 639-1) by its script and its small words; `und` where nothing tells."""
    written = script(text)
    if written != "Latin":
        kana = any(_script_of(letter) in ("Hiragana", "Katakana") for letter in text)
        return "ja" if kana else _ONE_SCRIPT.get(written, "und")
    there = Counter(words(text))
    votes = {code: sum(there[word] for word in stop) for code, stop in _STOP.items()}
    best = max(votes, key=lambda code: (votes[code], code))
    others = max((vote for code, vote in votes.items() if code != best), default=0)
    return best if votes[best] > others else "und"


def runs(text: str, length: int = 3) -> frozenset[str]:
    """Its runs of three words; of a shorter text, all of it."""
    found = words(text)
    return frozenset(" ".join(found[k : k + length]) for k in range(max(1, len(found) - length + 1)))


def likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """Share of their runs that two texts have in common (Jaccard)."""
    return len(one & other) / max(len(one | other), 1)


def near_pairs(texts: Sequence[str], least: float) -> Iterator[tuple[int, int]]:
    """Positions `(i, j)`, i < j, of texts that are alike by at least `least`: found by min-hashing, then compared."""
    every = [runs(text) for text in texts]
    met: set[tuple[int, int]] = set()
    for members in _bands(every):
        for k, j in enumerate(members):
            # Against the first few of the band: whoever is like many is like one of them.
            met |= {(i, j) for i in members[: min(k, 8)]}
    for i, j in sorted(met):
        if likeness(every[i], every[j]) >= least:
            yield i, j


def _bands(every: Sequence[frozenset[str]]) -> Iterator[list[int]]:
    """Texts that have a band of their min-hash in common, each list ascending."""
    buckets: dict[tuple[int, tuple[int, ...]], list[int]] = defaultdict(list)
    width = _PERMUTATIONS // _BANDS
    for position, found in enumerate(every):
        signature = _minhash(found)
        for band in range(_BANDS):
            buckets[band, tuple(signature[band * width : (band + 1) * width])].append(position)
    yield from (members for members in buckets.values() if len(members) > 1)


def _minhash(found: frozenset[str]) -> list[int]:
    hashes = np.asarray(
        [int.from_bytes(hashlib.blake2b(run.encode(), digest_size=8).digest(), "little") for run in found], np.uint64
    )
    # One multiplication and one shift is hash enough: the runs are already hashed.
    mixed = hashes[None] * _FACTORS[:, None]
    return [int(value) for value in (mixed ^ (mixed >> np.uint64(29))).min(axis=1)]
