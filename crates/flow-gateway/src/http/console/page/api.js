// Requests to the gateway. The key is kept for this tab alone.

const KEY = "flow-api-key";

/** A request failed. */
export class Failed extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** The API key, if there is one. */
export const key = () => sessionStorage.getItem(KEY);

/** Keeps a key, or forgets it. */
export const keep = (text) => (text ? sessionStorage.setItem(KEY, text) : sessionStorage.removeItem(KEY));

const headers = (more) => (key() ? { ...more, authorization: "Bearer " + key() } : more);

const message = (body, response) => {
  try {
    const json = JSON.parse(body);
    const said = json.detail ?? json.error?.message ?? json.error ?? json.message;
    if (said) return typeof said === "string" ? said : JSON.stringify(said);
  } catch { /* It is not JSON. */ }
  return body.slice(0, 500) || `HTTP ${response.status} ${response.statusText}`;
};

/** The console's own data. */
export const data = async (path) => {
  const response = await fetch("_console/api/" + path, { headers: headers({ "x-flow-console": "1" }), cache: "no-store" });
  const body = await response.text();
  if (!response.ok) throw new Failed(response.status, message(body, response));
  return JSON.parse(body);
};

/** Changes the flow. */
export const act = async (action) => {
  const response = await fetch("_console/api/actions", {
    method: "POST",
    headers: headers({ "x-flow-console": "1", "content-type": "application/json" }),
    body: JSON.stringify(action),
  });
  const body = await response.text();
  if (!response.ok) throw new Failed(response.status, message(body, response));
  return JSON.parse(body);
};

/** Calls an endpoint as any client does. */
export const call = async (endpoint, request) => {
  const began = performance.now();
  const response = await fetch(endpoint.replace(/^\//, ""), {
    method: "POST",
    headers: headers({ "content-type": "application/json", accept: "application/json" }),
    body: JSON.stringify(request),
  });
  const body = await response.text();
  const took = performance.now() - began;
  if (!response.ok) throw new Failed(response.status, message(body, response));
  return { json: JSON.parse(body), took, bytes: body.length, id: response.headers.get("x-request-id") };
};
