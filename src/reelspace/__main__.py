"""`python -m reelspace` is the `reelspace` command."""

from reelspace.cli import main

if __name__ == "__main__":
    main()
