"""Writes DataFrames into topics. Rule: a task ends when all of its rows are acknowledged.

Modules; each line imports only from lines below it:
    batch    the writer of df.write
    stream   the writer of df.writeStream
"""
