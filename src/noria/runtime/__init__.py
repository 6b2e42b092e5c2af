"""Runs the machine: the asyncio driver, the scheduler, recovery, the simulator, the bus."""
