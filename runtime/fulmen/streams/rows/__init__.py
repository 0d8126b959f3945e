"""Rows: how functions see them, and what an input's expressions make of them. Pure.

Below all other folders of `streams`: nothing here knows of calls, bolts or topologies.
"""
