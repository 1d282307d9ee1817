"""Every call of the application, with its headers and fields and what it reads from the answer."""

import json
import secrets
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import httpx

from ..no_tls import NO_TLS
from .readers import ClientFailure, events, front_matter, require

File = tuple[str, bytes, str]
#: Limits until the headers arrive; 300 is that of the runtime.
RUNTIME_LIMIT = 300.0
SUBMISSION_LIMIT = 60.0
MAX_IMAGES = 10
STREAM_TRIES = 3
#: Of the application's vector index.
DIMENSIONS = 2048


class ServiceError(ClientFailure):
    """An answer with status 400 or higher, as the application shows it."""

    def __init__(self, status: int, code: str | None, message: str) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status, self.code, self.message = status, code, message


class Calls:
    """The application's calls. `base_url` ends in `/api`."""

    def __init__(self, base_url: str, key: str) -> None:
        self.base_url = base_url.rstrip("/")
        self._bearer = {"Authorization": f"Bearer {key}"}
        self._both = {**self._bearer, "X-Secretary-Api-Key": key}
        self._http = httpx.Client(verify=NO_TLS, trust_env=False, timeout=RUNTIME_LIMIT)

    def close(self) -> None:
        self._http.close()

    # Jobs

    def submit(self, path: str, file: File, **fields: str) -> httpx.Response:
        """A job with the application's queue, with or without a callback."""
        headers = {**self._both, "x-worker": "true"}
        return self._form(path, file, fields, headers=headers, limit=SUBMISSION_LIMIT)

    def submit_pdf(self, file: File, **fields: str) -> httpx.Response:
        """The default for every PDF."""
        options = {"includeOCRImages": "true", "includePreviewPages": "true"}
        options |= {"includeHighResPages": "true", "useCache": "true"}
        return self.submit("pdf/process-mistral-ocr", file, **options, **fields)

    def submit_pdf_by_method(self, file: File, method: str, **fields: str) -> httpx.Response:
        options = {"target_language": "de", "extraction_method": method}
        options |= {"useCache": "true", "includeImages": "false", **fields}
        return self.submit("pdf/process", file, **options)

    def submit_office(self, file: File, **fields: str) -> httpx.Response:
        options = {"useCache": "true", "includeImages": "true", "includePreviews": "true"}
        options |= {"jobId": str(uuid.uuid4()), "force_refresh": "false"}
        return self.submit("office/process", file, **options, **fields)

    def submit_recording(self, path: str, file: File, **fields: str) -> httpx.Response:
        options = {"target_language": "de", "source_language": "auto", "useCache": "true"}
        return self.submit(path, file, **(options | fields))

    def desktop_result(self, response: httpx.Response) -> dict[str, Any]:
        """Without a callback: 200 is the result, 202 means the stream."""
        if response.status_code == 200:
            data: dict[str, Any] = _json(response)["data"]
            return data
        require(response.status_code == 202, f"{response.status_code}: {response.text[:500]}")
        job_id = _json(response)["job"]["id"]
        require(isinstance(job_id, str), "no job.id")
        for _ in range(STREAM_TRIES):
            result = self.streamed_result(job_id) or self.polled_result(job_id)
            if result is not None:
                inner = result.get("data")
                has_inner = "extracted_text" not in result and isinstance(inner, dict)
                return inner if has_inner and inner else result
            time.sleep(0.5)
        raise ClientFailure("the stream closed unexpectedly")

    def streamed_result(self, job_id: str) -> dict[str, Any] | None:
        headers = {**self._bearer, "Accept": "text/event-stream"}
        url = f"{self.base_url}/jobs/{job_id}/stream"
        with self._http.stream("GET", url, headers=headers) as response:
            require(response.status_code == 200, f"{response.status_code} for the stream")
            for name, event in events(response.iter_lines()):
                if name == "progress":
                    require(isinstance(event["data"]["progress"], int | float), "no progress")
                if name == "completed":
                    data: dict[str, Any] = event["data"]
                    require("results" not in data, "data.results hides the data of the event")
                    return data
                if name == "error":
                    raise ServiceError(200, event["error"].get("code"), event["error"]["message"])
        return None

    def polled_result(self, job_id: str) -> dict[str, Any] | None:
        job = self.job(job_id)
        if job["status"] == "failed":
            raise ServiceError(200, job["error"].get("code"), job["error"]["message"])
        results: dict[str, Any] | None = job["results"] if job["status"] == "completed" else None
        return results

    def job(self, job_id: str) -> dict[str, Any]:
        url = f"{self.base_url}/jobs/{job_id}"
        job: dict[str, Any] = _json(self._http.get(url, headers=self._bearer))["data"]
        return job

    # Downloads

    def download(self, url: str) -> bytes:
        """A relative or absolute URL from an event; there is no second try."""
        absolute = url if "://" in url else self.base_url.removesuffix("/api") + url
        response = self._http.get(absolute, headers=self._both)
        require(response.status_code == 200, f"{response.status_code} for {url}: {response.text}")
        return response.content

    def raw_ocr(self, process_id: str) -> dict[str, Any]:
        content = self.download(f"/api/pdf/jobs/{process_id}/mistral-ocr-raw")
        raw: dict[str, Any] = json.loads(content)
        require(isinstance(raw["pages"], list), "no pages")
        return raw

    # Recordings and pictures, directly

    def dictation(self, file: File, **fields: str) -> str:
        options = {"source_language": "de", "target_language": "de", "useCache": "false"}
        data = self._result(self._form("audio/process", file, options | fields))
        named = [data.get(each) for each in ("output_text", "translated_text", "original_text")]
        spoken = (data.get("transcription") or {}).get("text")
        pieces = " ".join(each["text"] for each in data.get("segments") or ())
        text = next((each for each in (*named, spoken, pieces) if each), None)
        require(isinstance(text, str), "no transcription received")
        return str(text)

    def upload_recording(self, path: str, file: File, **fields: str) -> dict[str, Any]:
        """The dialogs; returns the whole envelope."""
        options = {"target_language": "de", "source_language": "auto", "useCache": "true"}
        envelope = self._envelope(self._form(path, file, options | fields))
        transcription = envelope["data"]["transcription"]
        require(transcription["text"], "no text")
        require(isinstance(transcription["source_language"], str), "no source_language")
        require("chapters" not in (envelope["data"].get("metadata") or {}), "metadata.chapters")
        _check_process(envelope["process"])
        return envelope

    def read_picture(self, file: File, method: str = "ocr", **fields: str) -> dict[str, Any]:
        options = {"extraction_method": method, "useCache": "true", **fields}
        envelope = self._envelope(self._form("imageocr/process", file, options))
        data: dict[str, Any] = envelope["data"]
        require(isinstance(data["extracted_text"], str), "no extracted_text")
        dpi = (data.get("metadata") or {}).get("dpi")
        is_numbers = isinstance(dpi, list) and all(isinstance(each, int | float) for each in dpi)
        require(dpi is None or is_numbers, f"metadata.dpi is {dpi!r}")
        _check_process(envelope["process"])
        return data

    def describe_picture(self, template: str, *files: File, **fields: str) -> str:
        """One image as `file`, several as `files`."""
        require(len(files) <= MAX_IMAGES, "too many")
        name = "file" if len(files) == 1 else "files"
        context: dict[str, Any] = {"fileName": files[0][0], "mimeType": files[0][2]}
        context |= {"libraryId": "library-1", "filePath": "Bilder", "fileExtension": "png"}
        if len(files) > 1:
            context |= {"compositeKind": "composite-multi", "imageCount": len(files)}
            context["imageNames"] = [file[0] for file in files]
        data = {"template_content": template, "target_language": "de", "useCache": "false"}
        data |= {"context": json.dumps(context), **fields}
        headers = {"X-Job-Id": "1", "X-Source-Item-Id": "2", "X-Worker-Pool-Id": "3"}
        response = self._http.post(
            f"{self.base_url}/image-analyzer/process",
            files=[(name, file) for file in files],
            data={key: _as_form(value) for key, value in data.items()},
            headers={**self._both, **headers, "X-Start-Request-Id": "4", "X-Worker-Id": "5"},
        )
        text = self._result(response)["text"]
        require(isinstance(text, str) and text, "no text")
        front_matter(text)
        return str(text)

    # Templates, texts, chat

    def apply_template(self, text: str, template: str, **fields: Any) -> dict[str, Any]:
        """As jobs, translations and reports do."""
        body = {
            "text": text,
            "template_content": template,
            "source_language": "de",
            "target_language": "de",
            "context": {},
            "additional_field_descriptions": {},
            "use_cache": False,
            "callback_url": None,
            "callback_token": None,
            "wait_ms": 0,
            **fields,
        }
        data = self._result(self._json("transformer/template", body))
        require(isinstance(data.get("structured_data"), dict), "no structured_data")
        structured: dict[str, Any] = data["structured_data"]
        return structured

    def transform_text(self, text: str, **template: str) -> dict[str, Any]:
        """The dialog "transform text": a multipart form without a file."""
        fields = {"text": text, "target_language": "de", "use_cache": "false", **template}
        parts = {name: (None, _as_form(value)) for name, value in fields.items()}
        response = self._http.post(
            f"{self.base_url}/transformer/template", files=parts, headers=self._both
        )
        data = self._result(response)
        require(isinstance(data["text"], str) and data["text"], "no text")
        require(isinstance(data["structured_data"], dict), "no structured_data")
        return data

    def read_web_page(self, url: str, **fields: str) -> dict[str, Any]:
        options = {"url": url, "source_language": "en", "target_language": "en"}
        options |= {"use_cache": "false", **fields}
        if "template_content" not in fields:
            options.setdefault("template", "ExtractSessionDataFromWebsite")
        response = self._http.post(
            f"{self.base_url}/transformer/template", data=options, headers=self._both
        )
        data = self._result(response)
        require(isinstance(data["structured_data"], dict | list), "no structured_data")
        require(isinstance(data["text"], str), "no text")
        return data

    def translate(self, text: str, source: str, target: str) -> str:
        body = {"text": text, "source_language": source, "target_language": target}
        translated = self._result(self._json("transformer/text", {**body, "use_cache": True}))
        require(isinstance(translated["text"], str), "no text")
        return str(translated["text"])

    def chat(self, *messages: Mapping[str, str], **fields: Any) -> dict[str, Any]:
        body = {"messages": list(messages), "model": "google/gemini-2.5-flash", "temperature": 0.3}
        body |= {"response_format": "text", "use_cache": True, "timeout_ms": 240_000, **fields}
        envelope = self._envelope(self._json("transformer/chat", body))
        data: dict[str, Any] = envelope["data"]
        if body["response_format"] == "json_object":
            require(isinstance(data["structured_data"], dict), "no structured_data")
        else:
            require(isinstance(data["text"], str), "no text")
        _check_process(envelope["process"])
        return data

    def chat_json(
        self, *messages: Mapping[str, str], schema: Mapping[str, Any], **fields: Any
    ) -> dict[str, Any]:
        form = {"response_format": "json_object", "schema_json": json.dumps(schema)}
        data = self.chat(*messages, **form, strict=False, **fields)
        structured: dict[str, Any] = data["structured_data"]
        return structured

    # Embeddings and generated images

    def embed_document(self, markdown: str, document_id: str, **fields: Any) -> list[Any]:
        metadata = {"fileName": "a.pdf", "libraryId": "library-1", "userEmail": "ada@example.org"}
        body = {"document_id": document_id, "chunk_size": 1000, "chunk_overlap": 200}
        return self._embed(markdown, {**body, "metadata": metadata, **fields})

    def embed_question(self, question: str) -> list[float]:
        body = {"chunk_size": len(question) + 100, "chunk_overlap": 0}
        chunks = self._embed(question, {**body, "metadata": {"type": "query"}})
        require(len(chunks) == 1, f"{len(chunks)} chunks for a question")
        vector: list[float] = chunks[0]["embedding"]
        return vector

    def _embed(self, markdown: str, fields: Mapping[str, Any]) -> list[Any]:
        body = {"markdown": markdown, "embedding_model": "voyage-3-large", **fields}
        body["embedding_dimensions"] = DIMENSIONS
        data = self._result(self._json("rag/embed-text", body, limit=60))
        chunks: list[Any] = data["chunks"]
        require(chunks, "no chunks")
        indices = [chunk["chunk_index"] for chunk in chunks]
        require(indices == list(range(len(chunks))), f"chunk_index is {indices}")
        for chunk in chunks:
            vector = chunk["embedding"]
            require(len(vector) == DIMENSIONS, f"{len(vector)} dimensions")
            require(isinstance(chunk["text"], str), "no text")
            require(chunk["metadata"] == {}, "the chunk's metadata would replace stored fields")
        return chunks

    def generate_image(self, prompt: str, **fields: Any) -> list[dict[str, Any]]:
        body = {"prompt": prompt, "size": "1024x1024", "quality": "standard", "n": 1}
        envelope = self._envelope(self._json("text2image/generate", {**body, **fields}, limit=180))
        data = envelope["data"]
        images: list[dict[str, Any]] = data.get("images") or [data]
        for image in images:
            encoded = image["image_base64"]
            require(encoded and not encoded.startswith("data:"), "image_base64 is a data URL")
            require(image["image_format"], "no image_format")
        return images

    # Conferences

    def process_session(self, **fields: Any) -> dict[str, Any]:
        body = {"source_language": "en", "target_language": "de", "template": "Session_analyze"}
        fields = {"use_cache": False, "create_archive": True, **body, **fields}
        output: dict[str, Any] = self._result(self._json("session/process", fields))["output"]
        stored = output.get("archive_data") and output.get("archive_filename")
        stored = stored or (output.get("markdown_content") and output.get("markdown_file"))
        require(stored, "neither an archive nor a document")
        return output

    def summarize_track(self, name: str, **fields: Any) -> dict[str, Any]:
        path = f"tracks/{quote(name, safe='')}/summary"
        return self._track(path, fields)

    def summarize_all_tracks(self, **fields: Any) -> dict[str, Any]:
        envelope = self._track("tracks/*/summarize_all", fields)
        summary: dict[str, Any] = envelope["summary"]
        for name in ("successful_tracks", "failed_tracks"):
            require(isinstance(summary[name], int), f"no summary.{name}")
        return summary

    def available_tracks(self) -> dict[str, Any]:
        headers = {**self._bearer, "X-Library-Id": "library-1"}
        response = self._http.get(f"{self.base_url}/tracks/available", headers=headers)
        return self._result(response)

    def _track(self, path: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        body = {"template": "track_eco_social", "target_language": "de", "useCache": False}
        response = self._http.post(
            f"{self.base_url}/{path}", json={**body, **fields}, headers=self._bearer
        )
        return self._envelope(response)

    # Requests and answers

    def _form(
        self,
        path: str,
        file: File,
        fields: Mapping[str, str],
        *,
        headers: Mapping[str, str] | None = None,
        limit: float = RUNTIME_LIMIT,
    ) -> httpx.Response:
        return self._http.post(
            f"{self.base_url}/{path}",
            files={"file": file},
            data={name: _as_form(value) for name, value in fields.items()},
            headers=headers or self._both,
            timeout=limit,
        )

    def _json(self, path: str, body: object, *, limit: float = RUNTIME_LIMIT) -> httpx.Response:
        url = f"{self.base_url}/{path}"
        return self._http.post(url, json=body, headers=self._both, timeout=limit)

    def _envelope(self, response: httpx.Response) -> dict[str, Any]:
        envelope = _json(response)
        require(response.status_code == 200, f"{response.status_code}: no result")
        require(envelope["status"] == "success", f"status is {envelope['status']}")
        require(not envelope.get("error"), f"error is {envelope.get('error')}")
        return envelope

    def _result(self, response: httpx.Response) -> dict[str, Any]:
        data: dict[str, Any] = self._envelope(response)["data"]
        return data


def new_token() -> str:
    return secrets.token_urlsafe(24)


def _as_form(value: str) -> str:
    """Form encoders normalize line ends."""
    return value.replace("\r\n", "\n").replace("\n", "\r\n")


def _json(response: httpx.Response) -> dict[str, Any]:
    try:
        document: dict[str, Any] = response.json()
    except ValueError:
        raise ClientFailure(f"not JSON: {response.text[:200]!r}") from None
    if response.status_code >= 400:
        error = document.get("error") or document.get("message")
        if isinstance(error, dict):
            raise ServiceError(response.status_code, error.get("code"), error["message"])
        raise ServiceError(response.status_code, None, str(error))
    return document


def _check_process(process: Mapping[str, Any]) -> None:
    require(isinstance(process["id"], str) and process["main_processor"], "no process")
    sub_processors = process.get("sub_processors")
    require(sub_processors is None or isinstance(sub_processors, Sequence), "sub_processors")
    requests = (process.get("llm_info") or {}).get("requests", [])
    require(isinstance(requests, list), "llm_info.requests is not a list")
