"""What can be plugged in.

Provider hooks (process-wide, synchronous): `model`, `services`, `tool`, `agent`, `surfaces`.
Lifecycle hooks (per runner): `lifecycle`. `table` states the result rule of every hook.
"""
