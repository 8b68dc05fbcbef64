"""V-SynFlow: raw (video, text) pairs in, a training set of seven retrieval tasks out (GVE §3.2, A.4–A.6).

`config` says what is wanted; `source` reads the raw pairs; `filter`, `enrich` and `extend` are lists of small blocks
that run over shards, and `run` puts them in order and runs them anywhere; `mllm` asks models, `prompts` says what,
`answers` what must come back, and `rules` doubts it; `schema` is what comes out, `card` counts it, `audit` shows it.
"""
