"""Reading a shell command without running it: its words, its simple commands, what they wrap and touch.

May import the standard library and tree-sitter. Begin with `tree.py`; `word.py` holds what the others share.
"""
