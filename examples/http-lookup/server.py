"""The service: knows the countries of some cities, and takes a quarter of a second to say so.

python server.py [PORT]
"""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

COUNTRIES = {
    "France": ["Paris", "Lyon"],
    "Nigeria": ["Lagos", "Kano"],
    "Norway": ["Oslo", "Bergen"],
    "Peru": ["Lima", "Cusco"],
    "Ecuador": ["Quito"],
}
COUNTRY_OF = {city: country for country, cities in COUNTRIES.items() for city in cities}


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    def do_GET(self) -> None:
        time.sleep(0.25)
        country = COUNTRY_OF.get(unquote(self.path[1:]))
        body = json.dumps({"country": country}).encode()
        self.send_response(200 if country else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


def make_server(port: int) -> ThreadingHTTPServer:
    """A server on this machine; port 0 is any free one."""
    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


if __name__ == "__main__":
    make_server(int(sys.argv[1]) if sys.argv[1:] else 8765).serve_forever()
