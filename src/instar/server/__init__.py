"""The HTTP interface: opencode's operations and instar's own, over one runtime for each directory.

May import `runtime` and what stands before it; `instar.opencode.routes` stands above and is mounted by name. Begin with
`app.py`, which lists the operations; `dispatch.py` takes a request to its method, `routes/` has the methods,
`stream.py` the event streams, `access.py` says who may ask, and `listen.py` binds and serves.

Starlette and uvicorn are imported by the modules of this room, so only ``instar serve`` pays for them.
"""
