"""A server of HTTP for one spout: what it refuses, keeps waiting, answers and passes on.

`listener` receives requests, as `received` describes them and their answers, once `authentication`
lets them in; `values` is an answer in parts, and `passing_on` leaves requests to another driver.
Uses `services` and the options in `served`, whose spouts use it.
"""
