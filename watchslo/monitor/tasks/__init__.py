"""Tasks that keep running, work in short slices, failures in the log, and the lag of this process.

It knows nothing of apiservers or watches; every other folder of `monitor` uses it.
"""
