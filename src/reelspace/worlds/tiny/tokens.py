"""The tiny model's words, and the form of a conversation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reelspace.worlds.captions import captions, questions
from reelspace.worlds.sample import FULL, LONG, generator, scene

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPECIAL = (
    *("<|endoftext|>", "<|user|>", "<|assistant|>", "<|end|>", "<|vision_start|>", "<|vision_end|>"),
    *("<|image_pad|>", "<|video_pad|>", "<|emb|>"),
)
"""Ids 0, 1, 2 …"""
PAD, USER, ASSISTANT, END, VISION_START, VISION_END, IMAGE, VIDEO, EMB = range(len(SPECIAL))
SIZE = 1024
CHAT_TEMPLATE = """\
{%- for message in messages -%}
<|{{ message.role }}|>
{%- if message.content is string -%}
{{ message.content }}
{%- else -%}
{%- for part in message.content -%}
{%- if part.type == 'image' -%}<|vision_start|><|image_pad|><|vision_end|>
{%- elif part.type == 'video' -%}<|vision_start|><|video_pad|><|vision_end|>
{%- elif part.type == 'text' -%}{{ part.text }}
{%- endif -%}
{%- endfor -%}
{%- endif -%}
{%- if message.role == 'assistant' -%}<|end|>{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}"""


def learnt(texts: Iterator[str], size: int = SIZE) -> Tokenizer:
    """A byte-level BPE tokenizer learnt from texts: any text can be written in it, those of worlds in few tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def samples(count: int = 3000) -> Iterator[str]:
    """What the tokenizer is learnt from: captions and questions of some worlds."""
    for number in range(count):
        random = generator("tokens", number)
        drawn = scene(random, FULL if number % 20 else LONG)
        yield from (said.text for said in captions(drawn, random).values())
        for question in questions(drawn, random):
            yield from (question.text, question.answer, f" {question.answer}")
        yield from ("Yes", "No", "Yes or No?", "Does this match?")


def save(tokenizer: Tokenizer, folder: Path) -> None:
    """Writes it so that `transformers.AutoTokenizer` loads it, chat template included."""
    from transformers import PreTrainedTokenizerFast

    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=SPECIAL[END],
        pad_token=SPECIAL[PAD],
        additional_special_tokens=list(SPECIAL),
        model_max_length=8192,
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(folder)


@dataclass(frozen=True)
class Turn:
    """What is asked and what is answered.

    Attributes:
        answer: empty where it is only asked for.
        rather: of an ask that is to be judged, the same words were they true of what is seen: they part from it where
            it goes wrong. What is true before that is learnt too: whoever can say what comes next hears a false word.
    """

    ask: str
    answer: str
    rather: str = ""


@dataclass
class Written:
    """A conversation in tokens.

    Attributes:
        ids: all of it.
        weights: how much each token counts in the loss.
        wrong: of each token of an ask that is judged, 1 where something false has been said by then, else 0; else -1.
        asked: position of the token after which each answer begins: what predicts its first token.
        turn: of each token the number of its turn, from 1; 0 of what is seen and told before them all.
    """

    ids: list[int]
    weights: list[float]
    wrong: list[int]
    asked: list[int]
    turn: list[int]


@dataclass(frozen=True)
class Writer:
    """Writes conversations token by token; of a single turn, as the saved tokenizer's `apply_chat_template` does."""

    tokenizer: Tokenizer

    def __post_init__(self) -> None:
        self.tokenizer.encode_special_tokens = True  # what a text says of them is text

    def tokens(self, text: str) -> list[int]:
        """Ids of a text in which special tokens have no power."""
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def write(self, seen: Sequence[int], told: str, turns: Sequence[Turn], most: int | None = None) -> Written:
        """What is seen (visual tokens, may be none) and told (may be nothing), and turns about it.

        Each turn is a conversation of its own about the same: it is to be read as if the others were not there, for
        what one says would answer the next without a look. With `most`, turns after the first that would make it longer
        than so many tokens are left out.

        An answer's tokens share a weight that grows with the square root of their number: an answer of one word
        says more, token by token, than a caption, most of whose words follow from the words before.
        """
        context = [USER, *seen, *(self.tokens(told) if told else [])]
        none = len(context)
        written = Written(context, [0.0] * none, [-1] * none, [], [0] * none)
        for turn in turns:
            ask = self.tokens(turn.ask)
            answer = [*self.tokens(turn.answer), END] if turn.answer else [EMB, END]
            if most is not None and written.asked and len(written.ids) + len(ask) + 1 + len(answer) > most:
                continue
            written.ids += [*ask, ASSISTANT]
            true = common(ask, self.tokens(turn.rather)) if turn.rather else 0
            written.weights += [*(0.5 * len(ask) ** -0.5 if k < true else 0.0 for k in range(len(ask))), 0.0]
            parted = [int(k >= true) if turn.rather else -1 for k in range(len(ask))]
            written.wrong += [*parted, int(true < len(ask)) if turn.rather else -1, *[-1] * len(answer)]
            written.asked.append(len(written.ids) - 1)
            written.ids += answer
            written.weights += [len(answer) ** -0.5 if turn.answer else 0.0] * len(answer)
            written.turn += [len(written.asked)] * (len(written.ids) - len(written.turn))
        return written


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two texts begin with alike."""
    return next((k for k, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def seen(kind: int, count: int) -> list[int]:
    """The tokens a picture (`IMAGE`) or a video (`VIDEO`) of `count` visual tokens takes."""
    return [VISION_START, *[kind] * count, VISION_END]
