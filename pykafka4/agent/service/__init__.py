"""The process of the agent.

Modules; each line imports only from lines below it:
    main    the command line: `pykafka4 agent`
    agent   Agent: all parts together, on one asyncio loop
"""
