"""The door for programs: opencode's HTTP interface, as far as this part of the plan needs it.

Starlette and uvicorn are imported by the modules of this room, so only ``instar serve`` pays for them.
"""
