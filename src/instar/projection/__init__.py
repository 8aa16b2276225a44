"""Sessions as opencode's newer routes show them (``/api/session``): made of what is stored, never stored themselves."""

from instar.projection.history import Projector
from instar.projection.message import session_messages
from instar.projection.prompt import given_prompt, prompt_body, prompt_of
from instar.projection.session import revert_state, session_info

__all__ = [
    "Projector",
    "given_prompt",
    "prompt_body",
    "prompt_of",
    "revert_state",
    "session_info",
    "session_messages",
]
