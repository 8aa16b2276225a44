"""The words of the HTTP interface: the types of queries, bodies and answers that no lower room has.

One module for each family of operations; the server carries them out, `instar.client` asks for them. A type that
opencode's document has too is named as it is there.
"""
