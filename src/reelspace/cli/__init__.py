"""The `reelspace` command: one thin module a subcommand."""
