"""Images described by a scripted vision model, through the whole service."""

import base64
import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from ..hostile_pictures import huge_png
from ..llm_fixture import service_with_models
from ..llm_server import fails, says
from ..minimal_files import pdf
from ..sample_documents import as_file
from ..service_fixture import ServiceClient, running_service
from ..web_server import WebRequest, serving
from ..webhook_receiver import Receiver
from .test_chat_jobs import last_event

ANALYZE = "/api/image-analyzer/process"
TEMPLATE = """---
title: {{title|A short title}}
tags: {{tags|list: Keywords}}
detailViewType: divaTexture
---
# {{title}}

{{description|What is visible}}
"""
FILLED = {"title": "Red", "tags": ["colour", "square"], "description": "A red square."}
COLOURS = ["red", "lime", "blue", "yellow"]


def picture(colour: str, kind: str = "PNG", size: tuple[int, int] = (40, 30)) -> bytes:
    return as_file(Image.new("RGB", size, colour), kind)


#: As the client application sends it; forms have CRLF at their line ends.
FIELDS = {
    "template_content": TEMPLATE.replace("\n", "\r\n"),
    "target_language": "de",
    "context": json.dumps({"fileName": "a.png", "mimeType": "image/png", "libraryId": "l"}),
    "useCache": "false",
}


async def analyzed(
    service: ServiceClient, *images: tuple[str, bytes], name: str = "files", **fields: str
) -> dict[str, Any]:
    files = [(name, image) for image in images]
    response = await service.client.post(ANALYZE, files=files, data={**FIELDS, **fields})
    assert response.status_code == 200, response.text
    document: dict[str, Any] = response.json()
    assert document["status"] == "success"
    assert response.headers["x-process-id"] == document["process"]["id"]
    return document


def pictures_in(request: dict[str, Any]) -> list[Image.Image]:
    """What the model sees, in order."""
    parts = request["messages"][-1]["content"]
    urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    data = [base64.b64decode(url.removeprefix("data:image/jpeg;base64,")) for url in urls]
    return [Image.open(io.BytesIO(one)) for one in data]


def seen(request: dict[str, Any]) -> list[tuple[int, int, int]]:
    """The colours of the pictures, rounded: JPEG changes them slightly."""
    pixels = [image.getpixel((5, 5)) for image in pictures_in(request)]
    return [tuple(round(value / 255) * 255 for value in pixel) for pixel in pixels]  # type: ignore


class TestOneImage:
    async def test_the_filled_template_is_the_text(self, tmp_path: Path) -> None:
        async with service_with_models(tmp_path, says(json.dumps(FILLED))) as (service, server):
            fields = {"model": "google/gemini-2.5-flash", "name": "file"}
            document = await analyzed(service, ("a.png", picture("red")), **fields)
        data = document["data"]
        assert data["text"].startswith("---\ntitle: ")
        head = data["text"].split("---\n")[1]
        assert "detailViewType: divaTexture\n" in head and "\r" not in data["text"]
        assert data["text"].endswith("# Red\n\nA red square.\n")
        assert data["structured_data"] == FILLED
        (request,) = server.requests
        assert request["model"] == "google/gemini-2.5-flash"
        assert seen(request) == [(255, 0, 0)]
        assert "German" in request["messages"][0]["content"]
        assert '"fileName": "a.png"' in request["messages"][1]["content"][0]["text"]
        assert document["process"]["llm_info"]["requests"][0]["purpose"] == "vision"

    async def test_descriptions_of_fields_reach_the_model(self, tmp_path: Path) -> None:
        async with service_with_models(tmp_path, says(json.dumps(FILLED))) as (service, server):
            more = {"additional_field_descriptions": json.dumps({"title": "At most two words"})}
            await analyzed(service, ("a.png", picture("red")), **more)
        assert "At most two words" in server.requests[0]["messages"][0]["content"]

    async def test_without_a_template_it_is_described(self, tmp_path: Path) -> None:
        async with service_with_models(tmp_path, says("# Red\n\nA square.")) as (service, server):
            files = {"file": ("a.png", picture("red"))}
            response = await service.client.post(ANALYZE, files=files)
            data = response.json()["data"]
        assert data["text"] == "# Red\n\nA square.\n" and data["structured_data"] is None
        assert seen(server.requests[0]) == [(255, 0, 0)]

    async def test_a_large_picture_is_sent_smaller_and_upright(self, tmp_path: Path) -> None:
        exif = Image.Exif()
        exif[0x0112] = 6
        lying = as_file(Image.new("RGB", (3000, 1500), "blue"), "JPEG", exif=exif)
        async with service_with_models(tmp_path, says(json.dumps(FILLED))) as (service, server):
            await analyzed(service, ("a.jpg", lying))
        (image,) = pictures_in(server.requests[0])
        assert image.size == (1000, 2000)

    async def test_an_image_may_be_a_url(self, tmp_path: Path) -> None:
        async def answer(request: WebRequest) -> None:
            await request.answer(picture("lime"), headers={"Content-Type": "image/png"})

        async with serving(answer) as web:
            groups = {"network": {"allow_hosts": [web.host]}}
            reply = says(json.dumps(FILLED))
            async with service_with_models(tmp_path, reply, groups=groups) as (service, server):
                body = {"url": web.url("/a.png"), "template_content": TEMPLATE}
                for route in (f"{ANALYZE}-url", ANALYZE):
                    response = await service.client.post(route, json=body)
                    assert response.status_code == 200, response.text
        assert seen(server.requests[0]) == [(0, 255, 0)]


