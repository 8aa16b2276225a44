"""Refusals: answers that the model reads, never exceptions that leave the tool."""


class Refusal(Exception):
    """What is asked for is not done; the text is the sentence that the model reads."""


class Hidden(Refusal):
    """A name that is refused as such; each action has a sentence of its own for it."""

    def __init__(self, name: str, sentence: str) -> None:
        super().__init__(sentence)
        self.name = name


class Missing(Refusal):
    """A path that leads nowhere."""
