"""What a run is to do: a TOML file, checked before anything is done."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from reelspace.errors import ReelspaceError
from reelspace.synth.schema import TASKS, TaskName

Share = Annotated[float, Field(ge=0, le=1)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class TableSource(_Part):
    """Raw pairs listed in a file."""

    kind: Literal["table"]
    path: Path
    """JSON lines (`.jsonl`), CSV or Parquet; from the configuration's folder on if relative."""
    root: Path | None = None
    """Folder that relative video paths begin at; left out, the one the list lies in."""
    video: str = "video"
    """Name of the column with the video's path; `FILE@START-END` is a stretch of one."""
    text: str = "text"
    """… with the raw caption; may be empty, then the pair has none and is not rejected for that."""
    id: str = "id"
    """… with a unique id; where there is no such column, ids are made of video and text."""
    language: str = "language"
    licence: str = "licence"


class WorldsSource(_Part):
    """Drawn videos with their captions, and faults put in on purpose. They are made in `videos/` of the output."""

    kind: Literal["worlds"]
    count: int = Field(default=120, ge=1)
    profile: str = "full"
    wrong: Share = 0.0
    """Share of captions that are another video's."""
    still: Share = 0.0
    """Share of videos in which nothing moves."""
    junk: Share = 0.0
    """Share of captions that are no captions."""
    copies: Share = 0.0
    """Share of videos that are encoded again from one before."""


class Filter(_Part):
    """Stage 1."""

    skip: list[str] = []
    """Blocks to leave out."""
    least_words: int = 3
    """A shorter caption says nothing."""
    shared: int = 3
    """A caption that more videos than this share says nothing of any of them."""
    scripts: list[str] = ["Latin"]
    """Scripts that captions may be written in, as Unicode names them; empty: any."""
    boilerplate: list[str] = []
    """Further phrases (regular expressions) that no caption has."""
    consistency: float | str = "null:0.9"
    """Least cosine of a caption with its video; or `null:Q`, more than the share Q of captions has with videos that
    are not its own."""
    missing: Literal["keep", "reject"] = "keep"
    """What becomes of videos without a caption."""
    motion: float = 5.0
    """Least change between frames, in grey levels of the cell that changes most; less is a still."""
    duration: tuple[float, float] = (0.5, 600.0)
    """Shortest and longest video, in seconds."""
    near_text: float = 0.9
    """Captions that share more of their three-word runs are one text."""
    near_video: float = 4.0
    """Videos whose small grey frames nowhere differ by more levels are one video."""
    frames: int = Field(default=3, ge=1)
    """Key frames taken from a video."""
    clips: int = Field(default=1, ge=1)
    """Clips taken from a video."""
    clip: tuple[Share, Share] = (0.3, 0.6)
    """Shortest and longest clip, as a share of the video."""


class Prices(_Part):
    """What a million tokens costs, in the currency that you reckon in."""

    input: float = 0.0
    output: float = 0.0


class _Mllm(_Part):
    model: str = ""
    """Name of the model, as the server knows it; or its folder or hub name."""
    revision: str = ""
    """Kept with every row; for a hub model also the one that is loaded."""
    frames: int = Field(default=8, ge=1)
    """Frames of a video that are shown."""
    edge: int | None = 448
    """Their shorter side in pixels, at most."""
    temperature: float = 0.7
    max_tokens: int = 1024
    attempts: int = Field(default=3, ge=1)
    """Answers asked for, each with another seed, before an item is given up because none of them is valid."""
    prices: Prices = Prices()


class ServerMllm(_Mllm):
    """Any server that speaks OpenAI's chat interface: vLLM, SGLang, Ollama, llama.cpp."""

    kind: Literal["server"]
    url: str = "http://127.0.0.1:8000/v1"
    key_variable: str = "OPENAI_API_KEY"
    """Environment variable with the key; where it is not set none is sent."""
    concurrency: int = Field(default=8, ge=1)
    """Requests under way at once, for each process."""
    retries: int = Field(default=6, ge=0)
    """How often a request is sent again after a failure of the server or of the way to it."""
    patience: float = 120.0
    """Seconds without a byte after which a request has failed."""
    longest_wait: float = 60.0
    """Most seconds between two tries."""
    structured: bool = True
    """Ask for answers that keep to the JSON schema. Answers are checked either way."""
    stream: bool = False
    """Have answers sent piece by piece: patience is then for each piece."""
    likelihoods: bool = True
    """Ask for the likelihood of Yes and No where one of them is the answer."""


class TransformersMllm(_Mllm):
    """A model in this process."""

    kind: Literal["transformers"]
    device: str = "cpu"
    dtype: str = "auto"
    trust_remote_code: bool = False
    """Run code that comes with the model, as Keye-VL needs: then name a `revision` that you have looked at."""


