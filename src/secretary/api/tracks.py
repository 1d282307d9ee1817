"""Routes for the tracks of conferences: which there are, and summaries of their talks."""

import asyncio
from collections.abc import Sequence
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field

from ..core.errors import InvalidParameters, NotFound
from ..core.job import Job, JobStatus, UtcTime, iso, new_id, utc_now
from ..jobs.handler import Registry
from ..jobs.service import JobService
from ..jobs.submission import BatchRequest, JobRequest, parse_request
from ..jobs.tracks import Track, encode_talks, find_track, list_tracks
from ..storage.sources import Upload
from .auth import Caller
from .ingress import (
    CALL_FIELDS,
    JOB_FIELDS,
    PREFER,
    RESPONSES,
    SOURCES,
    WAITS,
    Accepted,
    CallFields,
    applied_preference,
    parameters_of,
    wait_for_result,
    wait_seconds,
)
from .models import EnqueuedBatch, Envelope, ProcessInfo, RequestInfo, ResponseModel
from .openapi import error_responses, form_body, make_router, properties_of
from .requests import Fields, Form, IdempotencyKey, job_service_of, read_form, with_trace
from .responses import accepted, enqueued, job_error_response, success

JOB_TYPE = "track"
FILE_NAME = "talks.jsonl"
#: More tracks than any conference has.
MAX_TRACKS = 500


class AvailableSession(ResponseModel):
    title: str
    language: str
    job_id: str


class AvailableTrack(ResponseModel):
    track_name: str
    event: str
    session_count: int
    sessions: list[AvailableSession]


class AvailableTracks(ResponseModel):
    tracks: list[AvailableTrack]
    track_count: int
    total_session_count: int
    generated_at: UtcTime


class TrackOutcome(ResponseModel):
    track_name: str
    event: str
    job_id: str
    status: JobStatus
    error: Any = None


class TrackOutcomes(ResponseModel):
    batch_id: str
    tracks: list[TrackOutcome]


class TrackCounts(ResponseModel):
    total_tracks: int
    successful_tracks: int
    failed_tracks: int


class AllTracks(ResponseModel):
    """The outcome for each track. `status` is `success` if a summary of any track was written."""

    status: Literal["success"]
    request: RequestInfo
    process: ProcessInfo
    summary: TrackCounts
    data: TrackOutcomes
    error: None


class TrackFields(CallFields):
    event: str = Field(description="The conference, if several have a track of this name")


def tracks_router(registry: Registry) -> APIRouter:
    """Request bodies are documented with the parameters of the registered `track` type."""
    router = make_router("tracks")
    own = ("track", *SOURCES)
    parameters = parameters_of(registry, JOB_TYPE)
    parameters = {name: schema for name, schema in parameters.items() if name not in own}
    body = form_body(properties_of(TrackFields) | parameters)
    options: dict[str, Any] = {
        "methods": ["POST"],
        "status_code": 202,
        "response_description": "The request does not wait, or the time is over",
        "openapi_extra": {"parameters": [PREFER], **body},
    }
    router.add_api_route(
        "/tracks/available",
        available,
        methods=["GET"],
        name="list_tracks",
        response_model=Envelope[AvailableTracks],
    )
    router.add_api_route(
        "/tracks/*/summarize_all",
        summarize_all,
        name="summarize_all_tracks",
        summary="Summarize all tracks",
        description=f"Create a `track` job for each track. {WAITS}",
        response_model=Envelope[EnqueuedBatch],
        responses=RESPONSES
        | error_responses((404,))
        | {200: {"model": AllTracks, "description": "All jobs have ended"}},
        **options,
    )
    router.add_api_route(
        "/tracks/{name:path}/summary",
        summarize,
        name="summarize_track",
        summary="Summarize a track",
        description=f"Create a `track` job for the talks of a track. {WAITS}",
        response_model=Accepted,
        responses=RESPONSES,
        **options,
    )
    return router


async def available(request: Request, user: Caller) -> Response:
    """List the tracks of all talks that the caller may read."""
    tracks = await list_tracks(job_service_of(request), user=user)
    listed: list[dict[str, Any]] = [
        {
            "track_name": track.name,
            "event": track.event,
            "session_count": len(talks := track.talks(None)),
            "sessions": [
                {"title": talk.title, "language": talk.language, "job_id": talk.job.job_id}
                for talk in talks
            ],
        }
        for track in tracks
    ]
    data = {
        "tracks": listed,
        "track_count": len(listed),
        "total_session_count": sum(track["session_count"] for track in listed),
        "generated_at": iso(utc_now()),
    }
    return success(request, "tracks", data)


