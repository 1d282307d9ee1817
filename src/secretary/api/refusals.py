"""With which errors each operation can answer: for the API's own description."""

from .access import is_open
from .answers import Answer, header
from .bodies import INGRESS_PATHS
from .conferences import PATH as FROM_SCHEDULE
from .errors import ERROR_SCHEMAS, JOB_STATUS, error_kind
from .file_batches import PATH as FROM_FILES
from .schemas import Schema, ref

REASONS = {
    400: "The request does not fit; `details.problems` names each field",
    401: "The API key is missing or not valid",
    403: "The caller may not do this",
    404: "There is no such thing, or none that the caller may see",
    409: "It does not fit the state that the job, batch or key is in",
    413: "The request is too large",
    415: "The file is not of a kind that this route takes",
    416: "The file has no such range",
    422: "The Idempotency-Key belongs to another request, or the file cannot be read",
    429: "There were too many requests or wrong keys",
    500: "A fault of the service",
    502: "The source or a service that the job needs gave no usable answer",
    503: "The store or an engine cannot be used at the moment",
    504: "The job ran past its time limit",
}
HEADERS = {
    401: {"WWW-Authenticate": header("How to show a key", type="string")},
    416: {"Content-Range": header("How long the file is", type="string")},
    429: {"Retry-After": header("In so many seconds it is allowed again", type="integer")},
    503: {"Retry-After": header("In so many seconds", required=False, type="integer")},
}


def refusals(path: str, method: str, operation: Schema) -> Schema:
    """By status, as references to `refusal_responses`."""
    kind = error_kind(path)
    return {
        str(status): {"$ref": f"#/components/responses/{kind}{status}"}
        for status in sorted(_statuses(path, method, operation))
    }


def refusal_responses() -> Schema:
    return {
        f"{kind}{status}": Answer(text, ref(kind), headers=HEADERS.get(status, {})).described()
        for kind in ERROR_SCHEMAS
        for status, text in REASONS.items()
    }


def _statuses(path: str, method: str, operation: Schema) -> set[int]:
    statuses = {500, 503}
    if not is_open(path):
        statuses |= {400, 401, 403, 429}  # a user's name, too, can be wrong
    if "{" in path:
        statuses |= {404}
        if method != "get":
            statuses |= {409}
    if "requestBody" in operation:
        statuses |= {400, 413}
    names = {parameter["name"] for parameter in operation.get("parameters", ())}
    if "Idempotency-Key" in names:
        statuses |= {409, 422}
    if path in INGRESS_PATHS:
        statuses |= {415, *JOB_STATUS.values()}
    if path == FROM_FILES:
        statuses |= {415}
    if path == FROM_SCHEDULE:
        statuses |= {415, 422}
    if "206" in operation["responses"]:
        statuses |= {416}
    return statuses
