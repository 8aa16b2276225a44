"""The project as a person is shown it: files, version control, worktrees, workspaces, and what changes in its folder.

May import `session`, `tool` and what stands before them. Begin with `workspace.py`; `vcs` and `files` answer clients.
"""
