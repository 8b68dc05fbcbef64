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
        true: whether what is asked says something true of what is seen. Its words are learnt too: whoever can say
            what comes next hears where a false text goes wrong.
    """

    ask: str
    answer: str
    true: bool = False


@dataclass
class Written:
    """A conversation in tokens.

    Attributes:
        ids: all of it.
        weights: how much each token counts in the loss.
        asked: position of the token after which each answer begins: what predicts its first token.
    """

    ids: list[int]
    weights: list[float]
    asked: list[int]


@dataclass(frozen=True)
class Writer:
    """Writes conversations token by token; `apply_chat_template` of the saved tokenizer writes the same."""

    tokenizer: Tokenizer

    def __post_init__(self) -> None:
        self.tokenizer.encode_special_tokens = True  # what a text says of them is text

    def tokens(self, text: str) -> list[int]:
        """Ids of a text in which special tokens have no power."""
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def write(self, seen: Sequence[int], told: str, turns: Sequence[Turn], most: int | None = None) -> Written:
        """A conversation about what is seen (visual tokens, may be none) and told (may be nothing).

        With `most`, turns after the first that would make it longer than so many tokens are left out.

        An answer's tokens share a weight that grows with the square root of their number: an answer of one word
        says more, token by token, than a caption, most of whose words follow from the words before.
        """
        written = Written([], [], [])
        context = [*seen, *self.tokens(told)] if told else list(seen)
        for turn in turns:
            ask = self.tokens(turn.ask)
            prompt = [USER, *context, *ask, ASSISTANT]
            answer = [*self.tokens(turn.answer), END] if turn.answer else [EMB, END]
            if most is not None and written.ids and len(written.ids) + len(prompt) + len(answer) > most:
                continue
            written.ids += prompt
            heard = 0.5 * len(ask) ** -0.5 if turn.true else 0.0
            written.weights += [0.0] * (1 + len(context)) + [heard] * len(ask) + [0.0]
            written.asked.append(len(written.ids) - 1)
            written.ids += answer
            written.weights += [len(answer) ** -0.5 if turn.answer else 0.0] * len(answer)
            context = []
        return written


def seen(kind: int, count: int) -> list[int]:
    """The tokens a picture (`IMAGE`) or a video (`VIDEO`) of `count` visual tokens takes."""
    return [VISION_START, *[kind] * count, VISION_END]
