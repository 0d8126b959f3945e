"""HTTP, by aiohttp: endpoints that are asked, and a server whose clients can be handed over.

Uses `services.service`. Used by `connectors`, and, for the handover, by what ends and begins runs.
"""
