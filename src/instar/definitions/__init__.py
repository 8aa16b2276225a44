"""What a person writes for the model: agents, commands, skills, instructions and mentions.

May import `settings`, `provider` and what stands before them. Begin with `markdown.py`, which reads the Markdown files.
"""
