SELECT name, city, state, auctions.id
FROM auctions JOIN persons ON auctions.seller = persons.id
WHERE category = 10 AND state IN ('OR', 'ID', 'CA')
