"""``python -m instar``: the command line."""

from instar.cli import main

if __name__ == "__main__":
    main()
