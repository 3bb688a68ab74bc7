"""What a watch asks for, and the driver that runs its machine: requests out, results in, what it delivered.

It knows one watch at a time and measures nothing; `watches` builds watches of it, `rehearse` drives machines by it.
"""