class TinyMllm(_Mllm):
    """The tiny model that `reelspace worlds train` makes."""

    kind: Literal["tiny"]
    temperature: float = 0.0


class OracleMllm(_Mllm):
    """No model: what is true of worlds, with errors put in on purpose. Only for videos of worlds."""

    kind: Literal["oracle"]
    invented: Share = 0.0
    """Share of texts with one attribute that is wrong."""
    needless: Share = 0.0
    """Share of composed queries that do not need one of their parts."""


Mllm = Annotated[ServerMllm | TransformersMllm | TinyMllm | OracleMllm, Field(discriminator="kind")]


class Budget(_Part):
    """What a run may use. Where it is reached the run stops; with a larger one it goes on."""

    requests: int | None = None
    tokens: int | None = None
    cost: float | None = None
    dead: Share = 0.1
    """Most items of a shard that may be given up: more mean that something is wrong, and end the run."""


class Enrich(_Part):
    """Stage 2."""

    skip: list[str] = []
    profiles: dict[Literal["temporal", "spatial", "other"], float] = {"temporal": 0.6, "spatial": 0.3, "other": 0.1}
    """How often a text is to dwell on what."""
    short: int = 20
    """One caption of a video has fewer words than this."""
    long: int = 100
    """One has more than this."""
    consistency: float | str = "null:0.9"
    """As in `filter`, for what the model wrote."""
    verify: float = 0.5
    """Least likelihood of Yes, asked whether the text is true of the video."""
    readability: list[str] = ["easy", "plain", "elaborate"]
    education: list[str] = ["primary school", "secondary school", "university"]


class Extend(_Part):
    """Stage 3."""

    skip: list[str] = []
    tasks: list[TaskName] = list(TASKS)  # type: ignore[arg-type]
    shares: dict[TaskName, Share] = {}
    """Share of the videos that make a row of a task, 1 where none is given: rare concepts and good pairs first."""
    references: list[Literal["own", "neighbour"]] = ["own"]
    """Where the references of composed queries come from: the video itself (as in the paper), or one that looks
    like it."""
    necessity: Literal["rank", "margin"] = "margin"
    """What removing a part of a composed query must do: lose the target (it is no longer among the `depth` best), or
    lower its lead over the other videos by more than `gain`."""
    depth: int = Field(default=1, ge=1)
    gain: float = 0.0
    """In standard deviations of the other videos' cosines."""
    pool: int = Field(default=64, ge=2)
    """Other videos that the target competes with: the nearest to the query and to each of its parts."""
    negatives: int | None = None
    """Hard negatives a row; left out, as many as in the paper."""
    skip_top: int = 0
    """Nearest ones that are passed over."""
    near_positive: float = 0.95
    """A candidate that scores more than this share of the positive's score may be another positive, and is left out."""


class Config(_Part):
    """All of it."""

    seed: int = 0
    shards: int = Field(default=4, ge=1)
    """Pieces that the work is divided into; the rows depend on it, so it is part of what is to be done."""
    source: Annotated[TableSource | WorldsSource, Field(discriminator="kind")]
    embedder: str = "lite"
    mllm: Mllm
    verifier: Mllm | None = None
    """Who is asked Yes or No; left out, `mllm`."""
    filter: Filter = Filter()
    enrich: Enrich = Enrich()
    extend: Extend = Extend()
    budget: Budget = Budget()
    name: str = "UVRD"
    """Of the data set, for its card."""
    licence: str = ""
    """Of the data set; the sources' own are counted on the card."""

    @model_validator(mode="after")
    def _possible(self) -> Config:
        if not sum(self.enrich.profiles.values()) > 0:
            raise ValueError("enrich.profiles: no profile has a share")
        for threshold in (self.filter.consistency, self.enrich.consistency):
            quantile(threshold)
        return self


def quantile(threshold: float | str) -> float | None:
    """Q of `null:Q`; `None` of a plain number.

    Raises:
        ValueError: it is neither.
    """
    if not isinstance(threshold, str):
        return None
    name, _, number = threshold.partition(":")
    if name != "null" or not 0 < float(number) < 1:
        raise ValueError(f"“{threshold}” is no threshold; write a cosine, or null:0.9")
    return float(number)


def read(path: Path) -> Config:
    """The configuration in a TOML file; relative paths in it begin at its folder.

    Raises:
        ReelspaceError: it cannot be read, or means nothing.
    """
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ReelspaceError(f"{path}: cannot be read ({error}).") from None
    try:
        config = Config.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(map(str, first["loc"])) or "the whole"
        raise ReelspaceError(f"{path}: {at}: {first['msg']}. See docs/synth.md.") from None
    if isinstance(config.source, TableSource):
        table = path.parent.absolute() / config.source.path
        root = table.parent if config.source.root is None else path.parent.absolute() / config.source.root
        config = config.model_copy(update={"source": config.source.model_copy(update={"path": table, "root": root})})
    return config
