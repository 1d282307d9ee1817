"""A Redis that syncs each write to disk before it answers, as a queue needs it whose jobs must not
be lost in a power cut."""

import redis_service

if __name__ == "__main__":
    redis_service.main(["--appendonly", "yes", "--appendfsync", "always"])
