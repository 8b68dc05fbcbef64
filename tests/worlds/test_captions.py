"""Words are true, varied, and say when they are false."""

from collections import Counter
from itertools import islice, product

import pytest

from reelspace.worlds.captions import KINDS, caption, captions, questions
from reelspace.worlds.edits import ASKED, ATTRIBUTES, compose, match, vary
from reelspace.worlds.facts import facts, unordered
from reelspace.worlds.sample import EASY, LONG, generator, held_out, scenes
from reelspace.worlds.scene import Scene, Shot, Thing


@pytest.fixture(scope="module")
def many():
    return [*islice(scenes(21), 250), *islice(scenes(21, LONG), 6), *islice(scenes(21, EASY), 20)]


@pytest.mark.parametrize("kind", [*KINDS, "claim"])
def test_captions_are_true(many, kind):
    for number, scene in enumerate(many):
        said = caption(scene, kind, generator(number))
        assert said.facts and said.true_of(scene), said.text


def test_captions_are_sentences(many):
    for number, scene in enumerate(many):
        for kind, said in captions(scene, generator(number)).items():
            assert said.text and "{" not in said.text and "  " not in said.text
            if kind != "keywords":
                assert said.text.endswith(".") and (said.text[0].isupper() or said.text[0].isdigit())


def test_wording_varies_and_truth_does_not(many):
    scene = next(scene for scene in many if scene.shots[0].things[0].acts)
    said = [caption(scene, "general", generator(seed)) for seed in range(40)]
    assert len({one.text for one in said}) > 15
    assert len({one.facts for one in said}) == 1


def test_kinds_differ_in_length_as_their_names_say(many):
    def words(kind, of):
        return sum(len(caption(scene, kind, generator(k)).text.split()) for k, scene in enumerate(of)) / len(of)

    clips = [scene for scene in many if len(scene.shots) == 1]
    assert words("brief", clips) < 20 < words("detailed", clips)
    assert words("chapters", [scene for scene in many if len(scene.shots) > 1]) > 250


@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_a_changed_attribute_makes_some_caption_false(many, attribute):
    """Detailed captions say every attribute, so the scene and its variant can be told apart by them."""
    found = 0
    for number, scene in enumerate(many):
        other = vary(scene, attribute, generator(number))
        if other is None:
            continue
        found += 1
        assert other != scene
        assert not caption(other, "detailed", generator(number)).true_of(scene), (attribute, scene)
    assert found > 5


def test_matches_and_mismatches_are_what_they_say(many):
    drawn = [(scene, match(scene, "general", generator("m", k))) for k, scene in enumerate(many)]
    share = sum(pair.match for _, pair in drawn) / len(drawn)
    assert 0.4 < share < 0.6
    assert len({pair.attribute for _, pair in drawn}) >= 6
    for k, (scene, pair) in enumerate(drawn):
        assert (pair.attribute == "") == pair.match
        again = match(scene, "general", generator("m", k))
        assert again == pair


def test_a_mismatch_is_false_by_one_attribute_only():
    shot = Shot(things=(Thing(form="circle", colour="red", x=0.2, y=0.2),))
    scene = Scene(shots=(shot,))
    for seed in range(60):
        pair = match(scene, "detailed", generator(seed))
        if pair.attribute == "colour":
            assert "red circle" not in pair.text and "circle" in pair.text
        if pair.match:
            assert "red circle" in pair.text


def test_a_mismatch_may_differ_in_several_things_from_the_true_text_in_the_same_words(many):
    apart = Counter()
    for changes in (1, 3):
        for k, scene in enumerate(many):
            pair = match(scene, "general", generator("several", k), changes=changes)
            again = match(scene, "general", generator("several", k))
            assert pair.rather == again.rather
            assert (pair.text == pair.rather) == pair.match
            assert again.match == pair.match
            apart[changes] += len(set(pair.text.split()) - set(pair.rather.split()))
    assert apart[3] > 1.2 * apart[1]


def test_questions_have_one_answer_among_their_options(many):
    kinds = Counter()
    for number, scene in enumerate(many):
        for question in questions(scene, generator(number)):
            assert question.options.count(question.answer) == 1, question
            assert question.text.endswith("?")
            kinds[question.kind] += 1
    expected = {
        "place",
        "light",
        "count",
        "colour",
        "form",
        "where",
        "deed",
        "direction",
        "first",
        "last",
        "camera",
        "side",
    }
    assert set(kinds) == expected


def test_answers_are_facts(many):
    for number, scene in enumerate(many):
        known = facts(scene)
        for question in questions(scene, generator(number)):
            if question.kind == "colour":
                form = question.text.removeprefix("What colour is the ").rstrip("?")
                assert (form, "colour", question.answer) in known
            if question.kind == "direction":
                name = question.text.removeprefix("Which way does the ").removesuffix(" go?")
                assert (name, "does", question.answer) in known


@pytest.mark.parametrize("change", ASKED)
def test_composed_queries_state_the_change(change):
    reference = Scene(shots=(Shot(things=(Thing(form="dog", x=0.2, y=0.2),), background="sea"),))
    for seed in range(20):
        composed = compose(reference, [change], generator(seed))
        assert composed.facts <= facts(composed.target)
        assert not composed.facts <= facts(reference)
        assert "dog" not in composed.text and "picture" in composed.text
        assert "clip" in compose(reference, [change], generator(seed), "video").text


def test_without_order_opposites_are_one():
    left = next(scene for scene in scenes(2, EASY) if scene.shots[0].things[0].acts[0].verb == "left")
    back = left.reversed()
    assert facts(left) != facts(back)
    assert unordered(facts(left)) == unordered(facts(back))


def test_the_words_of_easy_worlds_are_few():
    """A tiny tokenizer has them all."""
    words = set()
    for number, scene in enumerate(islice(scenes(0, EASY), 500)):
        for said in captions(scene, generator(number)).values():
            words |= set(said.text.lower().replace(".", " ").replace(",", " ").split())
    assert len(words) < 200


def test_no_word_gives_a_mismatch_away():
    """True and false texts of a world use the same words, and training never names what is held out."""
    words = {True: set(), False: set()}
    for number, scene in enumerate(islice(scenes(3, EASY, "train"), 600)):
        pair = match(scene, "brief", generator("m", number), EASY)
        words[pair.match] |= set(pair.text.lower().split())
        if not pair.match:
            assert not any(name in pair.text.lower() and held_out(triple) for name, triple in _combinations(pair.text))
    assert words[True] == words[False]


def _combinations(text):
    said = text.lower()
    for colour, form in product(EASY.colours, EASY.forms):
        for verb, phrases in {"left": "left", "right": "right", "up": "up rises", "down": "down sinks"}.items():
            if any(phrase in said.split() or phrase + "wards" in said.split() for phrase in phrases.split()):
                yield f"{colour} {form}", (form, colour, verb)
