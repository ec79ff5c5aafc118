"""Trackers, which record the progress and scores of runs with other tools, each in a process of its
own.
"""
