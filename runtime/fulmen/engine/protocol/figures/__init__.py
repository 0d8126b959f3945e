"""Figures and samples from stages, for people who look.

Counts and times, reasons of failures, tuples of taps, and notes for traces. Uses `sampling`.
"""
