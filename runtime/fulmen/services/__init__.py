"""Systems that components connect to: PostgreSQL, SQLite, Redis, Kafka, RabbitMQ, HTTP, buckets.

A module or a room for each: how its client is opened, shared and closed, how it is described
without its password, and one table of what its errors mean. `service` is what they have in common,
`errors` what maps and tables are refused with, `pools` lends connections. Uses `api`, `errors`,
`secrets` and the systems' own clients, each of which is an extra of the package and is imported
only by its module. Used by `connectors`, `transactional` and `checkpoint`.
"""
