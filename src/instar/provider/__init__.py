"""Model calls: providers, their models and keys, and one adapter for each wire protocol.

May import `jshost` and what stands before it. Begin with `protocol.py`, the contract of an adapter; then `resolve.py`,
which finds a model and its adapter. `openai.py` and `anthropic.py` are adapters over `connection.py`, `library.py` is
one over pydantic-ai, `scripted.py` plays a text file. An adapter is imported when its first model is called.
"""
