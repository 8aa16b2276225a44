"""evobench: worlds in which a self-modifying agent is offered edits of its own harness. Begin with README.md."""
