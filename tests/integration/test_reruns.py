"""A job re-run with other parameters, and with its uploaded file."""

import asyncio
from pathlib import Path

from ..audio_files import speech
from ..minimal_files import pdf
from ..sample_documents import encrypted_pdf
from ..service_fixture import ServiceClient, running_service


async def again(
    service: ServiceClient, job_id: str, user: str | None = None, **changes: object
) -> str:
    headers = {"X-User-ID": user} if user else {}
    body = {"parameters": changes}
    response = await service.client.post(f"/api/jobs/{job_id}/again", json=body, headers=headers)
    assert response.status_code == 202, response.text
    other: str = response.json()["data"]["job_id"]
    assert response.headers["location"] == f"/api/jobs/{other}"
    return other


async def test_a_file_that_failed_is_read_with_its_password(tmp_path: Path) -> None:
    content = encrypted_pdf(6, "sesame")
    async with running_service(tmp_path) as service:
        first = await service.ended(
            await service.submit_file("/api/pdf/process", content, "secret.pdf")
        )
        assert first["error"]["code"] == "FILE_ENCRYPTED"
        job_id = await again(service, first["job_id"], password="sesame")
        assert job_id != first["job_id"]
        job = await service.ended(job_id)
        assert job["status"] == "completed", job["error"]
        assert "Apples and pears" in job["results"]["extracted_text"]
        assert job["parameters"]["file_source"]["name"] == "secret.pdf"
        assert (await service.job(first["job_id"]))["status"] == "failed"
        # The first one still has its file.
        third = await service.ended(await again(service, first["job_id"], password="wrong"))
        assert third["error"]["code"] == "FILE_ENCRYPTED"


async def test_what_is_changed_to_null_is_as_if_nobody_had_said_it(tmp_path: Path) -> None:
    given = {"seconds": 0, "steps": 2, "note": "kept"}
    async with running_service(tmp_path) as service:
        first = await service.ended(await service.submit("selftest", **given))
        second = await service.job(await again(service, first["job_id"], steps=None, note="new"))
        assert second["parameters"] == {"seconds": 0, "extra": {"note": "new"}}


async def test_a_transcript_is_made_again_of_the_recording_that_was_kept(tmp_path: Path) -> None:
    async with running_service(tmp_path) as service:
        route, content = "/api/audio/process", speech().read_bytes()
        first = await service.ended(await service.submit_file(route, content, "talk.wav"))
        second = await service.ended(await again(service, first["job_id"], source_language="en"))
        assert second["status"] == "completed", second["error"]
        assert second["results"]["metadata"]["file_name"] == "talk.wav"
        assert (await service.get(second["results"]["recording"]["url"])).content == content
    assert await service.leftovers() == []


async def test_a_file_that_is_gone_is_a_conflict(tmp_path: Path) -> None:
    async with running_service(tmp_path) as service:
        job = await service.ended(
            await service.submit_file("/api/pdf/process", pdf("Page"), "a.pdf")
        )
        url = f"/api/jobs/{job['job_id']}/again"
        changed = {"parameters": {"include_images": True}}
        async with asyncio.timeout(10):  # a worker cleans up after the job has finished
            while (answer := await service.client.post(url, json=changed)).status_code == 202:
                await asyncio.sleep(0.05)
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "CONFLICT")
        wrong = await service.client.post(url, json={"parameters": {"page_start": "x", "url": "y"}})
        assert wrong.status_code == 400
        deep: object = 1
        for _ in range(200):
            deep = [deep]
        nested = await service.client.post(url, json={"parameters": {"url": "y", "context": deep}})
        assert nested.status_code == 400
    assert await service.leftovers() == []


async def test_nobody_runs_what_is_not_theirs(tmp_path: Path) -> None:
    async with running_service(tmp_path) as service:
        content = encrypted_pdf(6, "sesame")
        mine = await service.submit_file("/api/pdf/process", content, "a.pdf", user="anna")
        await service.ended(mine, "anna")
        url, body = f"/api/jobs/{mine}/again", {"parameters": {"password": "sesame"}}
        answer = await service.client.post(url, json=body, headers={"X-User-ID": "bert"})
        assert answer.status_code == 404
        listed = await service.client.get(f"/api/jobs/{mine}/files", headers={"X-User-ID": "bert"})
        assert listed.status_code == 404
        job = await service.ended(await again(service, mine, "anna", password="sesame"), "anna")
        assert (job["status"], job["user_id"]) == ("completed", "anna")
        listed = await service.client.get(
            f"/api/jobs/{job['job_id']}/files", headers={"X-User-ID": "anna"}
        )
        names = [file["name"] for file in listed.json()["data"]["files"]]
        assert names == [
            "document.md", "document.txt", "page_001.txt", "page_002.txt", "pages.json",
        ]  # fmt: skip
