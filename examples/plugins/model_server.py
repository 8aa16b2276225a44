"""A stand-in for a local model's server: ``python model_server.py PORT`` answers a prompt with one sentence."""

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer


class Handler(BaseHTTPRequestHandler):
    """POST ``{"prompt": …}`` gives ``{"text": …}``."""

    def do_POST(self) -> None:
        """Answer one prompt."""
        prompt = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["prompt"]
        body = json.dumps(
            {"text": "begin by looking" if "tools: none" in prompt else "check what you did"}
        ).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
