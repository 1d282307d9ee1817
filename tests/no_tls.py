"""For HTTP clients of tests that never speak TLS: to load the certificates of all the world's
authorities takes each of them longer than ten requests."""

import ssl

#: Trusts nobody.
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
