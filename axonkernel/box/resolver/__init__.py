"""The process in the network namespace of a box: names, sets, reports."""
