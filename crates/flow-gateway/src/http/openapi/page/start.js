// Shows the OpenAPI document of this gateway in Swagger UI. If the document needs an API key, the page asks for one, and sends it
// with every request.

const form = document.getElementById("key-form");
const problem = document.getElementById("problem");
let key = "";
let needsKey = false;

const authorized = (headers) => (key ? { ...headers, authorization: `Bearer ${key}` } : headers);

const show = (spec) => {
  document.title = spec.info.title;
  SwaggerUIBundle({
    spec,
    domNode: document.getElementById("swagger-ui"),
    deepLinking: true,
    // Otherwise an online service would be asked whether the document is valid.
    validatorUrl: null,
    requestInterceptor: (request) => {
      // A key that was given to Swagger UI itself comes first.
      const headers = Object.keys(request.headers).map((name) => name.toLowerCase());
      const hasKey = headers.includes("authorization") || headers.includes("x-api-key");
      if (!hasKey) request.headers = authorized(request.headers);
      return request;
    },
  });
};

const load = async () => {
  problem.textContent = "";
  try {
    const answer = await fetch("openapi.json", { headers: authorized({}) });
    needsKey ||= answer.status === 401 || answer.status === 403;
    form.hidden = answer.ok || !needsKey;
    if (answer.ok) {
      show(await answer.json());
    } else if (key || form.hidden) {
      problem.textContent = `The gateway answered ${answer.status}: ${await answer.text()}`;
    }
  } catch (error) {
    problem.textContent = `The gateway did not answer: ${error.message}`;
  }
};

form.addEventListener("submit", (event) => {
  event.preventDefault();
  key = document.getElementById("key").value.trim();
  load();
});

load();
