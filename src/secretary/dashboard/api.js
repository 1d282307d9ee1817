// The HTTP API client: requests, uploads and server-sent events.

const KEY_STORAGE = "secretary.key";
const MIN_RETRY_DELAY = 1000;
const MAX_RETRY_DELAY = 15000;

export const apiKey = {
  get: () => sessionStorage.getItem(KEY_STORAGE),
  set: (value) => sessionStorage.setItem(KEY_STORAGE, value),
  clear: () => sessionStorage.removeItem(KEY_STORAGE),
};

export class ApiError extends Error {
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.code = error.code;
    this.details = error.details;
  }
}

const OFFLINE = { code: "OFFLINE", message: "" };

function authHeaders() {
  const key = apiKey.get();
  // Header values are bytes: a key with non-ASCII characters is sent as UTF-8, as the service expects.
  return key ? { Authorization: `Bearer ${utf8(key)}` } : {};
}

const utf8 = (text) => String.fromCharCode(...new TextEncoder().encode(text));

export async function request(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { ...options, headers: { ...authHeaders(), ...options.headers } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, OFFLINE);
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => null);
  throw apiError(response.status, body?.error ?? { code: "INTERNAL_ERROR", message: `HTTP ${response.status}` });
}

function apiError(status, error) {
  if (status === 401) window.dispatchEvent(new CustomEvent("unauthorized"));
  return new ApiError(status, error);
}

/** GET a route: `data` of its envelope, or the whole body where there is none. */
export async function get(path, options) {
  const body = await (await request(path, options)).json();
  return body.data ?? body;
}

export async function send(method, path, payload) {
  const headers = payload === undefined ? {} : { "Content-Type": "application/json" };
  const response = await request(path, { method, headers, body: payload && JSON.stringify(payload) });
  const body = await response.json();
  return body.data ?? body;
}

export const post = (path, payload) => send("POST", path, payload);

/** POST a form with files; `onProgress` receives the share that has been sent. */
export function upload(path, form, onProgress, signal) {
  return new Promise((resolve, reject) => {
    const xhr = new XMLHttpRequest();
    signal?.addEventListener("abort", () => xhr.abort());
    xhr.onabort = () => reject(new DOMException("", "AbortError"));
    xhr.open("POST", path);
    // The page follows the job by its id, so that it can be left.
    const headers = { ...authHeaders(), Prefer: "respond-async" };
    for (const [name, value] of Object.entries(headers)) xhr.setRequestHeader(name, value);
    xhr.responseType = "json";
    xhr.upload.onprogress = (event) => event.lengthComputable && onProgress(event.loaded / event.total);
    xhr.onload = () => {
      if (xhr.status < 300) resolve(xhr.response);
      else reject(apiError(xhr.status, xhr.response?.error ?? { message: `HTTP ${xhr.status}` }));
    };
    xhr.onerror = () => reject(new ApiError(0, OFFLINE));
    xhr.send(form);
  });
}

/**
 * Subscribes to server-sent events and returns a function that unsubscribes. Uses fetch because
 * EventSource cannot send an API key. Reconnects with the last event ID; `onState` receives
 * "live", "lost" or "over".
 */
export function stream(path, onEvent, onState = () => {}) {
  const controller = new AbortController();
  readStream(path, onEvent, onState, controller.signal);
  return () => controller.abort();
}

async function readStream(path, onEvent, onState, signal) {
  let lastId = null;
  let delay = MIN_RETRY_DELAY;
  while (!signal.aborted) {
    try {
      const headers = { Accept: "text/event-stream", ...(lastId && { "Last-Event-ID": lastId }) };
      const response = await request(path, { headers, signal, cache: "no-store" });
      onState("live");
      delay = MIN_RETRY_DELAY;
      if (response.status === 204) return onState("over");
      for await (const event of readEvents(response.body)) {
        if (signal.aborted) return;
        lastId = event.id ?? lastId;
        onEvent(event);
      }
    } catch (error) {
      if (signal.aborted) return;
      if ([401, 403, 404].includes(error.status)) return onState("over");
      onState("lost");
    }
    if (signal.aborted) return;
    await sleep(delay, signal);
    delay = Math.min(delay * 2, MAX_RETRY_DELAY);
  }
}

function sleep(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}

async function* readEvents(body) {
  let buffer = "";
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    buffer += value;
    const blocks = buffer.split("\n\n");
    buffer = blocks.pop();
    for (const block of blocks) {
      const event = parseEvent(block);
      if (event) yield event;
    }
  }
}

function parseEvent(block) {
  const fields = {};
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) fields[line.slice(0, colon)] = line.slice(colon + 1).replace(/^ /, "");
  }
  return fields.data ? { id: fields.id, name: fields.event, data: JSON.parse(fields.data) } : null;
}
