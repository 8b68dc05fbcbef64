"""A video language model of a few million parameters, trained on worlds.

`tokens` has its words and the form of a conversation, `lessons` turns scenes into conversations and `batches` those
into tensors; `model` is a Qwen2.5-VL, `train` trains it, `exam` says what it has learnt, by what is `hearing` said.
"""
