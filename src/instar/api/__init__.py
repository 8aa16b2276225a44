"""The words of the HTTP interface: what an operation is, and the types of queries, bodies and answers of its own.

One module for each family of operations; what only opencode's newer routes (``/api/…``) say is in `v2.py`,
`v2_session.py` and `v2_message.py`. May import words and `settings`. Begin with `operation.py`. The server carries
operations out, `instar.client` asks for them. A type that opencode's document has too is named as it is there.
"""
