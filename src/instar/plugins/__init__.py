"""The flagships: plugins that ship with instar.

They may import `instar.plugin`, the public door, and nothing else of instar. Begin with `self/tool.py`; each flagship's
`server.py` is its plugin function.
"""
