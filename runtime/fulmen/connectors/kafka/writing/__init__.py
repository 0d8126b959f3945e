"""How a topic is written to: its producer, what becomes of refused rows, transactions with a mark.

Used by the sink.
"""
