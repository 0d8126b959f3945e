"""The bolts of Nexmark that choose and change single tuples or keep something, by the list."""

from bisect import bisect
from datetime import UTC, datetime

import nexmark_events as events

import nexmark
from fulmen import ManyBolt


class Same(ManyBolt):
    """Bids as they are."""

    outputs = nexmark.Same.outputs

    def execute_many(self, tuples, collector):
        """Pass on bids."""
        collector.emit_many([(a, b, price, at, extra) for a, b, price, _, _, at, extra in tuples])


class Euros(ManyBolt):
    """Bids with their prices in another currency."""

    outputs = nexmark.Euros.outputs

    def execute_many(self, tuples, collector):
        """Convert bids."""
        collector.emit_many(
            [(a, b, 0.908 * price, at, extra) for a, b, price, _, _, at, extra in tuples]
        )


class SomeAuctions(ManyBolt):
    """The bids for one of 123 auctions."""

    outputs = nexmark.SomeAuctions.outputs

    def execute_many(self, tuples, collector):
        """Look at bids."""
        places = [i for i, row in enumerate(tuples) if row[0] % 123 == 0]
        collector.emit_many([(tuples[i][0], tuples[i][2]) for i in places], parents=places)


class Dated(ManyBolt):
    """Bids with their day and minute, as texts."""

    outputs = nexmark.Dated.outputs

    def execute_many(self, tuples, collector):
        """Format the times of bids."""
        rows = []
        for auction, bidder, price, _, _, time, extra in tuples:
            at = datetime.fromtimestamp(time / 1_000, UTC)
            day, minute = at.strftime("%Y-%m-%d %H:%M").split()
            rows.append((auction, bidder, price, time, extra, day, minute))
        collector.emit_many(rows)


class SideInput(ManyBolt):
    """Bids with a value from a table that fits into memory."""

    outputs = nexmark.SideInput.outputs
    transient = ("table",)

    def prepare(self, conf, context):
        """Read the table."""
        self.table = events.side_input()

    def execute_many(self, tuples, collector):
        """Join bids."""
        table, size = self.table, events.SIDE_INPUT
        collector.emit_many(
            [(a, bidder, price, at, table[a % size]) for a, bidder, price, _, _, at, _ in tuples]
        )


class Calculated(ManyBolt):
    """Bids of some prices in another currency, with what follows from their times and URLs."""

    outputs = nexmark.Calculated.outputs

    def execute_many(self, tuples, collector):
        """Look at bids."""
        rows, parents = [], []
        for i, (auction, bidder, price, _, url, time, extra) in enumerate(tuples):
            euros = 0.908 * price
            if 1_000_000 < euros < 50_000_000:
                hour = time // 3_600_000 % 24
                when = "day" if 8 <= hour <= 18 else "night" if hour <= 6 or hour >= 20 else "other"
                rows.append((auction, bidder, euros, when, time, extra, url.count("c")))
                parents.append(i)
        collector.emit_many(rows, parents=parents)


class ChannelIds(ManyBolt):
    """Bids whose channel has an id: a known one, or that of the URL."""

    outputs = nexmark.ChannelIds.outputs

    def execute_many(self, tuples, collector):
        """Look at bids."""
        rows, parents = [], []
        for i, (auction, bidder, price, channel, url, _, _) in enumerate(tuples):
            number = nexmark.KNOWN_CHANNELS.get(channel.lower())
            if number is None:
                found = nexmark.IN_URL.search(url)
                number = found and found[1]
            if number:
                rows.append((auction, bidder, price, channel, number))
                parents.append(i)
        collector.emit_many(rows, parents=parents)


class Directories(ManyBolt):
    """Bids with the directories of their URLs."""

    outputs = nexmark.Directories.outputs

    def execute_many(self, tuples, collector):
        """Split URLs."""
        collector.emit_many(
            [(a, b, price, c, *url.split("/")[3:6]) for a, b, price, c, url, _, _ in tuples]
        )


class LastBids(ManyBolt):
    """The last bid of each bidder for each auction: each of them is kept once for a list."""

    outputs = nexmark.LastBids.outputs

    def execute_many(self, tuples, collector):
        """Keep bids that are later than the last ones."""
        kept, rows, parents, get = {}, [], [], self.state.get
        for i, (auction, bidder, price, _, _, time, _) in enumerate(tuples):
            key, bid = (auction, bidder), (time, price)
            last = kept.get(key) or get(key)
            if last is None or bid > last:
                kept[key] = bid
                rows.append((auction, bidder, price, time))
                parents.append(i)
        self.state.update(kept)
        collector.emit_many(rows, parents=parents)


class TopTen(ManyBolt):
    """The ten highest bids of each auction, which are kept once for a list."""

    outputs = nexmark.TopTen.outputs

    def execute_many(self, tuples, collector):
        """Rank bids."""
        kept, changed, rows, parents = {}, set(), [], []
        for i, (auction, bidder, price, _, _, time, extra) in enumerate(tuples):
            best = kept.get(auction)
            if best is None:
                best = kept[auction] = list(self.state.get(auction, ()))
            bid = (-price, time, bidder, extra)
            place = bisect(best, bid)
            if place == 10:
                continue
            best.insert(place, bid)
            del best[10:]
            changed.add(auction)
            for rank, (lowered, at, who, text) in enumerate(best[place:], place + 1):
                rows.append((auction, rank, who, -lowered, at, text))
                parents.append(i)
        self.state.update({auction: kept[auction] for auction in changed})
        collector.emit_many(rows, parents=parents)
