"""Made by tests/client/generator.py from the server's operations; change those instead."""
