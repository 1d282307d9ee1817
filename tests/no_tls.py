"""For HTTP clients of tests without TLS: loading all CA certificates takes 25 ms of CPU."""

import ssl

#: Trusts no certificates.
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
