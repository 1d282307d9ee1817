"""The schedule of a conference in, a batch of session jobs out."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from ..core.errors import FileCorrupt, FileTooLarge, InvalidParameters, UnsupportedFile
from ..core.job import JobError, new_id
from ..jobs.conference_import import ConferenceImporter, ScheduleRequest, batch_request
from ..jobs.submission import parse_request
from .auth import Caller
from .batches import answered
from .dependencies import Key, job_service_of, traced
from .errors import job_error_response
from .forms import Fields, Form, callback, read_form
from .schemas import ADDRESS, FILE, TEXT, TEXTS, Schema, ref

router = APIRouter(prefix="/api", tags=["batches"])

PATH = "/api/batches/from-schedule"
SOURCES = ("url", "schedule")
EXAMPLE = {
    "schedule": '<schedule><conference><title>MiniCon</title></conference><day date="2031-02-01">'
    '<room name="Hall"><event id="1"><title>Ducks in a row</title><start>10:00</start>'
    "<url>https://example.org/talks/1</url><track>Birds</track></event></room></day></schedule>",
    "track": "Birds",
    "target_language": "de",
}
#: Heard here, and no parameters of jobs.
OF_THE_CALL = (*SOURCES, "callback_url", "callback_token", "job_id")


@router.post("/batches/from-schedule", status_code=202)
async def submit_schedule(request: Request, user: Caller, key: Key = None) -> JSONResponse:
    """Hand in a session job for each talk of a conference's schedule, all or none."""
    job_service, place = job_service_of(request), new_id("job")
    form = await read_form(
        request,
        job_service.files.uploads.of_this_machine(),
        job_id=place,
        max_fields_bytes=request.app.state.max_body_bytes,
    )
    try:
        asked, source = _asked(form)
        talks = await _talks(request, form, place, asked, source)
    except (FileCorrupt, FileTooLarge, UnsupportedFile) as error:
        told = JobError(code=error.code, message=error.message, details=error.details)
        return job_error_response(told)
    finally:
        await job_service.files.uploads.put_away(place)
    batch = traced(request, batch_request(asked, talks))
    return answered(request, *await job_service.submit_batch(batch, user=user, key=key))


async def _talks(
    request: Request, form: Form, place: str, asked: ScheduleRequest, source: Any
) -> list[dict[str, Any]]:
    schedules: ConferenceImporter = request.app.state.schedules
    if form.upload is not None:
        path = job_service_of(request).files.uploads.path_of(place, form.upload.source())
        return await schedules.read(await asyncio.to_thread(path.read_bytes), asked)
    if isinstance(source, bytes):
        return await schedules.read(source, asked)
    return await schedules.fetch(source, asked)


def _asked(form: Form) -> tuple[ScheduleRequest, Any]:
    """What is wanted, and the schedule itself or where it is."""
    fields = Fields(form.fields)
    control, about = fields.take(OF_THE_CALL), fields.take(ScheduleRequest.model_fields)
    if "webhook" not in about and "callback_url" in control:
        about["webhook"] = callback(control)
    return parse_request(ScheduleRequest, {**fields.rest, **about}), _source(control, form)


def _source(control: Mapping[str, Any], form: Form) -> Any:
    given = [name for name in SOURCES if name in control]
    if len(given) + (form.upload is not None) != 1:
        raise InvalidParameters("file: one of a file, a url and a schedule is needed")
    if not given:
        return None
    value = control[given[0]]
    if given == ["schedule"]:
        text = value if isinstance(value, str) else json.dumps(value)
        return text.encode("utf-8", "replace")
    if not isinstance(value, str):
        raise InvalidParameters("url: it must be a text")
    return value


def schedule_body(parameters: Schema) -> Schema:
    """For the API's own description; `parameters` are those of a session job."""
    several: Schema = {"anyOf": [TEXT, TEXTS]}
    own: Schema = {
        "url": ADDRESS,
        "schedule": {"type": ["string", "object"], "description": "The schedule itself"},
        "event": {**TEXT, "description": "What the conference is to be called"},
        "track": {**several, "description": "Only these; `*` stands for anything"},
        "day": {**several, "description": "Only these: a date, a number or a weekday"},
        "title": {**several, "description": "Only talks with this in their title"},
        "batch_name": TEXT,
        "webhook": ref("Webhook"),
    }
    plain = {**parameters.get("properties", {}), **own}
    as_text: Schema = dict.fromkeys(own, TEXT)
    return {
        "required": True,
        "content": {
            "application/json": {"schema": _one_of(plain, *SOURCES), "example": EXAMPLE},
            "multipart/form-data": {"schema": _one_of({"file": FILE} | as_text, "file", *SOURCES)},
            "application/x-www-form-urlencoded": {"schema": _one_of(as_text, *SOURCES)},
        },
    }


def _one_of(properties: Schema, *names: str) -> Schema:
    choices = [{"required": [name]} for name in names]
    return {"type": "object", "properties": properties, "oneOf": choices}