class TestSeveralImages:
    async def test_the_model_gets_all_of_them_in_order(self, tmp_path: Path) -> None:
        async with service_with_models(tmp_path, says(json.dumps(FILLED))) as (service, server):
            images = [("same.png", picture(colour)) for colour in COLOURS]
            document = await analyzed(service, *images)
            assert await service.leftovers() == []
        assert seen(server.requests[0]) == [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0)]
        metadata = document["data"]["metadata"]
        names = ["same.png", "2-same.png", "3-same.png", "4-same.png"]
        assert (metadata["image_count"], metadata["image_names"]) == (4, names)

    async def test_another_order_is_another_request_for_the_cache(self, tmp_path: Path) -> None:
        one, other = ("a.png", picture("red")), ("b.png", picture("blue"))
        async with service_with_models(tmp_path, says(json.dumps(FILLED))) as (service, server):
            await analyzed(service, one, other, useCache="true")
            again = await analyzed(service, one, other, useCache="true")
            assert again["process"]["is_from_cache"] and len(server.requests) == 1
            await analyzed(service, other, one, useCache="true")
            assert len(server.requests) == 2
            await analyzed(service, one, other, useCache="false")
            assert len(server.requests) == 3

    async def test_a_failed_job_can_be_restarted_and_rerun_with_all_of_them(
        self, tmp_path: Path
    ) -> None:
        replies = (fails("401 Unauthorized"), says(json.dumps(FILLED)))
        async with service_with_models(tmp_path, *replies) as (service, server):
            files = [("files", ("a.png", picture("red"))), ("files", ("a.png", picture("blue")))]
            data = {**FIELDS, "async": "true"}
            response = await service.client.post(ANALYZE, files=files, data=data)
            assert response.status_code == 202, response.text
            job = await service.ended(response.json()["job_id"])
            assert job["status"] == "failed"
            again = await service.client.post(f"/api/jobs/{job['job_id']}/again", json={})
            assert again.is_success, again.text
            assert (await finished(service, again.json()["data"]["job_id"]))["text"]
            again = await service.client.post(f"/api/jobs/{job['job_id']}/restart")
            assert again.is_success, again.text
            assert (await finished(service, job["job_id"]))["structured_data"] == FILLED
        # The restarted job finds the answer that was made meanwhile.
        assert [seen(request) for request in server.requests] == [[(255, 0, 0), (0, 0, 255)]] * 2

    async def test_jobs_may_name_several_urls(self, tmp_path: Path) -> None:
        async def answer(request: WebRequest) -> None:
            colour = request.target.strip("/").partition(".")[0]
            await request.answer(picture(colour), headers={"Content-Type": "image/png"})

        async with serving(answer) as web:
            groups = {"network": {"allow_hosts": [web.host]}}
            reply = says(json.dumps(FILLED))
            async with service_with_models(tmp_path, reply, groups=groups) as (service, server):
                sources = [
                    {"type": "url", "value": web.url(f"/{colour}.png")} for colour in COLOURS[:2]
                ]
                job_id = await service.submit(
                    "imageanalyzer", file_sources=sources, template_content=TEMPLATE
                )
                assert (await finished(service, job_id))["structured_data"] == FILLED
        assert seen(server.requests[0]) == [(255, 0, 0), (0, 255, 0)]

    async def test_a_callback_gets_the_text(self, tmp_path: Path) -> None:
        with Receiver().running() as receiver:
            groups = {"network": {"allow_hosts": [receiver.host]}}
            reply = says(json.dumps(FILLED))
            async with service_with_models(tmp_path, reply, groups=groups) as (service, _):
                files = [("files", ("a.png", picture("red")))]
                data = {**FIELDS, "callback_url": receiver.url()}
                response = await service.client.post(ANALYZE, files=files, data=data)
                assert response.status_code == 202, response.text
                event = await last_event(receiver)
        assert event["data"]["text"].startswith("---\n")
        assert event["data"]["structured_data"] == FILLED


