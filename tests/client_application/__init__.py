"""The client application that the wire contract was written for, as far as it talks to the service.

It sends the fields that the real application sends, and it reads the answers as strictly: whatever
the application would reject or lose raises `ClientFailure`.
"""
