import socket

from secretary.server import listen


def test_an_answer_does_not_wait_until_its_first_packet_is_acknowledged() -> None:
    with (
        listen("127.0.0.1", 0, loopback_only=True) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
