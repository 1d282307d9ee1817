"""What a worker and its sandbox process say to each other: frames on a socket."""

import struct

#: The file descriptor of the socket, as the worker places it.
SOCKET = 3

#: A frame is its kind, the length of its body, and the body.
HEADER = struct.Struct("!BQ")
CALL, CANCEL = range(2)
READY, MESSAGE, RETURNED, RAISED, TOO_LARGE, OUT_OF_MEMORY = range(6)

#: Heads the body of a CALL: memory (0: any) and output it may have, in bytes.
ALLOWED = struct.Struct("!QQ")
#: Heads the body of a READY and of the frame that ends a call: CPU seconds of this process so far,
#: peak memory in bytes, and whether everything the call started is gone.
USAGE = struct.Struct("!dQ?")
