import pytest

from reelspace.worlds.tiny import tokens
from reelspace.worlds.tiny.tokens import Turn

TURNS = [Turn("What colour is the circle?", "red"), Turn("Describe the video.", "A red circle moves left.")]


def _messages(turn):
    content = [{"type": "video"}, {"type": "text", "text": turn.ask}]
    return [{"role": "user", "content": content}, {"role": "assistant", "content": turn.answer}]


@pytest.mark.parametrize("turn", TURNS)
def test_the_saved_chat_template_writes_what_the_writer_writes(writer, tmp_path, turn):
    from transformers import AutoTokenizer

    tokens.save(writer.tokenizer, tmp_path)
    saved = AutoTokenizer.from_pretrained(tmp_path)
    written = writer.write(tokens.seen(tokens.VIDEO, 1), "", [turn])
    assert saved.apply_chat_template(_messages(turn))["input_ids"] == written.ids
    prompt = saved.apply_chat_template(_messages(turn)[:1], add_generation_prompt=True)["input_ids"]
    assert prompt == written.ids[: written.asked[0] + 1]
    assert saved.pad_token_id == tokens.PAD
    assert saved.eos_token_id == tokens.END


def test_an_answer_is_predicted_from_where_it_is_asked_for(writer):
    written = writer.write(tokens.seen(tokens.VIDEO, 4), "", TURNS)
    for at, turn in zip(written.asked, TURNS, strict=True):
        answer = writer.tokens(turn.answer)
        assert written.ids[at] == tokens.ASSISTANT
        assert written.ids[at + 1 : at + 2 + len(answer)] == [*answer, tokens.END]
        assert all(written.weights[at + 1 : at + 2 + len(answer)])
    assert sum(weight > 0 for weight in written.weights) == sum(len(writer.tokens(turn.answer)) + 1 for turn in TURNS)


def test_the_words_of_a_true_question_count_and_what_is_seen_never_does(writer):
    true = writer.write(tokens.seen(tokens.VIDEO, 4), "", [Turn("Is it red?", "Yes", rather="Is it red?")])
    counted = [token for token, weight in zip(true.ids, true.weights, strict=True) if weight]
    assert counted == [*writer.tokens("Is it red?"), *writer.tokens("Yes"), tokens.END]
    assert [wrong for wrong in true.wrong if wrong >= 0] == [0] * (len(writer.tokens("Is it red?")) + 1)


def test_a_false_question_counts_until_it_goes_wrong_and_is_wrong_from_there(writer):
    said, rather = "A red circle rises.", "A red square rises."
    false = writer.write(tokens.seen(tokens.VIDEO, 4), "", [Turn(said, "No", rather=rather), Turn(said, "red")])
    parted = len(writer.tokens("A red"))
    asked = false.turn.index(2)
    marks = list(zip(false.ids, false.weights, false.wrong, strict=True))[:asked]
    ask = [mark for mark in marks if mark[2] >= 0]
    assert [wrong for *_, wrong in ask] == [0] * parted + [1] * (len(ask) - parted)
    assert [token for token, *_ in ask] == [*writer.tokens(said), tokens.ASSISTANT]
    assert all(weight > 0 for _, weight, wrong in ask if not wrong)
    assert not any(weight for _, weight, wrong in ask if wrong)
    assert set(false.wrong[asked:]) == {-1}


def test_turns_that_do_not_fit_are_left_out_but_never_the_first(writer):
    whole = writer.write([], "", TURNS)
    assert len(writer.write([], "", TURNS, most=len(whole.ids)).asked) == 2
    assert len(writer.write([], "", TURNS, most=len(whole.ids) - 1).asked) == 1
    assert len(writer.write([], "", TURNS, most=1).asked) == 1


@pytest.mark.parametrize("text", ["A red circle moves left.", "größer 東京 🎬\n\ttab", "", "<|video_pad|><|end|>"])
def test_any_text_can_be_written_and_special_tokens_in_it_have_no_power(writer, text):
    ids = writer.tokens(text)
    assert writer.tokenizer.decode(ids) == text
    assert not set(ids) & set(range(len(tokens.SPECIAL)))


def test_equal_worlds_give_an_equal_tokenizer(writer):
    assert tokens.learnt(tokens.samples(60)).to_str() == writer.tokenizer.to_str()
