"""For HTTP clients of tests that never speak TLS: to load the certificates of all the world's
authorities takes each of them 25 ms of CPU."""

import ssl

#: Trusts nobody.
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
