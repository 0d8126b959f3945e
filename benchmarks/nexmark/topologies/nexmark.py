"""The spouts of Nexmark, the bolts that its queries need besides `fulmen.windows`, and sinks."""

import re
from bisect import bisect
from datetime import UTC, datetime
from zlib import crc32

import nexmark_events as events

from fulmen import BasicBolt, Sink, Spout, Stream
from fulmen.windows import WindowedBolt

KNOWN_CHANNELS = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}
IN_URL = re.compile(r"(?:&|^)channel_id=([^&]*)")


def typed(fields):
    """A stream of events."""
    is_number = events.WHOLE_NUMBERS.__contains__
    return Stream(fields, types={f: "int64" if is_number(f) else "string" for f in fields})


class Events(Spout):
    """Persons, auctions and bids, as fast as they are taken: so many as `events` says.

    They are made beforehand, and emitted by the list, each stream of it at once. A quarter of them
    ends a batch, so that it can be measured from there. `rounds`: so many times they are emitted.
    `emits: false`: they are made, and no more.
    """

    outputs = {name: typed(fields) for name, fields in events.STREAMS.items()}  # noqa: RUF012
    transient = ("lists", "quarter")
    made = staticmethod(events.chunk)

    def __init__(self):
        self.position = self.sequence = 0

    def open(self, conf, context, collector):
        """Make the events."""
        self.collector = collector
        rate, size = conf.get("rate", events.EVENTS_PER_SECOND), conf.get("list", events.LIST)
        self.lists = events.lists(conf["events"], rate, size, self.made) * conf.get("rounds", 1)
        self.quarter = -(-len(self.lists) // 4)
        if not conf.get("emits", True):
            self.position = len(self.lists)

    def next_tuple(self):
        """One list of events."""
        if self.position in (self.quarter, len(self.lists)):
            self.quarter = None
            return False
        rows_of = {name: [] for name in self.outputs}
        for stream, values in self.lists[self.position]:
            rows_of[stream].append(values)
        self.position += 1
        for stream, rows in rows_of.items():
            if rows:
                end = self.sequence + len(rows)
                self.collector.emit_many(rows, stream, range(self.sequence, end))
                self.sequence = end
        return True

    def is_exhausted(self):
        """Whether there are no more."""
        return self.position == len(self.lists)


class AdEvents(Events):
    """All ads, and in the batches after that events of ads."""

    outputs = {"ads": typed(events.ADS), "events": typed(events.AD_EVENTS)}  # noqa: RUF012
    made = staticmethod(events.ad_chunk)

    def __init__(self):
        super().__init__()
        self.has_told_ads = False

    def next_tuple(self):
        """The ads, or one list of events."""
        if self.has_told_ads:
            return super().next_tuple()
        self.has_told_ads = True
        self.collector.emit_many([values for _, values in events.ads()], "ads")
        return False


# ---- what chooses and changes single tuples


class Euros(BasicBolt):
    """Bids with their prices in another currency."""

    outputs = ("auction", "bidder", "price", "time", "extra")

    def execute(self, tup, collector):
        """Convert one bid."""
        auction, bidder, price, _, _, time, extra = tup.values
        collector.emit([auction, bidder, 0.908 * price, time, extra])


class Same(BasicBolt):
    """Bids as they are."""

    outputs = ("auction", "bidder", "price", "time", "extra")

    def execute(self, tup, collector):
        """Pass on one bid."""
        auction, bidder, price, _, _, time, extra = tup.values
        collector.emit([auction, bidder, price, time, extra])


class Dated(BasicBolt):
    """Bids with their day and minute, as texts."""

    outputs = ("auction", "bidder", "price", "time", "extra", "day", "minute")

    def execute(self, tup, collector):
        """Format the time of one bid."""
        auction, bidder, price, _, _, time, extra = tup.values
        at = datetime.fromtimestamp(time / 1_000, UTC)
        day, minute = at.strftime("%Y-%m-%d %H:%M").split()
        collector.emit([auction, bidder, price, time, extra, day, minute])


class Calculated(BasicBolt):
    """Bids of some prices in another currency, with what follows from their times and URLs."""

    outputs = ("auction", "bidder", "price", "time_of_day", "time", "extra", "letters")

    def execute(self, tup, collector):
        """Look at one bid."""
        auction, bidder, price, _, url, time, extra = tup.values
        if not 1_000_000 < 0.908 * price < 50_000_000:
            return
        hour = time // 3_600_000 % 24
        when = "day" if 8 <= hour <= 18 else "night" if hour <= 6 or hour >= 20 else "other"
        collector.emit([auction, bidder, 0.908 * price, when, time, extra, url.count("c")])


class ChannelIds(BasicBolt):
    """Bids whose channel has an id: a known one, or that of the URL."""

    outputs = ("auction", "bidder", "price", "channel", "channel_id")

    def execute(self, tup, collector):
        """Look at one bid."""
        auction, bidder, price, channel, url, _, _ = tup.values
        number = KNOWN_CHANNELS.get(channel.lower())
        if number is None:
            found = IN_URL.search(url)
            number = found and found[1]
        if number:
            collector.emit([auction, bidder, price, channel, number])


class Directories(BasicBolt):
    """Bids with the directories of their URLs."""

    outputs = ("auction", "bidder", "price", "channel", "dir1", "dir2", "dir3")

    def execute(self, tup, collector):
        """Split one URL."""
        auction, bidder, price, channel, url, _, _ = tup.values
        collector.emit([auction, bidder, price, channel, *url.split("/")[3:6]])


class SomeAuctions(BasicBolt):
    """The bids for one of 123 auctions."""

    outputs = ("auction", "price")

    def execute(self, tup, collector):
        """Look at one bid."""
        if tup["auction"] % 123 == 0:
            collector.emit([tup["auction"], tup["price"]])


class SideInput(BasicBolt):
    """Bids with a value from a table that fits into memory."""

    outputs = ("auction", "bidder", "price", "time", "value")
    transient = ("table",)

    def prepare(self, conf, context):
        """Read the table."""
        self.table = events.side_input()

    def execute(self, tup, collector):
        """Join one bid."""
        auction, bidder, price, _, _, time, _ = tup.values
        collector.emit([auction, bidder, price, time, self.table[auction % events.SIDE_INPUT]])


class Ranks(BasicBolt):
    """Bids with bidder and auction once more in the fields of their rank, which is by price."""

    outputs = (
        *("channel", "time", "minute", "price", "bidder", "auction"),
        *(f"{name}{rank}" for rank in (1, 2, 3) for name in ("bidder", "auction")),
    )

    def execute(self, tup, collector):
        """Rank one bid."""
        auction, bidder, price, channel, _, time, _ = tup.values
        place = 0 if price < 10_000 else 2 if price < 1_000_000 else 4
        ranked = [None] * 6
        ranked[place : place + 2] = bidder, auction
        minute = time // 60_000 % 1_440
        collector.emit([channel, time, minute, price, bidder, auction, *ranked])


# ---- what keeps something


class FinalPrices(BasicBolt):
    """The highest bid of each auction, when it has expired. It receives auctions with bids."""

    outputs = ("category", "price")
    emits_results = True

    def prepare(self, conf, context):
        """Take the timers."""
        self.timers = context.timers

    def execute(self, tup, collector):
        """Keep a bid, if it has come before the end."""
        auction, category, expires, price, time = tup.values
        if time > expires:
            return
        highest = self.state.get(auction)
        if highest is None:
            self.timers.set(auction, expires + 1)
        if highest is None or price > highest[1]:
            self.state[auction] = category, price

    def on_timer(self, key, at, collector):
        """The auction is over."""
        collector.emit([*self.state.pop(key)])


class WinningBids(BasicBolt):
    """The highest bid of each auction, when that has expired; the earliest of several."""

    outputs = (
        *("item", "initial", "reserve", "seller", "category", "expires", "time", "extra"),
        *("auction", "bidder", "price", "bid_time", "bid_extra"),
    )
    emits_results = True

    def prepare(self, conf, context):
        """Take the timers."""
        self.timers = context.timers

    def execute(self, tup, collector):
        """Keep a bid that comes before the end and is better than the one so far."""
        row = tup.values
        expires, (auction, bidder, price, time) = row[5], row[8:12]
        if time > expires:
            return
        best, rank = self.state.get(auction), (-price, time, bidder)
        if best is None:
            self.timers.set(auction, expires + 1)
        if best is None or rank < best[0]:
            self.state[auction] = rank, row

    def on_timer(self, key, at, collector):
        """The auction is over."""
        collector.emit([*self.state.pop(key)[1]])


class Sellers(BasicBolt):
    """The mean of what each seller's last ten auctions have brought."""

    outputs = ("seller", "price")

    def execute(self, tup, collector):
        """Add an auction."""
        sold = (tup["expires"], tup["auction"], tup["price"])
        last = sorted([*self.state.get(tup["seller"], ()), sold])[-10:]
        self.state[tup["seller"]] = last
        collector.emit([tup["seller"], sum(price for _, _, price in last) / len(last)])


class TopTen(BasicBolt):
    """The ten highest bids of each auction. Emits the rank of a bid, and of those that it moves."""

    outputs = ("auction", "rank", "bidder", "price", "time", "extra")

    def execute(self, tup, collector):
        """Rank one bid."""
        auction, bidder, price, _, _, time, extra = tup.values
        best = self.state.get(auction, [])
        bid = (-price, time, bidder, extra)
        place = bisect(best, bid)
        if place == 10:
            return
        self.state[auction] = best = [*best[:place], bid, *best[place:9]]
        for rank, (lowered, at, who, text) in enumerate(best[place:], place + 1):
            collector.emit([auction, rank, who, -lowered, at, text])


class Counted(BasicBolt):
    """Of counts in windows only whose they are, and how many."""

    outputs = ("bidder", "bids")

    def execute(self, tup, collector):
        """Take one count."""
        collector.emit([tup["bidder"], tup["bids"]])


class Averages(BasicBolt):
    """The mean price of each category so far."""

    outputs = ("category", "price")

    def execute(self, tup, collector):
        """Add a price."""
        category, price = tup.values
        count, total = self.state.get(category, (0, 0))
        count, total = self.state[category] = count + 1, total + price
        collector.emit([category, total / count])


class LastBids(BasicBolt):
    """The last bid of each bidder for each auction; of those at the same time the highest."""

    outputs = ("auction", "bidder", "price", "time")

    def execute(self, tup, collector):
        """Keep a bid that is later than the last one."""
        auction, bidder, price, _, _, time, _ = tup.values
        last = self.state.get((auction, bidder))
        if last is None or (time, price) > last:
            self.state[auction, bidder] = time, price
            collector.emit([auction, bidder, price, time])


class Hottest(WindowedBolt):
    """The auctions with the most bids. It receives all counts of a window in a window."""

    outputs = ("auction", "bids", "window_end")

    def prepare(self, conf, context, collector):
        """Take the collector."""
        self.collector = collector

    def execute(self, window):
        """Emit those of one window."""
        most = max(tup["bids"] for tup in window.tuples)
        for tup in window.tuples:
            if tup["bids"] == most:
                self.collector.emit([tup["auction"], most, tup["window_end"]])


# ---- sinks


def plain(values):
    """Values as SQL has them: times are milliseconds."""
    return [round(v.timestamp() * 1000) if isinstance(v, datetime) else v for v in values]


def fingerprint(values):
    """A number for a row. The sum of those of all rows does not depend on their order."""
    return crc32(repr(plain(values)).encode()) >> 4


class Count(Sink):
    """Counts what it receives, and no more: `rows` is a metric."""

    takes_parts = True
    transient = ("gauge",)

    def __init__(self):
        self.rows = 0

    def prepare(self, conf, context):
        """Declare the metric."""
        self.gauge = context.gauge("rows", "Rows that were written.")

    def write(self, rows, mark):
        """Count some."""
        self.rows += len(rows)
        self.gauge.set(self.rows)


class Rows(BasicBolt):
    """Counts what it receives, and adds up its fingerprints: `rows` and `digest` are metrics."""

    transient = ("gauges",)

    def __init__(self):
        self.rows = self.digest = 0

    def prepare(self, conf, context):
        """Declare the metrics."""
        self.gauges = [
            context.gauge("rows", "Rows that are in the result."),
            context.gauge("digest", "The sum of their fingerprints."),
        ]

    def execute(self, tup, collector):
        """Take one row."""
        self.rows += 1
        self.digest += fingerprint(tup.values)

    def end_batch(self, collector):
        """Show both."""
        for gauge, value in zip(self.gauges, (self.rows, self.digest), strict=True):
            gauge.set(value)


class Latest(Rows):
    """Keeps the row that came last for each key, as a table with a primary key does."""

    transient = (*Rows.transient, "key")

    def prepare(self, conf, context):
        """Read the key."""
        super().prepare(conf, context)
        self.key = conf["key"]

    def execute(self, tup, collector):
        """Replace one row."""
        key = tuple(tup[name] for name in self.key)
        before, after = self.state.get(key), fingerprint(tup.values)
        self.rows += before is None
        self.digest += after - (before or 0)
        self.state[key] = after


class Sums(Rows):
    """Keeps the sum of the second field for each value of the first, as a row of a table."""

    def execute(self, tup, collector):
        """Add one row."""
        key, number = tup.values
        before = self.state.get(key, 0)
        self.state[key] = before + number
        self.rows += not before
        self.digest += fingerprint([key, before + number])
        self.digest -= fingerprint([key, before]) if before else 0