class TestErrors:
    @pytest.mark.parametrize(
        ("images", "status", "message"),
        [
            ([("a.png", b"")], 415, "The file is empty"),
            ([("a.pdf", pdf("x"))], 415, "The file type is pdf"),
            ([("a.png", picture("red")), ("b.pdf", pdf("x"))], 415, "b.pdf: The file type is pdf"),
            ([("a.png", picture("red")), ("b.png", b"")], 415, "b.png: The file is empty"),
            ([(f"{n}.png", picture("red")) for n in range(11)], 400, "at most 10 files"),
            ([], 400, "file: a file or a url is required"),
        ],
    )
    async def test_files_that_cannot_be_used_are_refused(
        self, tmp_path: Path, images: list[tuple[str, bytes]], status: int, message: str
    ) -> None:
        async with running_service(tmp_path) as service:
            files = [("files", image) for image in images]
            response = await service.client.post(ANALYZE, files=files, data=FIELDS)
            assert response.status_code == status, response.text
            assert message in response.json()["error"]["message"]
            assert await service.leftovers() == []

    async def test_an_empty_file_input_beside_files_is_ignored(self, tmp_path: Path) -> None:
        async with service_with_models(tmp_path, says(json.dumps(FILLED))) as (service, server):
            boundary = "b0undary"
            parts = [("a.png", picture("red")), ("", b""), ("b.png", picture("blue"))]
            body = b"".join(
                f'--{boundary}\r\nContent-Disposition: form-data; name="files"; '
                f'filename="{name}"\r\n\r\n'.encode()
                + content
                + b"\r\n"
                for name, content in parts
            )
            response = await service.client.post(
                ANALYZE,
                content=body + f"--{boundary}--\r\n".encode(),
                headers={"Content-Type": f"multipart/form-data; boundary={boundary}"},
            )
            assert response.status_code == 200, response.text
        assert seen(server.requests[0]) == [(255, 0, 0), (0, 0, 255)]

    async def test_a_picture_of_too_many_pixels_is_a_413(self, tmp_path: Path) -> None:
        async with service_with_models(tmp_path, says("No")) as (service, server):
            files = {"file": ("a.png", huge_png(30_000))}
            response = await service.client.post(ANALYZE, files=files, data=FIELDS)
            assert response.status_code == 413, response.text
            assert response.json()["error"]["code"] == "FILE_TOO_LARGE" and server.requests == []

    async def test_without_a_vision_model_the_error_names_the_setting(self, tmp_path: Path) -> None:
        async with running_service(tmp_path) as service:
            files = {"file": ("a.png", picture("red"))}
            response = await service.client.post(ANALYZE, files=files, data=FIELDS)
        assert response.status_code == 503, response.text
        error = response.json()["error"]
        assert error["code"] == "ENGINE_UNAVAILABLE" and "llm.vision_model" in error["message"]

    @pytest.mark.parametrize(
        ("fields", "named"),
        [
            ({"template_content": "{{a"}, "template_content"),
            ({"context": "{"}, "context"),
            ({"additional_field_descriptions": "[]"}, "additional_field_descriptions"),
            ({"files": "a.png"}, "files: must be sent as a file"),
        ],
    )
    async def test_a_field_that_is_wrong_is_a_400_that_names_it(
        self, tmp_path: Path, fields: dict[str, str], named: str
    ) -> None:
        async with running_service(tmp_path) as service:
            files = {"file": ("a.png", picture("red"))}
            response = await service.client.post(ANALYZE, files=files, data={**FIELDS, **fields})
            assert response.status_code == 400, response.text
            assert named in response.json()["error"]["message"]


async def finished(service: ServiceClient, job_id: str) -> dict[str, Any]:
    job = await service.ended(job_id)
    assert job["status"] == "completed", job["error"]
    results: dict[str, Any] = job["results"]
    return results
