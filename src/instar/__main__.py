"""``python -m instar``: the command line."""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        # The working directory comes first here: modules of a project must not stand in for instar's and Python's.
        del sys.path[0]
    from instar.cli import main

    main()
