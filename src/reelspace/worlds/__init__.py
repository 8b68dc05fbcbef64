"""Videos whose truth is known: to train on, to test with, and to say where a model fails.

`scene` says what a world is made of, `sample` draws scenes from a seed; `render` and `film` make pixels and files of
them; `facts` says what is true, `captions` and `edits` say it in words; `tasks` asks for it (UVRB-Worlds) and
`oracle` knows the answers; `make` and `show` are the commands.
"""
