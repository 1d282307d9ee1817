"""Custom handlers replace built-in ones, behind the same routes."""

from pathlib import Path

from ..minimal_files import pdf
from ..service_fixture import running_service

DOCUMENT = pdf("One")


async def test_a_legacy_handler_replaces_a_built_in_type(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    handlers = ["tests.replacing_handlers:register_legacy"]
    async with running_service(tmp_path / "data", handlers=handlers) as service:
        # The built-in handler would refuse this method.
        fields = {"extraction_method": "by_hand", "page_start": "first"}
        job_id = await service.submit_file("/api/pdf/process", DOCUMENT, "report.pdf", **fields)
        job = await service.ended(job_id)
        assert job["error"] is None
        assert job["results"]["extracted_text"] == f"by_hand: {len(DOCUMENT)} bytes"
        assert "reading report.pdf" in [entry["message"] for entry in job["logs"]]

        url = "https://example.com/a.pdf"
        from_url = await service.ended(await service.submit("pdf", url=url, file_path="/etc/hosts"))
        assert from_url["results"]["extracted_text"] == f"None of {url}"

        for parameters in (
            {"file_path": str(tmp_path / "secret.txt")},
            {"file_path": "../../secret.txt"},
            {"extra": {"file_path": str(tmp_path / "secret.txt")}},
        ):
            refused = await service.ended(await service.submit("pdf", **parameters))
            assert refused["status"] == "failed"
            assert refused["error"]["code"] == "VALIDATION_ERROR"


async def test_a_current_handler_replaces_a_built_in_type(tmp_path: Path) -> None:
    handlers = ["tests.replacing_handlers:register_current"]
    async with running_service(tmp_path / "data", handlers=handlers) as service:
        results = await service.read("/api/pdf/process", DOCUMENT, "report.pdf", page_start="first")
        assert results["extracted_text"] == f"report.pdf has {len(DOCUMENT)} bytes"
        failed = await service.ended(await service.submit("pdf"))
        assert failed["error"]["message"] == "A file or a url is needed"


async def test_the_last_of_several_custom_handlers_is_used(tmp_path: Path) -> None:
    names = ("legacy", "current")
    handlers = [f"tests.replacing_handlers:register_{name}" for name in names]
    async with running_service(tmp_path / "data", handlers=handlers) as service:
        results = await service.read("/api/pdf/process", DOCUMENT, "report.pdf")
        assert results["extracted_text"] == f"report.pdf has {len(DOCUMENT)} bytes"
