"""A server that asks for user and password, and passes on the requests of who has them."""

import threading
from base64 import b64encode
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import HTTPError
from urllib.request import Request, urlopen


@contextmanager
def login_gate(target, login, address="127.0.0.1"):
    """One in front of an HTTP server. Gives its port.

    Args:
        target: The address of the server: `http://host:port`.
        login: `user:password`.
        address: Of this machine, where it listens.
    """
    wanted = f"Basic {b64encode(login.encode()).decode()}"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self._answer(None)

        def do_POST(self):
            self._answer(self.rfile.read(int(self.headers["Content-Length"])))

        def _answer(self, body):
            if self.headers.get("Authorization") != wanted:
                return self._send(401, b"<html>Who are you?</html>")
            kind = {"Content-Type": self.headers.get("Content-Type") or "application/json"}
            try:
                with urlopen(Request(target + self.path, body, kind)) as answer:
                    return self._send(answer.status, answer.read())
            except HTTPError as error:
                with error:
                    return self._send(error.code, error.read())

        def _send(self, status, body):
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format, *args):
            """Nothing is printed."""

    server = ThreadingHTTPServer((address, 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
