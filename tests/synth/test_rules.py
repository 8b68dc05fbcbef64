import pytest

from reelspace.synth import rules
from reelspace.synth.answers import Captions, FromPicture
from reelspace.synth.config import Enrich
from reelspace.worlds.captions import KINDS, caption
from reelspace.worlds.sample import FULL, generator, scene

BROKEN = {
    "absence": [
        "A street at night; there are no people.",
        "A man walks without any shoes.",
        "The face of the driver is not visible.",
        "A dog lies off-screen behind the sofa.",
    ],
    "dialogue": [
        "A woman turns and says that she is late.",
        "A man shouts “come here” to a boy.",
        'He laughs: "well done"',
    ],
    "speculation": ["A man is probably waiting for a bus.", "A child seems to be sad.", "She runs as if chased."],
    "backstory": [
        "A man who used to be a sailor mends a net.",
        "After a long day a woman sits down.",
        "He wants to win.",
    ],
    "meta": ["The video shows a dog in a park.", "I'm sorry, I cannot see it.", "In this clip a dog runs."],
    "repetition": ["a dog runs in the park and " * 4, "a ball ball ball ball rolls"],
    "address": ["A dog, see www.dogs.com"],
    "boilerplate": ["A dog runs. Subscribe for more dogs."],
}
FINE = [
    "A brown dog runs across a wet lawn and jumps over a low hedge.",
    "A woman in a green coat enters the frame from the left, waves, and leaves.",
    "Two cyclists ride side by side; the one in front slows down.",
    "Steam rises from a pot on a gas stove while a hand stirs it with a wooden spoon.",
    "dog, lawn, hedge, jumping, morning light",
    "Rain falls on a window; behind it a red bus stops and drives on.",
]


@pytest.mark.parametrize(("rule", "text"), [(rule, text) for rule, texts in BROKEN.items() for text in texts])
def test_each_rule_finds_what_it_is_for(rule, text):
    assert rules.broken(text)[0] == rule


@pytest.mark.parametrize("text", FINE)
def test_fine_captions_break_no_rule(text):
    assert rules.broken(text) is None


def test_true_captions_of_worlds_break_no_rule():
    for number in range(40):
        drawn = scene(generator("rules", number), FULL)
        for kind in KINDS:
            assert rules.broken(caption(drawn, kind, generator("words", number)).text) is None, kind


QUERIES = {
    "likeness": "A jacket similar to the red one FROM REFERENCE IMAGE",
    "no binding": "The woman in the red jacket now skis down a slope",
    "incoherent": "The red jacket FROM REFERENCE IMAGE is running down the hill",
    "vague attribute": "The person FROM REFERENCE IMAGE now skis",
    "attribute not in query": "The woman FROM REFERENCE IMAGE now skis",
    "speculation": "The woman in the red jacket FROM REFERENCE IMAGE probably skis",
    "too long": "The woman in the red jacket FROM REFERENCE IMAGE " + " ".join(f"step{k}" for k in range(60)),
}


@pytest.mark.parametrize(("rule", "text"), QUERIES.items(), ids=lambda value: value[:20])
def test_composed_queries_are_held_to_the_rules(rule, text):
    attribute = "person" if rule == "vague attribute" else "red jacket"
    assert rules.broken_query(FromPicture(query=text, attribute=attribute))[0] == rule


@pytest.mark.parametrize(
    "text",
    [
        "The person FROM REFERENCE IMAGE wearing a red jacket now skiing",
        "The woman with the red jacket, as in reference image, rides a chairlift at dusk",
        "The red jacket FROM REFERENCE CLIP hangs on a hook while somebody walks past",
    ],
)
def test_good_composed_queries_pass(text):
    assert rules.broken_query(FromPicture(query=text, attribute="red jacket")) is None


def test_a_query_that_is_a_caption_of_the_target_needs_no_reference():
    told = "a woman in a red jacket skis down a steep slope between dark trees"
    answer = FromPicture(query=f"{told} FROM REFERENCE IMAGE", attribute="red jacket")
    assert rules.broken_query(answer, [told])[0] == "a caption of the target"


def five(**texts):
    long = " ".join(f"word{k}" for k in range(120))
    made = {
        "concise": "A dog runs.",
        "spatio-temporal": long,
        "abstract": "Joy.",
        "keywords": "dog, park",
        "partial": "A park.",
    }
    return Captions(captions=[{"style": style, "text": text} for style, text in (made | texts).items()])


def test_five_captions_are_held_to_styles_lengths_and_differences():
    enrich = Enrich()
    assert rules.broken_set(five(), enrich) is None
    assert rules.broken_set(five(**{"spatio-temporal": "Too short."}), enrich)[0] == "no long caption"
    assert rules.broken_set(five(partial="a park!", abstract="A park."), enrich)[0] == "captions alike"
    filler = {
        style: " ".join(f"{style}{k}" for k in range(30)) for style in ("concise", "abstract", "keywords", "partial")
    }
    assert rules.broken_set(five(**filler), enrich)[0] == "no short caption"
    twice = five().model_dump()["captions"]
    twice[1]["style"] = "concise"
    assert rules.broken_set(Captions(captions=twice), enrich)[0] == "styles"


def test_styles_are_held_to_their_form():
    enrich = Enrich()
    assert rules.broken_caption("concise", "word " * 20 + "a b c", enrich)
    assert rules.broken_caption("keywords", "A dog runs in the park.", enrich)[0] == "no keywords"
    assert rules.broken_caption("keywords", "dog, park, running", enrich) is None