async def summarize(
    request: Request, name: str, user: Caller, key: IdempotencyKey = None
) -> Response:
    job_service = job_service_of(request)
    form = await _read(request, job_service)
    event = form.fields.get("event")
    tracks = await list_tracks(job_service, user=user)
    track = find_track(tracks, name, event=event if isinstance(event, str) else None)
    submitted = with_trace(request, _submission(form, track))
    seconds = wait_seconds(request, form.fields, submitted, waits=True)
    uploads = await _collect(job_service, [track], submitted)
    async with job_service.adding(uploads) as job_ids:
        job = await job_service.submit(submitted, user=user, key=key, uploads=uploads)
        job_ids.append(job.job_id)
    response = await wait_for_result(request, job.job_id, seconds) if seconds else None
    response = response or accepted(job, job_service.warnings(submitted))
    if applied := applied_preference(request, waited=bool(seconds)):
        response.headers["Preference-Applied"] = applied
    return response


async def summarize_all(request: Request, user: Caller, key: IdempotencyKey = None) -> Response:
    job_service = job_service_of(request)
    form = await _read(request, job_service)
    tracks = (await list_tracks(job_service, user=user))[:MAX_TRACKS]
    if event := form.fields.get("event"):
        tracks = [track for track in tracks if track.event == event]
    if not tracks:
        raise NotFound("There are no tracks: no talks that you may read")
    submissions = [_submission(form, track) for track in tracks]
    first = submissions[0]
    seconds = wait_seconds(request, form.fields, first, waits=True)
    batch = BatchRequest(
        batch_name="Track summaries",
        jobs=[one.model_copy(update={"webhook": None}) for one in submissions],
        webhook=first.webhook,
    )
    uploads = await _collect(job_service, tracks, first)
    async with job_service.adding(uploads) as job_ids:
        stored = await job_service.submit_batch(
            with_trace(request, batch), user=user, key=key, uploads=uploads
        )
        job_ids += stored[1]
    ended = await _wait_for_all(request, stored[1], seconds) if seconds else None
    if ended is None:
        data = {"batch_id": stored[0].batch_id, "job_ids": stored[1], "batch": stored[0].document()}
        location = f"/api/batches/{stored[0].batch_id}"
        return enqueued(request, location, data, job_service.warnings(batch))
    return _outcomes(request, stored[0].batch_id, ended)


async def _read(request: Request, job_service: JobService) -> Form:
    form = await read_form(request, job_service.files.uploads, job_id=new_id("job"))
    if form.upload is not None:
        await job_service.files.uploads.remove(form.upload.job_id)
        raise InvalidParameters("file: this route takes no file; it summarizes finished talks")
    return form


def _submission(form: Form, track: Track) -> JobRequest:
    fields = Fields(form.fields)
    call = fields.take(CALL_FIELDS)
    job = fields.take(JOB_FIELDS, callback=call)
    fields.take(SOURCES)
    parameters = {**fields.rest, "track": track.name, "event": track.event}
    return parse_request(JobRequest, {**job, "job_type": JOB_TYPE, "parameters": parameters})


async def _collect(
    job_service: JobService, tracks: Sequence[Track], submitted: JobRequest
) -> list[Upload]:
    """Store the talks of each track as the upload of its job; on errors, none is left behind."""
    language = submitted.parameters.get("target_language") or submitted.parameters.get(
        "targetLanguage"
    )
    uploads: list[Upload] = []
    store = job_service.files.uploads
    try:
        for track in tracks:
            talks = track.talks(language if isinstance(language, str) else None)
            lines = encode_talks(job_service, talks)
            uploads.append(await store.receive(new_id("job"), FILE_NAME, lines))
    except BaseException:
        for upload in uploads:
            await store.remove(upload.job_id)
        raise
    return uploads


async def _wait_for_all(
    request: Request, job_ids: Sequence[str], seconds: float
) -> list[Job] | None:
    hub = request.app.state.hub
    ended = await asyncio.gather(*(hub.wait_until_final(job_id, seconds) for job_id in job_ids))
    return None if None in ended else [*ended]


def _outcomes(request: Request, batch_id: str, jobs: Sequence[Job]) -> Response:
    failed = [job for job in jobs if job.status is not JobStatus.COMPLETED]
    if len(failed) == len(jobs) and failed[0].error is not None:
        return job_error_response(failed[0].error)
    outcomes = [
        {
            "track_name": job.parameters.get("track"),
            "event": job.parameters.get("event"),
            "job_id": job.job_id,
            "status": job.status,
            "error": job.error.model_dump(mode="json") if job.error else None,
        }
        for job in jobs
    ]
    summary = {
        "total_tracks": len(jobs),
        "successful_tracks": len(jobs) - len(failed),
        "failed_tracks": len(failed),
    }
    data = {"batch_id": batch_id, "tracks": outcomes}
    return success(request, JOB_TYPE, data, process_id=batch_id, more={"summary": summary})
