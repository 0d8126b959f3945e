"""Calls at once, of a process of its own: `many_calls.py URL COUNT` prints how many got what."""

import asyncio
import json
import sys
from collections import Counter

import aiohttp

SECONDS = 300
EACH_SECOND = 150
"""So many begin. A client with more to do than it has time for would send no request in its ten
seconds, so that its connections are closed."""


async def main(url, count):
    limit = aiohttp.ClientTimeout(SECONDS)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=limit) as session:

        async def call(number):
            await asyncio.sleep(number / EACH_SECOND)
            while True:
                try:
                    async with session.post(url, json=number) as answer:
                        is_right = await answer.json() == number
                        return f"{answer.status} {'right' if is_right else 'wrong'}"
                except aiohttp.ClientConnectionError:  # the request did not come in time
                    continue

        answers = await asyncio.gather(*map(call, range(count)))
    print(json.dumps(Counter(answers)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
