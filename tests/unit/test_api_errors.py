from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient

from secretary.api.responses import add_error_handlers
from secretary.network.client import Network


async def test_a_url_that_may_not_be_reached_is_a_mistake_of_the_client() -> None:
    api = FastAPI()
    add_error_handlers(api)

    @api.post("/")
    async def submit() -> None:
        Network().check("http://10.0.0.1/hook?key=SECRET")

    async with AsyncClient(transport=ASGITransport(api), base_url="http://test") as client:
        answer = await client.post("/")
    assert answer.status_code == 400
    assert answer.json()["error"] == {
        "code": "VALIDATION_ERROR",
        "message": "10.0.0.1 is not a public address, and not among the allowed hosts",
        "details": {"host": "10.0.0.1"},
    }
