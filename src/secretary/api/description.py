"""The API's own description (OpenAPI): FastAPI's, with what we know better."""

from fastapi import FastAPI
from fastapi.routing import APIRoute

from ..registry import Registry
from .access import is_open, security_schemes
from .answer_parts import ANSWER_PARTS
from .answers import ANSWERS
from .bodies import (
    batch_body,
    complete_parameters,
    complete_requests,
    form_body,
    parameters_of,
    parts_of_forms,
)
from .conferences import PATH as FROM_SCHEDULE
from .conferences import schedule_body
from .documents import documents
from .errors import ERROR_SCHEMAS
from .file_batches import PATH as FROM_FILES
from .file_batches import files_body
from .ingress import ROUTES
from .refusals import refusal_responses, refusals
from .schemas import Schema

BATCH_PATHS = ("/api/batches", "/api/jobs/batch", "/api/event-job/batches")


def describe(api: FastAPI) -> Schema:
    if api.openapi_schema is None:
        _name_operations(api)
        document = FastAPI.openapi(api)
        registry: Registry = api.state.desk.registry
        _complete_bodies(document["paths"], registry)
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                _complete(path, method, operation)
        components = document["components"]
        for unused in ("HTTPValidationError", "ValidationError"):
            components["schemas"].pop(unused, None)
        complete_requests(components["schemas"])
        parts = parts_of_forms(registry)
        components["schemas"] |= parts | ERROR_SCHEMAS | documents() | ANSWER_PARTS
        components["responses"] = refusal_responses()
        components["securitySchemes"] = security_schemes()
    return api.openapi_schema or {}


def _name_operations(api: FastAPI) -> None:
    """As the functions are called; the framework adds path and method to it."""
    for route in api.routes:
        if isinstance(route, APIRoute):
            route.operation_id = route.unique_id = route.name


def _complete_bodies(paths: Schema, registry: Registry) -> None:
    for ingress in ROUTES:
        paths[f"/api{ingress.path}"]["post"]["requestBody"] = form_body(ingress, registry)
    session = parameters_of("session", registry)
    paths[FROM_SCHEDULE]["post"]["requestBody"] = schedule_body(session)
    paths[FROM_FILES]["post"]["requestBody"] = files_body()
    for path in BATCH_PATHS:
        paths[path]["post"]["requestBody"] = batch_body()


def _complete(path: str, method: str, operation: Schema) -> None:
    answers = ANSWERS[f"{method.upper()} {path}"]
    operation["responses"] = {str(status): one.described() for status, one in answers.items()}
    complete_parameters(path, operation)
    operation["responses"] |= refusals(path, method, operation)
    if not is_open(path):
        operation["security"] = [{"bearer": []}, {"key": []}]
