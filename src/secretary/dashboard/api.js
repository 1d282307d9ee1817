// The public API and its streams: nothing else is asked, and nobody else.

const KEY = "secretary.key";
const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 15000;

export const key = {
  get: () => sessionStorage.getItem(KEY),
  set: (value) => sessionStorage.setItem(KEY, value),
  clear: () => sessionStorage.removeItem(KEY),
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

export function credentials() {
  const known = key.get();
  // Headers carry bytes: a key with other letters is sent as UTF-8, as the service reads it.
  return known ? { Authorization: `Bearer ${bytes(known)}` } : {};
}

const bytes = (text) => String.fromCharCode(...new TextEncoder().encode(text));

async function request(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { ...options, headers: { ...credentials(), ...options.headers } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, OFFLINE);
  }
  if (answer.ok) return answer;
  throw await refusal(answer);
}

async function refusal(answer) {
  const body = await answer.json().catch(() => null);
  const error = body?.error ?? { code: "INTERNAL_ERROR", message: `HTTP ${answer.status}` };
  return refused(answer.status, error);
}

export function refused(status, error) {
  if (status === 401) window.dispatchEvent(new CustomEvent("locked"));
  return new ApiError(status, error);
}

/** What a route tells: `data` of its envelope, or the whole answer where it has none. */
export async function get(path, options) {
  const body = await (await request(path, options)).json();
  return body.data ?? body;
}

export async function send(method, path, body) {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  const answer = await request(path, { method, headers, body: body && JSON.stringify(body) });
  const told = await answer.json();
  return told.data ?? told;
}

export const post = (path, body) => send("POST", path, body);

/** A form with files; says how much of it has been sent. */
export function upload(path, form, onSent, signal) {
  return new Promise((resolve, reject) => {
    const call = new XMLHttpRequest();
    signal?.addEventListener("abort", () => call.abort());
    call.onabort = () => reject(new DOMException("", "AbortError"));
    call.open("POST", path);
    for (const [name, value] of Object.entries(credentials())) call.setRequestHeader(name, value);
    call.responseType = "json";
    call.upload.onprogress = (event) => event.lengthComputable && onSent(event.loaded / event.total);
    call.onload = () => {
      if (call.status < 300) resolve(call.response);
      else reject(refused(call.status, call.response?.error ?? { message: `HTTP ${call.status}` }));
    };
    call.onerror = () => reject(new ApiError(0, OFFLINE));
    call.send(form);
  });
}

/** An address for <img> and players. With a key the file is fetched: tags cannot show a key. */
export async function fileAddress(path) {
  if (!key.get()) return path;
  return URL.createObjectURL(await (await request(path)).blob());
}

export async function save(path, name) {
  const link = document.createElement("a");
  link.href = await fileAddress(path);
  link.download = name;
  link.click();
  if (link.href.startsWith("blob:")) setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

/**
 * Server-sent events, read by fetch because EventSource cannot show a key. Comes back by itself
 * with the last id. `onState` is told "live", "lost" or "over". Gives the way to end it.
 */
export function stream(path, onEvent, onState = () => {}) {
  const control = new AbortController();
  follow(path, onEvent, onState, control.signal);
  return () => control.abort();
}

async function follow(path, onEvent, onState, signal) {
  let last = null;
  let pause = FIRST_PAUSE;
  while (!signal.aborted) {
    try {
      const headers = { Accept: "text/event-stream", ...(last && { "Last-Event-ID": last }) };
      const answer = await request(path, { headers, signal, cache: "no-store" });
      onState("live");
      pause = FIRST_PAUSE;
      if (answer.status === 204) return onState("over");
      for await (const event of events(answer.body)) {
        if (signal.aborted) return;
        last = event.id ?? last;
        onEvent(event);
      }
    } catch (error) {
      if (signal.aborted) return;
      if ([401, 403, 404].includes(error.status)) return onState("over");
      onState("lost");
    }
    if (signal.aborted) return;
    await rest(pause, signal);
    pause = Math.min(pause * 2, LONGEST_PAUSE);
  }
}

function rest(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}

async function* events(body) {
  let text = "";
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const event = parsed(block);
      if (event) yield event;
    }
  }
}

function parsed(block) {
  const found = {};
  for (const line of block.split("\n")) {
    const at = line.indexOf(":");
    if (at > 0) found[line.slice(0, at)] = line.slice(at + 1).replace(/^ /, "");
  }
  return found.data ? { id: found.id, name: found.event, data: JSON.parse(found.data) } : null;
}
