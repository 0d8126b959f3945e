"""Ports for servers that are killed and started again."""

import random
import socket
from contextlib import closing, suppress
from pathlib import Path


def free_port(address="127.0.0.1"):
    """A port that nobody listens on, nor gets for a connection.

    A client that tries again and again to connect to a server that is down is given one port after
    another by the system: at some time the server's own, if that is one of these.
    """
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.SystemRandom().randrange(10_000, min(lowest, 30_000))
        with closing(socket.socket()) as probe, suppress(OSError):
            probe.bind((address, port))
            return port


def is_open(port, address="127.0.0.1"):
    """Whether somebody listens there.

    To be asked before a client is: those of Redis and of a registry try again by themselves after
    a second, two and four, and a try of pika takes forty times as long.
    """
    with closing(socket.socket()) as probe:
        probe.settimeout(1)
        return probe.connect_ex((address, port)) == 0
