"""A recipe so small that a test can follow it."""

RECIPE = """
steps = 4
rate = 1e-3
muon = 0.01
every = 2
exam = 4
vocabulary = 60

[eyes]
steps = 2
pairs = 4
every = 1
exam = 4

[shape]
hidden = 32
layers = 2
heads = 1
inner = 32
vision_hidden = 32
vision_layers = 1
vision_inner = 32

[batch]
video = 3
image = 1
text = 1
paired = 2

[[plan]]
until = 2
worlds = {easy = 1.0}
contrast = 1.0
judged = 0.3
turns = 2

[[plan]]
until = 4
worlds = {plain = 1.0}
contrast = 0.0
judged = 0.3
turns = 2
"""
