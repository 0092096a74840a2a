"""A test endpoint for `bad_job.py`: takes whatever is posted to it, and answers a key that it knows as it did before.

python office.py [--port 8701]
"""

from __future__ import annotations

import argparse
import itertools
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

RECEIPTS: dict[str, int] = {}
NUMBERS = itertools.count(1)


class Office(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        key = self.headers.get("Idempotency-Key") or ""
        number = RECEIPTS.setdefault(key, next(NUMBERS)) if key else next(NUMBERS)
        body = json.dumps({"receipt": number}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Nothing is logged."""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8701, help="0: any that is free")
    with ThreadingHTTPServer(("127.0.0.1", parser.parse_args().port), Office) as server:
        print(f"the office answers at http://127.0.0.1:{server.server_address[1]}", flush=True)
        server.serve_forever()
