SELECT DISTINCT persons.id, name, persons.time // 10000 * 10000 AS window_start,
    window_start + 10000 AS window_end
FROM persons JOIN auctions
    ON persons.id = auctions.seller AND persons.time // 10000 = auctions.time // 10000
