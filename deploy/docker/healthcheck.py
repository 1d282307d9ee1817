"""Checks that the process in this container is alive; HEALTH_URL overrides the URL.

The store is not checked: restarting the container would not bring it back.
"""

import os
import sys
from urllib.request import ProxyHandler, build_opener

URL = os.environ.get("HEALTH_URL", "http://127.0.0.1:5000/api/health/live")

try:
    build_opener(ProxyHandler({})).open(URL, timeout=4).close()
except OSError as error:
    sys.exit(f"{URL}: {error}")
