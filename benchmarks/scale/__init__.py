"""What grows with partitions. Rule: a turn of the loop costs what is ready, however many partitions there are.

`bars.py` of the folder above judges. `__main__` is the command line, `assigned`, `memory`, `states` and `traffic` are the cases, `reading`
and `sending` the clients in processes of their own, `server` the model cluster in another, `orders` how these are told what to do.
"""
