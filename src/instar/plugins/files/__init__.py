"""Formatters and language servers: what happens to a file once a tool has written it.

Two plugins, `formatter` and `lsp`, on the hook point `files.written`; the settings of these names switch them on, as in
opencode (https://opencode.ai/docs/formatters, https://opencode.ai/docs/lsp). They import nothing of instar but
`instar.plugin`. Begin with `formatter.py` and `lsp.py`; `programs.py` says which programs are found, `connection.py`
speaks with one language server, `servers.py` is the table of them.
"""
